// algorithm.adv_estimator: verl's estimators of advantages, a row per word.
#pragma once

#include <string_view>
#include <type_traits>

#include "rlcore/config/algorithm/word_table.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/optimal_token_baseline.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"
#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/advantage/whitening.hpp"
#include "rlcore/objective/algorithm/verl.hpp"

RLCORE_BEGIN
namespace trainer {

/// algorithm.gamma, lam and norm_adv_by_std_in_grpo, and rlcore.verl.
struct estimator_settings {
  double gamma = 1.0, lambda = 1.0;
  bool normalize_by_std = true;
  verl::version version = verl::newest;
};

/// Which of these settings a row reads: the others are said to be without effect.
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
/// What follows a token, whitened over the batch.
struct reinforce_plus_plus {
  static constexpr std::string_view word = "reinforce_plus_plus";
  static constexpr estimator_uses uses{.gamma = true};
  static auto compose(const estimator_settings& s) {
    return rlcore::reinforce_plus_plus{.gamma = s.gamma, .turns = verl::turns_of_returns(s.version)};
  }
};
/// The reward less its group's mean, whitened over the batch.
struct reinforce_plus_plus_baseline {
  static constexpr std::string_view word = "reinforce_plus_plus_baseline";
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::reinforce_plus_plus_baseline{}; }
};
/// What follows a token less the score of the greedy answer.
struct remax {
  static constexpr std::string_view word = "remax";
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::remax{}; }
};
/// The reward less the mean of the others; a single answer keeps its reward.
struct rloo {
  static constexpr std::string_view word = "rloo";
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::rloo{.singleton = singleton_group::reward}; }
};
/// The reward less the length-weighted mean of its group.
struct opo {
  static constexpr std::string_view word = "opo";
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::opo{}; }
};
/// The best answer of a group against the second best.
struct grpo_passk {
  static constexpr std::string_view word = "grpo_passk";
  static constexpr estimator_uses uses{.normalize_by_std = true};
  static auto compose(const estimator_settings& s) { return pass_at_k{.normalize_by_std = s.normalize_by_std}; }
};
/// The reward less its group's mean, scaled by the share of rewards that are not zero.
struct gpg {
  static constexpr std::string_view word = "gpg";
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::gpg{.count = gpg_count::nonzero_rewards}; }
};
/// grpo under another word.
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
/// What follows a token less a baseline per position.
struct optimal_token_baseline {
  static constexpr std::string_view word = "optimal_token_baseline";
  static constexpr verl::version since = verl::version::v0_8_0;
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) { return rlcore::optimal_token_baseline{}; }
};

/// The same, compared by actions; for tools, which are refused by name.
struct tir_optimal_token_baseline {
  static constexpr std::string_view word = "tir_optimal_token_baseline";
  static constexpr verl::version since = verl::version::v0_8_0;
  static constexpr estimator_uses uses{};
  static auto compose(const estimator_settings&) {
    return rlcore::optimal_token_baseline{.align = token_alignment::action};
  }
};

/// What the row's compose() returns.
template <class Row>
using estimator_of = decltype(Row::compose(estimator_settings{}));

}  // namespace named

/// The words of algorithm.adv_estimator.
using estimator_words =
    word_table<named::gae, named::grpo, named::reinforce_plus_plus, named::reinforce_plus_plus_baseline, named::remax,
               named::rloo, named::opo, named::grpo_passk, named::gpg, named::grpo_vectorized, named::rloo_vectorized,
               named::optimal_token_baseline, named::tir_optimal_token_baseline>;

/// What a check of the command line asks about an estimator.
struct estimator_traits {
  estimator_uses uses;
  bool by_token = false;  ///< every response token has an advantage of its own
  advantage_input inputs = advantage_input::none;
};

/// The traits of the estimator that `word` names. Throws config_error.
inline estimator_traits traits_of_estimator(std::string_view word) {
  return estimator_words::visit("algorithm.adv_estimator", word, [](auto row) {
    using estimator = named::estimator_of<decltype(row)>;
    return estimator_traits{row.uses, !response_estimator<estimator>, inputs_of(row.compose({}))};
  });
}

}  // namespace trainer
RLCORE_END
