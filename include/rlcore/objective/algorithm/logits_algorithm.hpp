// Named algorithms that look at all logits of a position.
#pragma once

#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/loop/evaluate_logits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// evaluate_logits with the objective and the aggregation of a named algorithm.
template <executor Executor, class Advantage, class Objective, class Aggregation, class T, class Counts>
auto evaluate_logits(const Executor& exec, const algorithm<Advantage, Objective, Aggregation>& named,
                     const logits_batch<T>& batch, const Counts& step,
                     const std::type_identity_t<logits_gradients<T>>& gradients = {}) {
  return evaluate_logits(exec, named.objective, named.aggregation, batch, step, gradients);
}

RLCORE_ALGORITHM_END
RLCORE_END
