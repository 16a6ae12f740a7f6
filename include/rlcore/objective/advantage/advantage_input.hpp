// What an estimator of advantages reads besides rewards.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Inputs that somebody has to make before the advantages: an estimator declares them as pieces declare fields,
/// `static constexpr advantage_input reads = advantage_input::values;`, and a training loop provides what is declared.
enum class advantage_input : std::uint8_t {
  none = 0,
  values = 1,             ///< of a critic, one per token
  greedy_scores = 2,      ///< of the most likely answer to each prompt, one per row
  sum_squared_probs = 4,  ///< of the old policy over the vocabulary, one per token, with its log-probs
};

/// The inputs of both.
constexpr advantage_input operator|(advantage_input a, advantage_input b) noexcept {
  return static_cast<advantage_input>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

/// Whether `input` is among `inputs`.
constexpr bool contains(advantage_input inputs, advantage_input input) noexcept {
  return (static_cast<unsigned>(inputs) & static_cast<unsigned>(input)) == static_cast<unsigned>(input);
}

/// The inputs that `estimator` declares: by a member `inputs()` if they depend on its settings, else by its type.
template <class Estimator>
constexpr advantage_input inputs_of(const Estimator& estimator) noexcept {
  if constexpr (requires { estimator.inputs(); })
    return estimator.inputs();
  else if constexpr (requires { Estimator::reads; })
    return Estimator::reads;
  else
    return advantage_input::none;
}

RLCORE_ALGORITHM_END
RLCORE_END
