// What an algorithm's advantages need besides rewards.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

/// The fields of a trajectory that the run has to fill before the advantages.
struct advantage_inputs {
  bool values = false;         ///< trajectory::value: the run keeps a critic and trains it on trajectory::token_return
  bool greedy_scores = false;  ///< trajectory::greedy_score: every prompt is answered once more, greedily
  bool sum_squared_probs = false;  ///< trajectory::sum_squared_probs
};

/// `inputs()` of an algorithm or estimator; none if it has no such member.
template <class A>
advantage_inputs inputs_of(const A& a) {
  if constexpr (requires { a.inputs(); })
    return a.inputs();
  else
    return {};
}

}  // namespace trainer
RLCORE_END
