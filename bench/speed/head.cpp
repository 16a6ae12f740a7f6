// Log-probs and entropies over a large vocabulary, and the projection that makes the logits.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "speed/bench.hpp"

namespace speed {

namespace {

struct rows {
  rlcore::extent_t count, vocabulary;
  std::vector<std::int32_t> target;
  std::vector<float> logp, entropy, statistics, dlogp, dentropy;

  rows(rlcore::extent_t n, rlcore::extent_t v) : count(n), vocabulary(v) {
    const auto size = static_cast<std::size_t>(n);
    for (rlcore::extent_t i = 0; i < n; ++i) target.push_back(static_cast<std::int32_t>(i * 997 % v));
    logp.resize(size), entropy.resize(size), statistics.resize(2 * size);
    dlogp.assign(size, -1.0f / static_cast<float>(n)), dentropy.assign(size, -1e-3f / static_cast<float>(n));
  }
  void forward(rlcore::cpu& d, const float* logits, bool with_entropy) {
    d.log_prob_forward(logits, count, vocabulary, target.data(), 1, logp.data(),
                       with_entropy ? entropy.data() : nullptr, statistics.data());
  }
  void backward(rlcore::cpu& d, float* logits) {
    d.log_prob_backward(logits, count, vocabulary, 0, target.data(), 1, dlogp.data(), dentropy.data(), entropy.data(),
                        statistics.data());
  }
};

void log_probs(const options& o, rlcore::cpu& device, rlcore::extent_t n, rlcore::extent_t v) {
  const std::string of = " V=" + std::to_string(v);
  if (!o.wants("logp" + of) && !o.wants("logp+entropy" + of)) return;
  rows r(n, v);
  std::vector<float> logits = numbers(static_cast<std::size_t>(n * v), 6);
  const double bytes = 4.0 * static_cast<double>(n * v);
  const auto report = [&](const std::string& name, bool backward, double s) {
    // Backward: the logits are read once more and the gradient is written in their place.
    print(o, {name, s, backward ? 3 * bytes : bytes, "byte", {0, bytes, backward ? 2 * bytes : 0}});
  };
  report("logp" + of + " forward", false, best_seconds([&] { r.forward(device, logits.data(), false); }, o.budget()));
  report("logp+entropy" + of + " forward", false,
         best_seconds([&] { r.forward(device, logits.data(), true); }, o.budget()));
  // The gradient takes the place of the logits, so every call works on the last one's gradient: the same work.
  report("logp+entropy" + of + " forward+backward", true,
         best_seconds(
             [&] {
               r.forward(device, logits.data(), true);
               r.backward(device, logits.data());
             },
             o.budget()));
}

/// hidden [512, 896] -> logits [512, 151936] -> log-probs, entropies, and all gradients.
void fused(const options& o, rlcore::cpu& device, const char* compute) {
  const rlcore::extent_t n = o.quick ? 128 : 512, h = 896, v = 151936;
  const std::string of = "linear+logp+entropy rows=" + std::to_string(n) + " " + compute + " ";
  if (!o.wants(of + "forward") && !o.wants(of + "forward+backward")) return;
  rows r(n, v);
  const std::vector<float> x = numbers(static_cast<std::size_t>(n * h), 1, 2);
  const std::vector<float> weight = numbers(static_cast<std::size_t>(v * h), 0.02f);
  const rlcore::weight_format format = device.compute_format();
  rlcore::buffer<std::byte, rlcore::cpu> packed(device, device.packed_bytes(format, v, h));
  device.pack_weight(packed.data(), format, weight.data(), v, h);
  std::vector<float> dx(x.size()), dw(weight.size());
  const double product = 2.0 * static_cast<double>(n * h * v);
  {
    const memory_peak memory;
    std::vector<float> logits(static_cast<std::size_t>(n * v));
    const double s = best_seconds(
        [&] {
          device.linear_forward(logits.data(), x.data(), packed.data(), format, nullptr, n, v, h);
          r.forward(device, logits.data(), true);
        },
        o.budget());
    print(o, {of + "forward", s, product, "flop", {product}, memory.extra()});
  }
  {
    const memory_peak memory;
    std::vector<float> logits(static_cast<std::size_t>(n * v));
    const double s = best_seconds(
        [&] {
          device.linear_forward(logits.data(), x.data(), packed.data(), format, nullptr, n, v, h);
          r.forward(device, logits.data(), true);
          r.backward(device, logits.data());
          device.linear_backward_input(dx.data(), logits.data(), weight.data(), n, v, h, false);
          device.linear_backward_weight(dw.data(), logits.data(), x.data(), n, v, h, false);
        },
        o.budget());
    print(o, {of + "forward+backward", s, 3 * product, "flop", {3 * product}, memory.extra()});
  }
}

}  // namespace

void head(const options& o) {
  rlcore::cpu device(o.threads);
  log_probs(o, device, o.quick ? 64 : 128, 151936);
  log_probs(o, device, 512, 32000);
  fused(o, device, "fp32");
  rlcore::cpu half(o.threads, {}, rlcore::compute::bfloat16);
  fused(o, half, "bf16");
}

}  // namespace speed
