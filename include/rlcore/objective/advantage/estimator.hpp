// Protocol of advantage estimators: their extra inputs and declarations.
#pragma once

#include <cstdint>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/tensor/span.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Extra inputs of an advantage estimator, which declares them as pieces declare fields,
/// `static constexpr advantage_input reads = advantage_input::values;`, and the training loop provides them.
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

/// Rows in groups of equal size, one after another: the answers to one prompt. grpo.advantage(rewards, groups_of(8),
/// advantage).
class groups_of {
 public:
  /// Groups of `rows` rows.
  constexpr explicit groups_of(std::int64_t rows) noexcept : rows_(rows) {}
  /// The rows of a group.
  constexpr operator std::int64_t() const noexcept { return rows_; }

 private:
  std::int64_t rows_;
};

/// One advantage per token, of token rewards: (rewards [rows, tokens], mask, advantages), or with returns. The braces
/// fit a token_mask alone, neither the size of a group nor a parameter whose type is deduced.
template <class Estimator>
concept token_estimator = requires(const Estimator e, matrix_view<float>& m, const token_mask& mask) {
  e(m, {mask}, m);
} || requires(const Estimator e, matrix_view<float>& m, const token_mask& mask) { e(m, {mask}, m, m); };

/// One advantage per response: (rewards, group size, advantages), or with the length of each response.
template <class Estimator>
concept response_estimator = !token_estimator<Estimator> && !requires {
  Estimator::reads;
} && requires(const Estimator e, std::vector<float>& x, const std::vector<std::int64_t>& n) {
  requires requires { e(x, std::int64_t{}, x); } || requires { e(x, std::int64_t{}, n, x); };
};

/// How returns pass a masked slot (a tool's or user's token between two turns of the policy). Its reward and value are
/// never read whatever the policy, and its own advantage and return are 0.
enum class turn_policy : std::uint8_t {
  skip,      ///< as if it did not exist: it does not discount rewards of later turns (verl, newest)
  discount,  ///< a step with reward 0 into a state of value 0, discounted like every step (OpenRLHF)
  reset,     ///< the end of an episode: later turns contribute nothing (verl's reinforce_plus_plus through 0.8.0)
};

/// The advantage of a group with a single scored row.
///
/// Default: that of the system whose formula the estimator's other defaults follow; where systems differ or none has
/// it, zero. So `reward` is the default of group_relative, gpg, opo and reinforce_plus_plus_baseline (verl's grpo, gpg,
/// opo, reinforce_plus_plus_baseline), and `zero` that of rloo (verl's rloo_vectorized, TRL; verl's rloo gives the
/// reward), group_mean_batch_std and gdpo (TRL) and group_median (no system). pass_at_k has no such setting: without a
/// second answer the difference is 0. Named algorithms set it as their system does.
enum class singleton_group : std::uint8_t {
  zero,    ///< advantage 0: no signal
  reward,  ///< mean 0 and deviation 1 are assumed, so the advantage is the reward itself (verl's grpo)
};

RLCORE_ALGORITHM_END
RLCORE_END
