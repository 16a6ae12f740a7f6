// Merges the log-prob states of two parts of a row's columns.
#pragma once

#include <algorithm>

#include "rlcore/core/elementary.hpp"
#include "rlcore/device/device.hpp"

RLCORE_BEGIN
namespace cpu_kernels {

/// The state of both parts together, relative to the larger top, in powers of 2 as in log_prob.inc. The target logit is
/// in one part and 0 in the second.
inline log_prob_state merged(const log_prob_state& a, const log_prob_state& b) {
  log_prob_state both;
  both.top = std::max(a.top, b.top);
  both.target = a.target + b.target;
  for (const log_prob_state* s : {&a, &b}) {
    if (s->total == 0) continue;  // only excluded tokens
    const double by = static_cast<double>(s->top) - static_cast<double>(both.top), scale = elementary::exp2(by);
    both.weighted += scale * (s->weighted + by * s->total);
    both.total += scale * s->total;
  }
  return both;
}

}  // namespace cpu_kernels
RLCORE_END
