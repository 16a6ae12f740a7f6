// Operations, training and generation on an NVIDIA GPU, at the sizes of Qwen2.5-0.5B; on the emulator, to test this
// file, at small ones.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/device/any_device.hpp"
#include "rlcore/device/arrays.hpp"
#include "rlcore/emulator/emulated_cuda.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/rollout/sampler.hpp"
#include "speed/bench.hpp"
#include "speed/models.hpp"

namespace speed {

namespace {

using rlcore::any_device;
using rlcore::extent_t;
namespace nn = rlcore::nn;
namespace op = rlcore::op;

std::unique_ptr<any_device> open(const options& o, rlcore::compute compute) {
  if (o.device == "cuda_emulator")
    return std::make_unique<rlcore::any_device_of<rlcore::emulated_cuda>>(rlcore::cuda_settings{.compute = compute});
  if (o.device != "cuda") throw std::invalid_argument("--device " + o.device + ": expected cuda or cuda_emulator");
  return std::make_unique<rlcore::any_device_of<rlcore::cuda>>(rlcore::cuda_settings{.compute = compute});
}

/// Cases on one device.
class cases {
 public:
  cases(const options& o, rlcore::compute compute)
      : o_(o),
        opened_(open(o, compute)),
        d_(*opened_),
        small_(o.device == "cuda_emulator"),
        of_(computes[compute != rlcore::compute::float32]) {}

  void copy() {
    const extent_t n = small_ ? 1 << 12 : 1 << 26;
    auto x = values(n), y = values(n);
    time("copy", 8.0 * static_cast<double>(n), "byte",
         [&] { d_.run(op::copy_rows{.y = y.data(), .y_row = n, .x = x.data(), .x_row = n, .count = 1, .width = n}); });
  }

  void products() {
    const extent_t hidden = small_ ? 32 : 896, wide = small_ ? 48 : 4864, vocabulary = small_ ? 100 : 151936;
    for (const extent_t t : {extent_t{1}, extent_t{16}, extent_t{64}, extent_t{small_ ? 130 : 8192}}) {
      product(t, wide, hidden);
      product(t, hidden, wide);
      if (t <= 64) product(t, vocabulary, hidden);
    }
  }

  /// Causal, grouped queries; the sizes of Qwen2.5-0.5B and of a model with larger heads.
  void attention(extent_t sequences, extent_t heads, extent_t kv_heads, extent_t length, extent_t head_dim) {
    if (small_) length = 70, sequences = 2;
    const rlcore::attention_shape s{heads, kv_heads, head_dim, 0.125f};
    const extent_t q_width = heads * head_dim, kv = kv_heads * head_dim, row = q_width + 2 * kv, t = sequences * length;
    auto qkv = values(t * row), dqkv = values(t * row), out = values(t * q_width), dout = values(t * q_width);
    auto statistics = values(t * heads * 2);
    std::vector<rlcore::attention_segment> segments;
    std::vector<rlcore::attention_segment_gradient> gradients;
    for (extent_t b = 0; b < sequences; ++b) {
      const extent_t at = b * length * row + q_width;
      segments.push_back({qkv.data() + at, qkv.data() + at + kv, row, b * length, length, 0});
      gradients.push_back({dqkv.data() + at, dqkv.data() + at + kv});
    }
    const std::string name = "attention B" + std::to_string(sequences) + " H" + std::to_string(heads) + "/" +
                             std::to_string(kv_heads) + " T" + std::to_string(length) + " D" + std::to_string(head_dim);
    const double pairs = static_cast<double>(sequences * length * (length + 1) / 2);
    const double flops = 4.0 * static_cast<double>(q_width) * pairs;
    time(name + " forward", flops, "flop",
         [&] { d_.run(op::attention_forward{s, segments, qkv.data(), row, out.data(), q_width, statistics.data()}); });
    time(name + " backward", 2.5 * flops, "flop", [&] {
      d_.run(op::attention_backward{.shape = s,
                                    .segments = segments,
                                    .gradients = gradients,
                                    .q = qkv.data(),
                                    .q_row = row,
                                    .out = out.data(),
                                    .dout = dout.data(),
                                    .out_row = q_width,
                                    .statistics = statistics.data(),
                                    .dq = dqkv.data()});
    });
  }

  void elements() {
    const extent_t t = small_ ? 32 : 8192, h = small_ ? 64 : 896, wide = small_ ? 96 : 4864,
                   n = small_ ? 4096 : 1 << 27;
    auto x = values(t * 2 * wide), y = values(t * 2 * wide), weight = values(h), rstd = values(t);
    const std::string rows = std::to_string(t) + "x";
    time("rms_norm " + rows + std::to_string(h), 8.0 * static_cast<double>(t * h), "byte", [&] {
      d_.run(op::rms_norm_forward{.norm = {h, 1, h, weight.data(), 1e-6},
                                  .y = y.data(),
                                  .y_row = h,
                                  .x = x.data(),
                                  .rstd = rstd.data(),
                                  .rows = t});
    });
    time("swiglu " + rows + std::to_string(wide), 12.0 * static_cast<double>(t * wide), "byte",
         [&] { d_.run(op::swiglu_forward{.y = y.data(), .gate_up = x.data(), .rows = t, .width = wide}); });
    {
      auto w = values(n), m = values(n), v = values(n), gradient = values(n);
      d_.fill_zero(v.data(), static_cast<std::size_t>(n) * sizeof(float));
      time("adamw " + std::to_string(n), 28.0 * static_cast<double>(n), "byte", [&] {
        d_.run(op::adamw{
            .weights = w.data(), .m = m.data(), .v = v.data(), .gradient = gradient.data(), .n = n, .step = {}});
      });
    }
    const extent_t rows_of_logits = small_ ? 16 : 1024, vocabulary = small_ ? 1100 : 151936;
    auto logits = values(rows_of_logits * vocabulary), logp = values(rows_of_logits), entropy = values(rows_of_logits);
    const auto targets = to_device(d_, std::vector<std::int32_t>(static_cast<std::size_t>(rows_of_logits), 3));
    time("logp+entropy " + std::to_string(rows_of_logits) + "x" + std::to_string(vocabulary),
         4.0 * static_cast<double>(rows_of_logits * vocabulary), "byte", [&] {
           d_.run(op::log_prob_forward{.logits = logits.data(),
                                       .rows = rows_of_logits,
                                       .vocabulary = vocabulary,
                                       .targets = targets.data(),
                                       .temperature = 1,
                                       .logp = logp.data(),
                                       .entropy = entropy.data()});
         });
  }

  /// A step of training, and tokens of B sequences after 256 others each, drawn and scored.
  void model() {
    const std::string name = small_ ? "1M" : "0.5B";
    const std::int64_t sequences = small_ ? 2 : 8, length = small_ ? 16 : 1024;
    const std::string train = "train " + name + " " + of_ + " tokens=" + std::to_string(sequences * length);
    const auto decode = [&](std::int64_t batch) {
      return "decode " + name + " " + of_ + " B=" + std::to_string(batch);
    };
    if (!o_.wants(train) && !o_.wants(decode(1)) && !o_.wants(decode(64)) && !o_.wants(decode(256))) return;
    nn::causal_lm<any_device> m(d_, model_config(name));
    m.initialize(1);
    if (o_.wants(train)) train_step(train, m, sequences, length);
    for (const std::int64_t batch : {1, 64, 256})
      if (o_.wants(decode(batch)) && !(small_ && batch > 1)) decode_step(decode(batch), m, batch);
  }

 private:
  rlcore::tensor<float, 1, any_device> values(extent_t n) {
    return to_device(d_, numbers(static_cast<std::size_t>(n), 1, ++seed_));
  }

  /// The best time of one call, among groups that end with a wait.
  template <class F>
  void time(const std::string& name, double work, const char* unit, F f) {
    if (!o_.wants(name)) return;
    constexpr int calls = 10;
    const double s = best_seconds(
        [&] {
          for (int k = 0; k < calls; ++k) f();
          d_.wait();
        },
        o_.budget());
    print(o_, {name, s / calls, work, unit});
  }

  void product(extent_t t, extent_t o, extent_t i) {
    const rlcore::weight_format format = d_.compute_format();
    auto x = values(t * i), w = values(o * i), y = values(t * o);
    auto packed = to_device(d_, std::vector<std::uint8_t>(d_.packed_bytes(format, o, i)));
    auto* const bytes = reinterpret_cast<std::byte*>(packed.data());
    d_.run(op::pack_weight{bytes, format, w.data(), o, i});
    const std::string name =
        of_ + (" t=" + std::to_string(t)) + " " + std::to_string(i) + "->" + std::to_string(o) + " ";
    const double flops = 2.0 * static_cast<double>(t * o * i);
    time(name + "forward", flops, "flop",
         [&] { d_.run(op::linear_forward{y.data(), x.data(), bytes, format, nullptr, t, o, i}); });
    if (t <= 64) return;
    time(name + "dX", flops, "flop", [&] {
      d_.run(op::linear_backward_input{.dx = x.data(),
                                       .dy = y.data(),
                                       .weight = w.data(),
                                       .rows = t,
                                       .outputs = o,
                                       .inputs = i,
                                       .accumulate = false});
    });
    time(name + "dW", flops, "flop", [&] {
      d_.run(op::linear_backward_weight{.dweight = w.data(),
                                        .dy = y.data(),
                                        .x = x.data(),
                                        .rows = t,
                                        .outputs = o,
                                        .inputs = i,
                                        .accumulate = false});
    });
  }

  void train_step(const std::string& name, nn::causal_lm<any_device>& m, std::int64_t sequences, std::int64_t length) {
    nn::gradients<any_device> gradient(m);
    rlcore::optim::adamw<any_device> adamw(d_, m.size());
    nn::workspace<any_device> space(d_);
    const auto [inputs, targets] = training_rows(m.settings(), sequences, length);
    const double s = best_seconds(
        [&] {
          gradient.zero();
          nn::forward_backward(m, space, gradient, inputs, targets, 1.0f, false, [](auto logp, auto, auto dlogp, auto) {
            for (float& d : dlogp) d = -1.0f / static_cast<float>(logp.size());
          });
          const double norm = rlcore::optim::global_norm(d_, gradient);
          adamw.step(m.weights(), gradient, 1e-5, rlcore::optim::clip_scale(norm, 1));
          d_.wait();
        },
        o_.budget());
    print(o_, {name, s, static_cast<double>(sequences * length), "token"});
  }

  void decode_step(const std::string& name, nn::causal_lm<any_device>& m, std::int64_t batch) {
    const std::int64_t context = small_ ? 40 : 256, pages = rlcore::kv_pages(context + 1);
    const auto rows = static_cast<std::size_t>(batch);
    nn::kv_cache<any_device> cache(d_, m.settings(), batch * pages);
    nn::workspace<any_device> space(d_);
    rlcore::buffer<float, any_device> logits(d_, rows * static_cast<std::size_t>(m.settings().vocab_size));
    d_.fill_zero(cache.layer(0), cache.bytes());
    std::vector<std::int32_t> ids(rows, 5), page(rows * static_cast<std::size_t>(pages)), tokens(rows);
    for (std::size_t p = 0; p < page.size(); ++p) page[p] = static_cast<std::int32_t>(p);
    std::vector<nn::decode_chunk> chunks;
    for (std::size_t b = 0; b < rows; ++b)
      chunks.push_back({std::span<const std::int32_t>(ids).subspan(b, 1), context,
                        std::span<const std::int32_t>(page).subspan(b * static_cast<std::size_t>(pages),
                                                                    static_cast<std::size_t>(pages)),
                        true});
    rlcore::rollout::sampler<any_device> draw;
    const std::vector<double> uniform(rows, 0.5);
    std::vector<float> logp(rows), entropy(rows);
    const double s = best_seconds(
        [&] {
          nn::decode(m, space, cache, chunks, logits.data());
          draw(d_, {}, nn::vocabulary_chunks::of(m.settings(), {}), logits.data(),
               static_cast<extent_t>(m.settings().vocab_size), uniform, tokens, logp, entropy);
        },
        o_.budget());
    print(o_, {name, s, static_cast<double>(batch), "token"});
  }

  const options& o_;
  std::unique_ptr<any_device> opened_;
  any_device& d_;
  bool small_;
  std::string of_;
  std::uint32_t seed_ = 0;
};

}  // namespace

void cuda(const options& o) {
  {
    cases in_float32(o, rlcore::compute::float32);
    in_float32.copy();
    in_float32.products();
    in_float32.attention(4, 14, 2, 1024, 64);
    in_float32.attention(2, 16, 8, 4096, 128);
    in_float32.elements();
    if (!o.quick) in_float32.model();
  }
  cases in_bfloat16(o, rlcore::compute::bfloat16);
  in_bfloat16.products();
  in_bfloat16.model();
}

}  // namespace speed
