// verl's policy losses (actor.policy_loss.loss_mode) and aggregations (actor.loss_agg_mode), one row per name.
#pragma once

#include <string>
#include <string_view>

#include "rlcore/config/algorithm/word_table.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/verl.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/selection/tokens.hpp"

RLCORE_BEGIN
namespace train {

/// Settings of the aggregation modes.
struct aggregation_settings {
  double length = 0;  ///< loss_scale_factor, or the longest response allowed
  verl::version version = verl::newest;
  /// Whether a sequence without tokens counts; it does in every version except verl 0.6.1.
  bool counts_empty() const noexcept { return version != verl::version::v0_6_1; }
};

namespace named {

/// Mean over all tokens of the step.
struct token_mean {
  static constexpr std::string_view word = "token-mean";
  static any_aggregation compose(const aggregation_settings&) { return rlcore::token_mean{}; }
};
/// Sum over tokens; the loss grows with the batch.
struct token_sum {
  static constexpr std::string_view word = "token-sum";
  static constexpr verl::version since = verl::version::v0_9_1;
  static any_aggregation compose(const aggregation_settings&) { return rlcore::token_sum{}; }
};
/// The mean over sequences of their tokens' sums.
struct seq_mean_token_sum {
  static constexpr std::string_view word = "seq-mean-token-sum";
  static any_aggregation compose(const aggregation_settings& s) {
    if (s.counts_empty()) return row_mean_token_sum{};
    return sequence_mean_token_sum{};
  }
};
/// The mean over sequences of their tokens' means.
struct seq_mean_token_mean {
  static constexpr std::string_view word = "seq-mean-token-mean";
  static any_aggregation compose(const aggregation_settings& s) {
    if (s.counts_empty()) return row_mean_token_mean{};
    return sequence_mean_token_mean{};
  }
};
/// The same with one length for all; before verl 0.8.0 not divided by the number of sequences.
struct seq_mean_token_sum_norm {
  static constexpr std::string_view word = "seq-mean-token-sum-norm";
  static any_aggregation compose(const aggregation_settings& s) {
    if (s.version < verl::version::v0_8_0) return fixed_length_unaveraged{s.length};
    return row_mean_fixed_length{s.length};
  }
};

}  // namespace named

/// Values of loss_agg_mode.
using aggregation_words = word_table<named::token_mean, named::token_sum, named::seq_mean_token_sum,
                                     named::seq_mean_token_mean, named::seq_mean_token_sum_norm>;

/// Policy loss settings (actor.*): the loss, its KL and entropy terms.
struct policy_loss_settings {
  std::string mode = "vanilla";
  verl::clip_settings clip{};
  any_aggregation aggregation{};  ///< loss_agg_mode, for KL, entropy and the policy loss unless its row has its own
  verl::version version = verl::newest;
  bool use_kl = false;
  kl_kind kl = kl_kind::k3;
  bool straight_through = false;  ///< the KL has the slope of k2 (verl's names that end in "+")
  double kl_coef = 0.001;
  double entropy_coeff = 0.0;
  clip_covariance clip_cov{};  ///< which tokens; its clip is the loss's
  kl_covariance kl_cov{};
  double ppo_kl_coef = 0.1;  ///< of kl_cov
  sapo gate{};
  double dro_beta = 0;  ///< of dro; positive

  /// kl_loss_type.
  constexpr any_divergence kl_divergence() const { return {.kind = kl, .straight = straight_through}; }
};

/// Rows of policy_loss_words. compose() returns an algorithm of namespace verl; only its objective is used, and its
/// aggregation if `own_aggregation`. aggregation() selects one at run time instead. `since`: the first version of verl
/// that has it. `by_response`: it takes one advantage per response, not one per token.
/// `scales_with_advantage`: a weight of a token's loss is one of its advantage. Optional members: selection() of
/// tokens, and `measure`, the clipfrac or ppo_kl that verl logs where the pieces measure a different one.
namespace named {

/// Defaults of a row.
struct policy_loss_row {
  static constexpr bool own_aggregation = false, by_response = false, scales_with_advantage = true;
};

/// The clipped ratio of PPO with a dual bound.
struct vanilla : policy_loss_row {
  static constexpr std::string_view word = "vanilla";
  static auto compose(const policy_loss_settings& s) { return verl::grpo(s.clip); }
};
/// The ratio of the sequence; before verl 0.9 always averaged as seq-mean-token-mean.
struct gspo : policy_loss_row {
  static constexpr std::string_view word = "gspo";
  static auto compose(const policy_loss_settings& s) { return verl::gspo(s.clip); }
  /// loss_agg_mode, or the fixed mode of the verl version.
  static any_aggregation aggregation(const policy_loss_settings& s) {
    if (s.version >= verl::version::v0_9_1) return s.aggregation;
    return seq_mean_token_mean::compose({.version = s.version});
  }
};
/// -A logp, without a ratio.
struct gpg_loss : policy_loss_row {
  static constexpr std::string_view word = "gpg";
  static auto compose(const policy_loss_settings&) { return verl::gpg(); }
};
/// The clipped ratio, except at some tokens of high covariance.
struct clip_cov : policy_loss_row {
  static constexpr std::string_view word = "clip_cov";
  static auto compose(const policy_loss_settings& s) { return verl::clip_cov(s.clip); }
  /// The rule with the clip of the loss.
  static clip_covariance selection(const policy_loss_settings& s) {
    clip_covariance rule = s.clip_cov;
    rule.clip_low = s.clip.clip_low, rule.clip_high = s.clip.clip_high;
    return rule;
  }
  /// clipfrac: the fraction of tokens left out.
  static constexpr selected_fraction measure{};
};
/// The ratio, held back by a KL at the tokens of highest covariance.
struct kl_cov : policy_loss_row {
  static constexpr std::string_view word = "kl_cov";
  static constexpr bool scales_with_advantage = false;
  static auto compose(const policy_loss_settings& s) { return verl::kl_cov(s.ppo_kl_coef); }
  /// The rule as it is.
  static kl_covariance selection(const policy_loss_settings& s) { return s.kl_cov; }
  static constexpr abs_ppo_kl measure{};
};
/// The geometric mean of the ratios of a sequence (GMPO).
struct geo_mean : policy_loss_row {
  static constexpr std::string_view word = "geo_mean";
  static constexpr bool own_aggregation = true, by_response = true, scales_with_advantage = false;
  static auto compose(const policy_loss_settings& s) { return verl::gmpo(s.clip); }
};
/// Rows whose ppo_kl is that of log-ratios within +-20.
struct limited_ppo_kl : policy_loss_row {
  static constexpr ppo_kl measure{.limit = 20};
};
/// A soft gate instead of a clip.
struct sapo_loss : limited_ppo_kl {
  static constexpr std::string_view word = "sapo";
  static constexpr verl::version since = verl::version::v0_8_0;
  static constexpr bool own_aggregation = true;
  static auto compose(const policy_loss_settings& s) { return verl::sapo(s.gate); }
};
/// A bounded weight, no token left out.
struct cispo : limited_ppo_kl {
  static constexpr std::string_view word = "cispo";
  static constexpr verl::version since = verl::version::v0_8_0;
  static auto compose(const policy_loss_settings& s) { return verl::cispo(s.clip); }
};

/// A trust region by total variation.
struct dppo_tv : limited_ppo_kl {
  static constexpr std::string_view word = "dppo_tv";
  static constexpr verl::version since = verl::version::v0_8_0;
  static auto compose(const policy_loss_settings& s) { return verl::dppo_tv(s.clip); }
};
/// A trust region by a binary KL.
struct dppo_kl : limited_ppo_kl {
  static constexpr std::string_view word = "dppo_kl";
  static constexpr verl::version since = verl::version::v0_8_0;
  static auto compose(const policy_loss_settings& s) { return verl::dppo_kl(s.clip); }
};
/// A squared log-ratio instead of a clip.
struct dro : policy_loss_row {
  static constexpr std::string_view word = "dro";
  static constexpr bool scales_with_advantage = false;
  static constexpr verl::version since = verl::version::v0_9_1;
  static auto compose(const policy_loss_settings& s) { return verl::dro(s.dro_beta); }
};

}  // namespace named

/// Values of policy_loss.loss_mode.
using policy_loss_words =
    word_table<named::vanilla, named::gspo, named::gpg_loss, named::clip_cov, named::kl_cov, named::geo_mean,
               named::sapo_loss, named::cispo, named::dppo_tv, named::dppo_kl, named::dro>;

/// Policy loss properties that command-line checks need.
struct policy_loss_traits {
  bool by_response = false, scales_with_advantage = true;
};

/// Traits of the policy loss named `word`. Throws config_error.
inline policy_loss_traits traits_of_policy_loss(std::string_view word) {
  return policy_loss_words::visit("actor_rollout_ref.actor.policy_loss.loss_mode", word, [](auto row) {
    return policy_loss_traits{row.by_response, row.scales_with_advantage};
  });
}

}  // namespace train
RLCORE_END
