// Advantage estimators of verl and OpenRLHF (algorithm.adv_estimator), one row per name.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "rlcore/config/algorithm/word_table.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/gigpo.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/optimal_token_baseline.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"
#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/advantage/whitening.hpp"
#include "rlcore/objective/algorithm/verl.hpp"

RLCORE_BEGIN
namespace train {

/// algorithm.gamma, lam, norm_adv_by_std_in_grpo and gigpo.*, and rlcore.verl.
struct estimator_settings {
  double gamma = 1.0, lambda = 1.0;
  bool normalize_by_std = true;
  double gigpo_step_weight = 1;
  bool gigpo_normalize_by_std = false;
  verl::version version = verl::newest;
};

/// Which of these settings a row reads; a note lists the unused ones.
struct estimator_uses {
  bool gamma = false, lambda = false, normalize_by_std = false;
};

/// Rows of estimator_words, each as namespace verl has it. `since`: the first version of verl that has it.
namespace named {

/// Generalized advantage estimation over the values of a critic, whitened.
struct gae {
  static constexpr std::string_view word = "gae";
  static constexpr estimator_uses uses{.gamma = true, .lambda = true};
  static auto compose(const estimator_settings& s) {
    return whitened{rlcore::gae{.gamma = s.gamma, .lambda = s.lambda}};
  }
};
/// The reward against its group.
struct grpo {
  static constexpr std::string_view word = "grpo";
  static constexpr estimator_uses uses{.normalize_by_std = true};
  static auto compose(const estimator_settings& s) { return group_relative{.normalize_by_std = s.normalize_by_std}; }
};
/// Discounted return of each token, whitened over the batch.
struct reinforce_plus_plus {
  static constexpr std::string_view word = "reinforce_plus_plus";
  static constexpr estimator_uses uses{.gamma = true};
  static auto compose(const estimator_settings& s) {
    return rlcore::reinforce_plus_plus{.gamma = s.gamma, .turns = verl::turns_of_returns(s.version)};
  }
};
/// Reward minus the group mean, whitened over the batch.
struct reinforce_plus_plus_baseline {
  static constexpr std::string_view word = "reinforce_plus_plus_baseline";
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::reinforce_plus_plus_baseline{}; }
};
/// Return of each token minus the score of the greedy response.
struct remax {
  static constexpr std::string_view word = "remax";
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::remax{}; }
};
/// Reward minus the mean of the group's remaining responses (leave-one-out); a single response keeps its reward.
struct rloo {
  static constexpr std::string_view word = "rloo";
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::rloo{.singleton = singleton_group::reward}; }
};
/// Reward minus the length-weighted group mean.
struct opo {
  static constexpr std::string_view word = "opo";
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::opo{}; }
};
/// The best response of a group against the second best.
struct grpo_passk {
  static constexpr std::string_view word = "grpo_passk";
  static constexpr estimator_uses uses{.normalize_by_std = true};
  static auto compose(const estimator_settings& s) { return pass_at_k{.normalize_by_std = s.normalize_by_std}; }
};
/// Reward minus the group mean, scaled by the share of nonzero rewards.
struct gpg {
  static constexpr std::string_view word = "gpg";
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::gpg{.count = gpg_count::nonzero_rewards}; }
};
/// Alias of grpo.
struct grpo_vectorized : grpo {
  static constexpr std::string_view word = "grpo_vectorized";
  static constexpr verl::version since = verl::version::v0_6_1;
};
/// rloo; a single answer gets 0.
struct rloo_vectorized {
  static constexpr std::string_view word = "rloo_vectorized";
  static constexpr verl::version since = verl::version::v0_6_1;
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::rloo{}; }
};
/// Return of each token minus a baseline per position.
struct optimal_token_baseline {
  static constexpr std::string_view word = "optimal_token_baseline";
  static constexpr verl::version since = verl::version::v0_8_0;
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::optimal_token_baseline{}; }
};

/// The same for conversations: tokens of tools and users do not count as positions.
struct tir_optimal_token_baseline {
  static constexpr std::string_view word = "tir_optimal_token_baseline";
  static constexpr verl::version since = verl::version::v0_8_0;
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) {
    return rlcore::optimal_token_baseline{.align = token_alignment::action};
  }
};

/// Each turn of a conversation also against the turns of its group that begin in the same state (verl-agent).
struct gigpo {
  static constexpr std::string_view word = "gigpo";
  static constexpr estimator_uses uses{.gamma = true};
  static auto compose(const estimator_settings& s) {
    return rlcore::gigpo{
        .step_weight = s.gigpo_step_weight, .gamma = s.gamma, .normalize_by_std = s.gigpo_normalize_by_std};
  }
};

/// Return type of the row's compose().
template <class Row>
using estimator_of = decltype(Row::compose(estimator_settings{}));

}  // namespace named

/// Values of algorithm.adv_estimator.
using estimator_words =
    word_table<named::gae, named::grpo, named::reinforce_plus_plus, named::reinforce_plus_plus_baseline, named::remax,
               named::rloo, named::opo, named::grpo_passk, named::gpg, named::grpo_vectorized, named::rloo_vectorized,
               named::optimal_token_baseline, named::tir_optimal_token_baseline, named::gigpo>;

/// Estimator properties that command-line checks need.
struct estimator_traits {
  estimator_uses uses;
  bool by_token = false;  ///< one advantage per response token
  advantage_input inputs = advantage_input::none;
};

/// Traits of the estimator named `word`. Throws config_error.
inline estimator_traits traits_of_estimator(std::string_view word) {
  return estimator_words::visit("algorithm.adv_estimator", word, [](auto row) {
    using estimator = named::estimator_of<decltype(row)>;
    return estimator_traits{row.uses, !response_estimator<estimator>, inputs_of(row.compose({}))};
  });
}

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
