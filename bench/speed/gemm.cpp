// Products at the shapes of Qwen2.5-0.5B and of a tiny model: forward from weights that are in no cache, and both
// gradients.
#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "speed/bench.hpp"

namespace speed {

namespace {

struct shape {
  const char* name;
  rlcore::extent_t outputs, inputs;
  bool backward;
};

constexpr shape shapes[] = {{"gate_up", 9728, 896, true}, {"down", 896, 4864, true},     {"qkv", 1152, 896, false},
                            {"o", 896, 896, false},       {"tiny 256", 256, 256, false}, {"tiny 128", 128, 128, false}};

/// Copies of one weight matrix, taken in turn: a tiny one stays in the cache as it does in a tiny model, the others are
/// more than any cache holds.
class rotating {
 public:
  rotating(rlcore::cpu& device, std::size_t bytes, bool cold) {
    const std::size_t copies = cold ? (std::size_t{768} << 20) / bytes + 1 : 1;
    for (std::size_t k = 0; k < copies; ++k) copies_.emplace_back(device, bytes);
  }
  auto begin() { return copies_.begin(); }
  auto end() { return copies_.end(); }
  const std::byte* next() { return copies_[at_ = (at_ + 1) % copies_.size()].data(); }

 private:
  std::size_t at_ = 0;
  std::vector<rlcore::buffer<std::byte, rlcore::cpu>> copies_;
};

struct job {
  const options& o;
  rlcore::cpu& device;
  const shape& s;
  const char* format_name;

  bool tiny() const { return s.outputs <= 256; }
  std::string name(rlcore::extent_t t, const char* what) const {
    return std::string(s.name) + " t=" + std::to_string(t) + " " + format_name + " " + what;
  }
  template <class F>
  void time(rlcore::extent_t t, const char* what, double weight_bytes, F&& f) const {
    if (!o.wants(name(t, what))) return;
    const double flops = 2 * static_cast<double>(s.outputs * s.inputs * t);
    line l{name(t, what), best_seconds(f, o.budget())};
    const bool by_bytes = t <= 8 && !tiny();
    l.work = by_bytes ? weight_bytes : flops;
    l.unit = by_bytes ? "byte" : "flop";
    l.least = {flops, tiny() ? 0 : weight_bytes, 0, true};
    print(o, l);
  }
  bool any(std::initializer_list<const char*> ways) const {
    for (const rlcore::extent_t t : {1, 8, 64, 512})
      for (const char* way : ways)
        if (o.wants(name(t, way))) return true;
    return false;
  }

  void forward(rlcore::weight_format format) const {
    if (!any({"forward"})) return;
    const auto size = static_cast<std::size_t>(s.outputs * s.inputs);
    rotating weights(device, device.packed_bytes(format, s.outputs, s.inputs), !tiny());
    const std::vector<float> one = numbers(size, 0.05f);
    for (auto& copy : weights)
      device.run(rlcore::op::pack_weight{
          .packed = copy.data(), .format = format, .weight = one.data(), .outputs = s.outputs, .inputs = s.inputs});
    const double value = format == rlcore::weight_format::float32    ? 4
                         : format == rlcore::weight_format::bfloat16 ? 2
                                                                     : 1;
    for (const rlcore::extent_t t : {1, 8, 64, 512}) {
      const std::vector<float> x = numbers(static_cast<std::size_t>(t * s.inputs), 1, 2);
      std::vector<float> y(static_cast<std::size_t>(t * s.outputs));
      time(t, "forward", value * static_cast<double>(size), [&] {
        device.run(rlcore::op::linear_forward{.y = y.data(),
                                              .x = x.data(),
                                              .packed = weights.next(),
                                              .format = format,
                                              .rows = t,
                                              .outputs = s.outputs,
                                              .inputs = s.inputs});
      });
    }
  }
  /// Gradients read the master weights, which are float in both compute types.
  void backward() const {
    if (!s.backward || !any({"dX", "dW"})) return;
    const auto size = static_cast<std::size_t>(s.outputs * s.inputs);
    rotating weights(device, size * sizeof(float), true);
    for (auto& copy : weights) fill(reinterpret_cast<float*>(copy.data()), size, 0.05f);
    std::vector<float> dw(size);
    for (const rlcore::extent_t t : {64, 512}) {
      const std::vector<float> x = numbers(static_cast<std::size_t>(t * s.inputs), 1, 2);
      const std::vector<float> dy = numbers(static_cast<std::size_t>(t * s.outputs), 0.01f, 3);
      std::vector<float> dx(x.size());
      time(t, "dX", 4.0 * static_cast<double>(size), [&] {
        device.run(rlcore::op::linear_backward_input{.dx = dx.data(),
                                                     .dy = dy.data(),
                                                     .weight = reinterpret_cast<const float*>(weights.next()),
                                                     .rows = t,
                                                     .outputs = s.outputs,
                                                     .inputs = s.inputs});
      });
      time(t, "dW", 4.0 * static_cast<double>(size), [&] {
        device.run(rlcore::op::linear_backward_weight{
            .dweight = dw.data(), .dy = dy.data(), .x = x.data(), .rows = t, .outputs = s.outputs, .inputs = s.inputs});
      });
    }
  }
};

}  // namespace

void gemm(const options& o) {
  rlcore::cpu single(o.threads), half(o.threads, {}, rlcore::compute::bfloat16);
  for (const shape& s : shapes) {
    if (o.quick && !s.backward && s.outputs != 256) continue;
    const job in_float{o, single, s, "fp32"}, in_bf16{o, half, s, "bf16"}, in_int8{o, single, s, "int8"};
    in_float.forward(rlcore::weight_format::float32);
    in_float.backward();
    in_bf16.forward(rlcore::weight_format::bfloat16);
    in_bf16.backward();
    in_int8.forward(rlcore::weight_format::int8);
  }
}

}  // namespace speed
