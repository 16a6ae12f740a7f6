// OpenRLHF's advantage estimators (train_ppo_ray; rlcore.advantages=openrlhf), one row per algorithm.adv_estimator.
#pragma once

#include <cstdint>
#include <string_view>

#include "rlcore/config/algorithm/advantage_estimators.hpp"
#include "rlcore/objective/advantage/gae.hpp"

RLCORE_BEGIN
namespace train {

/// Leaves the scores as they are.
struct no_baseline {
  /// shaped = scores.
  template <class Scores, class Shaped>
  void operator()(const Scores& scores, std::int64_t, Shaped&& shaped) const {
    shaped = scores;
  }
};

/// The composition of a row: `baseline` shapes the scores of responses within their group; `follow` makes advantages
/// and returns of token rewards (gae, discounted_return); whitened: normalised over the tokens of the step at the end.
template <class Baseline, class Follow>
struct openrlhf_recipe {
  Baseline baseline;
  Follow follow;
  bool whitened = true;
};
// Deduction guide for compilers without C++20 aggregate deduction.
template <class Baseline, class Follow>
openrlhf_recipe(Baseline, Follow) -> openrlhf_recipe<Baseline, Follow>;
template <class Baseline, class Follow>
openrlhf_recipe(Baseline, Follow, bool) -> openrlhf_recipe<Baseline, Follow>;

namespace named::openrlhf {

/// Return of each token, discounted by `gamma`; tool tokens discount too.
inline discounted_return returns(double gamma) { return {gamma, turn_policy::discount}; }
/// The mean of a group, or (x - mean) / (deviation + 1e-9); a group of one gets 0.
inline group_relative within_group(bool normalize_by_std) {
  return {.normalize_by_std = normalize_by_std, .epsilon = 1e-9, .singleton = singleton_group::zero};
}

/// Over the values of a critic.
struct gae {
  static constexpr std::string_view word = "gae";
  static auto compose(const estimator_settings& s) {
    return openrlhf_recipe{no_baseline{},
                           rlcore::gae{.gamma = s.gamma, .lambda = s.lambda, .turns = turn_policy::discount}};
  }
};
/// Discounted return of each token.
struct reinforce_plus_plus {
  static constexpr std::string_view word = "reinforce_plus_plus";
  static auto compose(const estimator_settings& s) { return openrlhf_recipe{no_baseline{}, returns(s.gamma)}; }
};
/// Score minus the mean of the group's remaining responses.
struct rloo {
  static constexpr std::string_view word = "rloo";
  static auto compose(const estimator_settings&) { return openrlhf_recipe{rlcore::rloo{}, returns(1)}; }
};
/// Score minus the group mean.
struct reinforce_plus_plus_baseline {
  static constexpr std::string_view word = "reinforce_plus_plus_baseline";
  static auto compose(const estimator_settings&) { return openrlhf_recipe{within_group(false), returns(1)}; }
};
/// group_norm and dr_grpo: not normalised over the step.
struct grpo {
  static constexpr std::string_view word = "grpo";
  static auto compose(const estimator_settings& s) {
    return openrlhf_recipe{within_group(s.normalize_by_std), returns(1), false};
  }
};

}  // namespace named::openrlhf

/// Values of algorithm.adv_estimator in OpenRLHF.
using openrlhf_estimator_words =
    word_table<named::openrlhf::gae, named::openrlhf::reinforce_plus_plus, named::openrlhf::rloo,
               named::openrlhf::reinforce_plus_plus_baseline, named::openrlhf::grpo>;

}  // namespace train
RLCORE_END
