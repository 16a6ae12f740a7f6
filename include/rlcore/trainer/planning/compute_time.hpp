// How long the arithmetic of a pass takes on one device: from quoted peaks, or from a measured profile.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/trainer/planning/cluster.hpp"
#include "rlcore/trainer/planning/model_shape.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// One micro-batch: `rows` sequences of `length` tokens, `scored` of each with log-probs.
struct pass_shape {
  double rows = 1, length = 0, scored = 0;
};

/// Seconds forward, and backward without the forward that recomputation repeats.
struct pass_seconds {
  double forward = 0, backward = 0, layers_forward = 0;
};

namespace detail {

struct product_sizes {
  double outputs, inputs, copies;  ///< copies: how many a token meets
};

inline pass_seconds measured_pass(const measured_rank& t, const model_shape& m, const pass_shape& p) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const double tokens = p.rows * p.length, scored = p.rows * p.scored, layers = f(m.layers), h = f(m.hidden_size);
  const double copies = m.experts == 0 ? 1 : f(m.experts_per_token);
  const product_sizes products[] = {{f(m.query_width() + 2 * m.kv_width()), h, 1},
                                    {h, f(m.query_width()), 1},
                                    {2 * f(m.intermediate_size), h, copies},
                                    {h, f(m.intermediate_size), copies}};
  pass_seconds s;
  const auto product = [&](const product_sizes& x, double rows, double times) {
    const double operations = 2 * x.outputs * x.inputs * x.copies * rows * times;
    const double width = std::sqrt(x.outputs * x.inputs);
    s.forward += operations / t.forward.held(rows, width);
    s.backward += operations / t.backward_x.held(rows, width) + operations / t.backward_w.held(rows, width);
  };
  for (const product_sizes& x : products) product(x, tokens, layers);
  const double attention = p.rows * m.attention_operations(p.length);
  s.forward += attention / t.attention_forward.held(p.length);
  s.backward += 2.5 * attention / t.attention_backward.held(p.length);
  // Bytes that the element-wise work of a layer reads and writes: two norms with their sums, rotations, the gate.
  const double q = f(m.query_width()), kv = f(m.kv_width()), inter = copies * f(m.intermediate_size);
  const double ahead = 4 * tokens * (10 * h + 2 * (q + kv) * (m.head_norms ? 2 : 1) + 3 * inter);
  const double back = 4 * tokens * (12 * h + 3 * (q + kv) * (m.head_norms ? 2 : 1) + 5 * inter);
  const double one = 4 * tokens * h;
  s.forward += layers * ahead / t.stream.held(one);
  s.backward += layers * back / t.stream.held(one);
  s.layers_forward = s.forward;
  product({f(m.vocab_size), h, 1}, scored, 1);
  s.forward += scored * f(m.vocab_size) / t.head;
  s.backward += scored * f(m.vocab_size) / t.head_backward;
  return s;
}

}  // namespace detail

/// `ranks` devices work at the same time (of a measured machine they share memory and caches).
inline pass_seconds pass_time(const cluster& c, const model_shape& m, const pass_shape& p, std::int64_t ranks) {
  if (const measured_rank* t = c.table(ranks)) return detail::measured_pass(*t, m, p);
  const double rate = c.peak * c.training_share;
  const double forward = p.rows * m.forward_operations(p.length, p.scored);
  const double layers = p.rows * m.forward_operations(p.length, 0);
  return {forward / rate, 2 * forward / rate, layers / rate};
}

/// Clipping and AdamW over `parameters` of one rank: 32 bytes of memory traffic each, or as measured.
inline double optimizer_time(const cluster& c, double parameters, std::int64_t ranks) {
  if (const measured_rank* t = c.table(ranks)) return parameters / t->optimizer + parameters / t->norm;
  return 32 * parameters / (c.memory_bandwidth * c.decode_share);
}

}  // namespace trainer::planning
RLCORE_END
