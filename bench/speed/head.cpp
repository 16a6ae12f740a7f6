// Log-probs and entropies over a large vocabulary, and the projection that makes the logits.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/head/head_rows.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "speed/bench.hpp"

namespace speed {

namespace {

namespace nn = rlcore::nn;

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
    d.run(rlcore::op::log_prob_forward{.logits = logits,
                                       .rows = count,
                                       .vocabulary = vocabulary,
                                       .targets = target.data(),
                                       .temperature = 1,
                                       .logp = logp.data(),
                                       .entropy = with_entropy ? entropy.data() : nullptr,
                                       .statistics = statistics.data()});
  }
  void backward(rlcore::cpu& d, float* logits) {
    d.run(rlcore::op::log_prob_backward{.logits = logits,
                                        .rows = count,
                                        .width = vocabulary,
                                        .first = 0,
                                        .targets = target.data(),
                                        .temperature = 1,
                                        .dlogp = dlogp.data(),
                                        .dentropy = dentropy.data(),
                                        .entropy = entropy.data(),
                                        .statistics = statistics.data()});
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

/// hidden [512, 896] -> logits [512, 151936] -> log-probs, entropies, and all gradients, through nn::head_rows. With
/// room for all logits (chunk) each is computed once; in tiles they are never together in memory.
void fused(const options& o, const char* compute) {
  const bool single = compute == computes[0];
  rlcore::cpu device(o.threads, {}, single ? rlcore::compute::float32 : rlcore::compute::bfloat16);
  const rlcore::extent_t n = o.quick ? 128 : 512, h = 896, v = 151936;
  const std::string of = "linear+logp+entropy rows=" + std::to_string(n) + " " + compute + " ";
  const std::string names[] = {of + "forward", of + "forward+backward", of + "forward+backward, tiles"};
  if (!o.wants(names[0]) && !o.wants(names[1]) && !o.wants(names[2])) return;
  nn::config c;  // the smallest model that has this head
  c.vocab_size = v, c.hidden_size = h, c.intermediate_size = 32, c.num_hidden_layers = 1;
  c.num_attention_heads = 14, c.num_key_value_heads = 2;
  nn::causal_lm<rlcore::cpu> model(device, c);
  fill(model.weights().data(), model.size(), 0.02f);
  rlcore::buffer<float, rlcore::cpu> gradient(device, model.size());
  device.fill_zero(gradient.data(), gradient.bytes());
  const std::vector<float> x = numbers(static_cast<std::size_t>(n * h), 1, 2);
  std::vector<float> dx(x.size());
  rows r(n, v);
  const double product = 2.0 * static_cast<double>(n * h * v);
  const nn::packed_view packed = model.packed();

  const auto run = [&](const std::string& name, std::size_t logits_bytes, bool backward) {
    if (!o.wants(name)) return;
    const memory_peak memory;
    nn::workspace<rlcore::cpu> space(device, logits_bytes);
    const double s = best_seconds(
        [&] {
          space.reset();
          const nn::pass<rlcore::cpu> p{
              device, space, std::as_const(model).weights().data(), packed, gradient.data(), n, nullptr, true};
          const nn::head_rows<rlcore::cpu> scores(p, model.head(), 1, n, logits_bytes, backward);
          scores.forward(p, x.data(), r.target.data(), n, r.logp.data(), r.entropy.data(), r.statistics.data());
          if (!backward) return;
          const nn::head_slopes slopes{n,
                                       scores.kept(),
                                       x.data(),
                                       r.target.data(),
                                       r.dlogp.data(),
                                       r.dentropy.data(),
                                       r.entropy.data(),
                                       r.statistics.data()};
          scores.backward(p, slopes, dx.data());
        },
        o.budget());
    const double products = backward ? 3 : 1;
    print(o, {name,
              s,
              products * product,
              "flop",
              {products * product},
              std::max(memory.extra(), static_cast<double>(space.bytes()))});
  };
  const std::size_t tile = rlcore::logit_limits().bytes;
  run(names[0], tile, false);
  run(names[1], std::size_t{512} << 20, true);
  run(names[2], tile, true);
}

}  // namespace

void head(const options& o) {
  rlcore::cpu device(o.threads);
  log_probs(o, device, o.quick ? 64 : 128, 151936);
  log_probs(o, device, 512, 32000);
  for (const char* compute : computes) fused(o, compute);
}

}  // namespace speed
