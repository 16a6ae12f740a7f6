// verl's actor loss, with every choice made at run time: what a trainer driven by a command line calls.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation/fixed_length.hpp"
#include "rlcore/objective/aggregation/sequence_mean_token_mean.hpp"
#include "rlcore/objective/aggregation/sequence_mean_token_sum.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/combine/scaled.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl_kind.hpp"
#include "rlcore/objective/piece/entropy/entropy_bonus.hpp"
#include "rlcore/objective/piece/surrogate/dual_clip.hpp"
#include "rlcore/trainer/policy/algorithm/verl_surrogate.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// loss_agg_mode: token-mean, seq-mean-token-mean, seq-mean-token-sum, seq-mean-token-sum-norm.
enum class aggregation_mode : std::uint8_t {
  token_mean,
  sequence_mean_token_mean,
  sequence_mean_token_sum,
  fixed_length,
};

/// An aggregation chosen at run time; fixed_length divides by `length`.
struct any_aggregation {
  aggregation_mode mode = aggregation_mode::token_mean;
  double length = 0;

  /// What each live token of the row weighs, by `mode`.
  double weight(row_info row, const global_counts& step) const noexcept {
    switch (mode) {
      case aggregation_mode::token_mean:
        return rlcore::token_mean{}.weight(row, step);
      case aggregation_mode::sequence_mean_token_mean:
        return rlcore::sequence_mean_token_mean{}.weight(row, step);
      case aggregation_mode::sequence_mean_token_sum:
        return rlcore::sequence_mean_token_sum{}.weight(row, step);
      case aggregation_mode::fixed_length:
        break;
    }
    return rlcore::fixed_length{length}.weight(row, step);
  }
};

/// The packed rows of one micro-batch. Token fields are flat, row after row; `advantage` has one value per row, and if
/// `token_advantage` is not empty, its one value per token is meant instead. ref_logp may be empty without KL, entropy
/// without an entropy term, `selected` where nothing was selected.
struct policy_rows {
  std::span<const std::int32_t> offsets;  ///< rows + 1, starting at 0
  std::span<const float> logp, old_logp, ref_logp{}, advantage, entropy{}, token_advantage{}, selected{};
};

/// Sums of one or more micro-batches of a policy loss; join with +=.
struct policy_report {
  exact_sum policy, kl, entropy;             ///< aggregated, without coefficients
  exact_sum clipped, clipped_lower, ppo_kl;  ///< sums over tokens
  exact_sum kl_total, entropy_total;         ///< sums over tokens
  double kl_coefficient = 0, entropy_coefficient = 0;
  std::int64_t tokens = 0, sequences = 0, rows = 0;

  double policy_loss() const noexcept { return policy.value(); }
  double kl_loss() const noexcept { return kl.value(); }
  double entropy_value() const noexcept { return entropy.value(); }
  double loss() const noexcept {
    return policy_loss() + kl_coefficient * kl_loss() - entropy_coefficient * entropy_value();
  }
  double clip_fraction() const noexcept { return mean(clipped); }
  double clip_fraction_lower() const noexcept { return mean(clipped_lower); }
  double ppo_kl_mean() const noexcept { return mean(ppo_kl); }
  double kl_mean() const noexcept { return mean(kl_total); }
  double entropy_mean() const noexcept { return mean(entropy_total); }

  /// Joins the sums of another part of the step.
  policy_report& operator+=(const policy_report& o) noexcept {
    policy += o.policy, kl += o.kl, entropy += o.entropy;
    clipped += o.clipped, clipped_lower += o.clipped_lower, ppo_kl += o.ppo_kl;
    kl_total += o.kl_total, entropy_total += o.entropy_total;
    if (o.rows > 0) kl_coefficient = o.kl_coefficient, entropy_coefficient = o.entropy_coefficient;
    tokens += o.tokens, sequences += o.sequences, rows += o.rows;
    return *this;
  }

 private:
  double mean(const exact_sum& s) const noexcept { return tokens > 0 ? s.value() / static_cast<double>(tokens) : 0.0; }
};

/// The divergence that `kind` names; where `straight` it keeps its value but has the slope of k2 (verl's names ending
/// in "+"). One piece with a switch, not one type per kind: every further objective costs a trainer's build its loop.
struct any_divergence {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";
  kl_kind kind = kl_kind::k3;
  bool straight = false;

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    term<V> result = value_and_slope<Math, V>(t);
    if (straight) result.slope = t.logp - t.ref_logp;
    return result;
  }

 private:
  template <class Math, class V>
  RLCORE_FN term<V> value_and_slope(const token<V>& t) const noexcept {
    switch (kind) {
      case kl_kind::k1:
        return k1{}.template operator()<Math, V>(t);
      case kl_kind::abs_kl:
        return abs_kl{}.template operator()<Math, V>(t);
      case kl_kind::k2:
        return k2{}.template operator()<Math, V>(t);
      case kl_kind::k3:
        break;
    }
    return clamped_k3{}.template operator()<Math, V>(t);
  }
};

/// policy + kl_coef * KL - entropy_coeff * entropy, each aggregated by loss_agg_mode over the whole optimizer step:
///   policy   by `mode`: dual_clip{clip_low, clip_high, clip_c}, or another of verl's losses (verl_surrogate);
///            gspo, geo_mean and sapo are always averaged by sequence_mean_token_mean, as in verl
///   KL       if use_kl: kl, abs, mse or low_var_kl (clamped as in verl), `straight_through` for their "+" forms
///   entropy  reported if given; in the loss if entropy_coeff != 0
/// Unlike verl's, means are over the whole step, not over micro-batches first.
struct verl_policy_loss {
  double clip_low = 0.2, clip_high = 0.2, clip_c = 3.0;
  bool use_kl = false;
  kl_kind kl = kl_kind::k3;
  bool straight_through = false;
  double kl_coef = 0.001;
  double entropy_coeff = 0.0;
  aggregation_mode aggregation = aggregation_mode::token_mean;
  double fixed_length = 0;  ///< denominator of aggregation_mode::fixed_length, e.g. the longest response allowed
  policy_loss_mode mode = policy_loss_mode::vanilla;
  double ppo_kl_coef = 0.1;                      ///< of kl_cov
  double tau_positive = 1, tau_negative = 1.05;  ///< of sapo

  /// Writes dL / dlogp and, if it is not empty, dL / dentropy. Throws std::invalid_argument as evaluate does.
  template <class Executor = serial>
  policy_report operator()(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                           std::span<float> dentropy = {}, const Executor& exec = {}) const {
    if (mode != policy_loss_mode::vanilla) return other_mode(exec, rows, step, dlogp, dentropy);
    const dual_clip policy{.low = clip_low, .high = clip_high, .bound = clip_c};
    if (!use_kl) return with_entropy(exec, sum{policy}, rows, step, dlogp, dentropy);
    return with_entropy(exec, sum{policy, scaled{kl_coef, any_divergence{kl, straight_through}}}, rows, step, dlogp,
                        dentropy);
  }

 private:
  template <class Executor, class Objective>
  policy_report with_entropy(const Executor& exec, const Objective& objective, const policy_rows& rows,
                             const global_counts& step, std::span<float> dlogp, std::span<float> dentropy) const {
    if (rows.entropy.empty() && entropy_coeff == 0.0) return run(exec, objective, rows, step, dlogp, dentropy);
    return run(exec, sum{objective, entropy_bonus(entropy_coeff)}, rows, step, dlogp, dentropy);
  }

  static constexpr auto flat = [](auto s) {
    using element = typename decltype(s)::element_type;
    return vector_view<element>(s.data(), {static_cast<extent_t>(s.size())});
  };
  static token_batch<float> batch_of(const policy_rows& rows) {
    token_batch<float> batch{.logp = flat(rows.logp), .old_logp = flat(rows.old_logp)};
    if (rows.token_advantage.empty())
      batch.advantage = per_row(flat(rows.advantage));
    else
      batch.advantage = flat(rows.token_advantage);
    const bool no_tokens = rows.logp.empty();  // then empty fields are complete
    if (!rows.ref_logp.empty() || no_tokens) batch.ref_logp = flat(rows.ref_logp);
    if (!rows.entropy.empty() || no_tokens) batch.entropy = flat(rows.entropy);
    if (!rows.selected.empty() || no_tokens) batch.selected = flat(rows.selected);
    batch.offsets = flat(rows.offsets);
    return batch;
  }
  static token_gradients<float> gradients_of(const policy_rows& rows, std::span<float> dlogp,
                                             std::span<float> dentropy) {
    token_gradients<float> gradients{.logp = flat(dlogp)};
    if (!dentropy.empty() || rows.logp.empty()) gradients.entropy = flat(dentropy);
    return gradients;
  }
  any_aggregation aggregated() const {
    if (aggregation == aggregation_mode::fixed_length && !(fixed_length > 0))
      throw std::invalid_argument("rlcore: aggregation_mode::fixed_length needs fixed_length > 0, it is " +
                                  std::to_string(fixed_length));
    return {aggregation, fixed_length};
  }
  template <class Report>
  void read_penalties(const Report& r, policy_report& out) const {
    for (const auto& p : r.piece) {
      if (p.name == "kl") out.kl = p.aggregated, out.kl_total = p.total;
      if (p.name == "entropy") out.entropy = p.aggregated, out.entropy_total = p.total;
    }
    out.kl_coefficient = use_kl ? kl_coef : 0.0, out.entropy_coefficient = entropy_coeff;
  }
  template <class Report>
  static policy_report read_policy(const Report& r) {
    policy_report out;
    out.policy = r.piece[0].aggregated;
    out.clipped = r.monitor[0].total, out.clipped_lower = r.monitor[1].total, out.ppo_kl = r.monitor[2].total;
    out.tokens = r.tokens, out.sequences = r.sequences, out.rows = r.rows;
    return out;
  }

  template <class Executor, class Objective>
  policy_report run(const Executor& exec, const Objective& objective, const policy_rows& rows,
                    const global_counts& step, std::span<float> dlogp, std::span<float> dentropy) const {
    const auto r = evaluate(exec, objective, aggregated(), batch_of(rows), step, gradients_of(rows, dlogp, dentropy));
    policy_report out = read_policy(r);
    read_penalties(r, out);
    return out;
  }

  /// The policy piece by itself, since its average may be another than that of KL and entropy; these come second and
  /// are added, with zeros where one of them is absent.
  template <class Executor>
  policy_report other_mode(const Executor& exec, const policy_rows& rows, const global_counts& step,
                           std::span<float> dlogp, std::span<float> dentropy) const {
    if (mode == policy_loss_mode::geo_mean && !rows.token_advantage.empty())
      throw std::invalid_argument("rlcore: loss_mode geo_mean takes one advantage per response, not one per token");
    const scratch_vector<float> zeros(rows.logp.size());
    policy_rows complete = rows;
    if (complete.selected.empty()) complete.selected = zeros;
    const bool by_sequence =
        mode == policy_loss_mode::gspo || mode == policy_loss_mode::geo_mean || mode == policy_loss_mode::sapo;
    const verl_surrogate surrogate{mode, clip_low, clip_high, ppo_kl_coef, tau_positive, tau_negative};
    token_gradients<float> gradients = gradients_of(rows, dlogp, dentropy);
    policy_report out = read_policy(evaluate(
        exec, surrogate, by_sequence ? any_aggregation{aggregation_mode::sequence_mean_token_mean} : aggregated(),
        batch_of(complete), step, gradients));
    const bool with_entropy = !rows.entropy.empty() || entropy_coeff != 0.0;
    if (!use_kl && !with_entropy) return out;
    if (!use_kl) complete.ref_logp = complete.logp;
    scratch_vector<float> unused;
    if (!with_entropy) unused.resize(zeros.size()), complete.entropy = zeros, dentropy = unused;
    gradients = gradients_of(complete, dlogp, dentropy);
    gradients.add = true;
    read_penalties(evaluate(exec,
                            sum{scaled{use_kl ? kl_coef : 0.0, any_divergence{kl, straight_through}},
                                entropy_bonus(entropy_coeff)},
                            aggregated(), batch_of(complete), step, gradients),
                   out);
    return out;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
