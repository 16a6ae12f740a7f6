// Compute time of a pass on one device, from quoted peaks or a measured profile.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/planning/model_shape.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// One micro-batch: `rows` sequences of `length` tokens, `scored` of each with log-probs.
struct pass_shape {
  double rows = 1, length = 0, scored = 0;
  double image_tokens = 0;  ///< per sequence, of one image
  double towers = 1;        ///< number of ranks that compute the rows of the same image
};

/// Seconds forward, and backward without the forward that recomputation repeats.
struct pass_seconds {
  double forward = 0, backward = 0, layers_forward = 0;
};

namespace detail {

struct product_sizes {
  double outputs, inputs, copies;  ///< copies: how many a token passes through
};

pass_seconds measured_pass(const measured_rank& t, const model_shape& m, const pass_shape& p);

}  // namespace detail

/// `ranks` devices work at the same time (on a measured machine they share memory and caches).
pass_seconds pass_time(const cluster& c, const model_shape& m, const pass_shape& p, std::int64_t ranks);

/// Seconds of the work done once per update: clipping and AdamW over `owned` parameters of one rank, 32 bytes of memory
/// traffic each; packing the `used` parameters that it computes with; summing `added` values of leaves' gradients.
inline double optimizer_time(const cluster& c, double owned, double used, double added, std::int64_t ranks) {
  if (const measured_rank* t = c.table(ranks))
    return owned / t->optimizer + owned / t->norm + used / t->pack + added / t->add;
  return (32 * owned + (4 + c.value_bytes) * used + 12 * added) / (c.memory_bandwidth * c.decode_share);
}

}  // namespace trainer::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace trainer::planning::detail {

RLCORE_INLINE pass_seconds measured_pass(const measured_rank& t, const model_shape& m, const pass_shape& p) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const double tokens = p.rows * p.length, scored = p.rows * p.scored, layers = f(m.layers), h = f(m.hidden_size);
  const double copies = m.experts == 0 ? 1 : f(m.experts_per_token);
  const product_sizes products[] = {{f(m.query_width() + 2 * m.kv_width()), h, 1},
                                    {h, f(m.query_width()), 1},
                                    {2 * f(m.intermediate_size), h, copies},
                                    {h, f(m.intermediate_size), copies}};
  pass_seconds s;
  // The share of the weights evicted from the caches between two passes: from 4 MB to 96 MB.
  const double floats = 4 * static_cast<double>(m.parameters());
  const double cold = std::clamp(std::log(floats / 4e6) / std::log(96.0 / 4), 0.0, 1.0);
  const auto rate = [&](const surface& warm, const surface& far_away, double rows, double width) {
    return std::exp((1 - cold) * std::log(warm.held(rows, width)) + cold * std::log(far_away.held(rows, width)));
  };
  const auto product = [&](const product_sizes& x, double rows, double times) {
    const double operations = 2 * x.outputs * x.inputs * x.copies * rows * times;
    const double width = std::sqrt(x.outputs * x.inputs);
    s.forward += operations / rate(t.forward, t.cold_forward, rows, width);
    s.backward += operations / rate(t.backward_x, t.cold_backward_x, rows, width) +
                  operations / rate(t.backward_w, t.cold_backward_w, rows, width);
  };
  for (const product_sizes& x : products) product(x, tokens, layers);
  const double attention = p.rows * m.attention_operations(p.length);
  s.forward += attention / t.attention_forward.held(p.length);
  s.backward += 2.5 * attention / t.attention_backward.held(p.length);
  const double q = f(m.query_width()), kv = f(m.kv_width()), inter = copies * f(m.intermediate_size);
  const double norms = m.head_norms ? 1 + (q + kv) / (2 * h) : 1;  // per layer: two row norms, and the head norms
  s.forward += layers * tokens *
               (norms * h / t.norm_forward.held(tokens * h) + inter / t.gate_forward.held(tokens * inter) +
                (q + kv) / t.rotate.held(tokens * (q + kv)));
  s.backward += layers * tokens *
                (norms * h / t.norm_backward.held(tokens * h) + inter / t.gate_backward.held(tokens * inter) +
                 (q + kv) / t.rotate.held(tokens * (q + kv)));
  if (p.image_tokens > 0) {
    const double width = f(m.tower->hidden_size), rows = p.image_tokens * f(m.tower->merged());
    const double operations = p.rows * p.towers * m.tower_operations(p.image_tokens);
    s.forward += operations / rate(t.forward, t.cold_forward, rows, width);
    s.backward += operations / rate(t.backward_x, t.cold_backward_x, rows, width) +
                  operations / rate(t.backward_w, t.cold_backward_w, rows, width);
  }
  s.layers_forward = s.forward;
  product({f(m.vocab_size), h, 1}, scored, 1);
  s.forward += scored * f(m.vocab_size) / t.head;
  s.backward += scored * f(m.vocab_size) / t.head_backward;
  return s;
}

}  // namespace trainer::planning::detail

namespace trainer::planning {

RLCORE_INLINE pass_seconds pass_time(const cluster& c, const model_shape& m, const pass_shape& p, std::int64_t ranks) {
  if (const measured_rank* t = c.table(ranks)) return detail::measured_pass(*t, m, p);
  const double rate = c.peak * c.training_share;
  const double tower = p.towers * m.tower_operations(p.image_tokens);
  const double forward = p.rows * (m.forward_operations(p.length, p.scored) + tower);
  const double layers = p.rows * (m.forward_operations(p.length, 0) + tower);
  return {forward / rate, 2 * forward / rate, layers / rate};
}

}  // namespace trainer::planning
RLCORE_END
#endif
