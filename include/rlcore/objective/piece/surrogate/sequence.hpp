// Sequence-level surrogates: GSPO, GMPO, VESPO.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// x = logp - old_logp, clamped to `high` where A > 0 and at -low where A < 0: PPO's clip in log space (GMPO, Zhao et
/// al. 2025). The widths are of log-ratios. slope: 1, and 0 where it is clamped.
struct clipped_log_ratio {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "clipped_log_ratio";
  double low = 0.4, high = 0.4;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V x = t.logp - t.old_logp;
    const auto above = Math::all(t.advantage > V(0), x > V(high));
    const auto below = Math::all(t.advantage < V(0), x < V(-low));
    return {Math::select(above, V(high), Math::select(below, V(-low), x)),
            Math::select(Math::any(above, below), V(0), V(1))};
  }
};

/// clamp(logp - old_logp, -limit, limit): what VESPO sums. slope: 1 within the limits, ends included, else 0.
struct limited_log_ratio_to_old {
  static constexpr field reads = field::logp | field::old_logp;
  static constexpr std::string_view name = "limited_log_ratio_to_old";
  double limit = 20.0;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V x = t.logp - t.old_logp;
    return {Math::clamp(x, V(-limit), V(limit)), Math::select(Math::any(x > V(limit), x < V(-limit)), V(0), V(1))};
  }
};

/// The same plus log(weight), itself clamped to [lowest, limit]: the off-policy weight of a token as part of the ratio
/// (TRL's and Liger's VESPO under rollout correction). A weight of 0 counts as e^lowest = 1e-8.
struct corrected_log_ratio_to_old {
  static constexpr field reads = field::logp | field::old_logp | field::weight;
  static constexpr std::string_view name = "corrected_log_ratio_to_old";
  double limit = 20.0, lowest = -18.420680743952367;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    auto result = limited_log_ratio_to_old{limit}.template operator()<Math, V>(t);
    result.value = result.value + Math::clamp(Math::log(t.weight), V(lowest), V(limit));
    return result;
  }
};

/// sequence_is{surrogate}: each token sees s = exp(mean over its row of logp - old_logp) as its ratio, and the slope by
/// s is given to the token itself: log s = logp - stop_gradient(logp - mean). With ppo_clip this is GSPO-token (Zheng
/// et al. 2025, section 4.3; verl "gspo" under any loss_agg_mode, TRL "sequence_token"): advantages and weights may
/// differ from token to token, and any aggregation makes sense. Where they differ this is verl's form, not that of
/// OpenRLHF and TRL's "sequence", which differentiate s and so give every token the mean over its row.
///
/// With one advantage per row, sequence_mean_token_mean gives the loss and gradient of GSPO itself; say so with
/// one_per_sequence. sequence_mean_token_sum gives LUSPO (TRL, Liger "luspo"): each sequence's term times its length.
///
/// A surrogate that holds its ratio constant (cispo) keeps the token's own logp as the factor that has the gradient.
/// rollout_is{sequence_is{surrogate}} gathers the ratio to the rollout policy.
template <class Surrogate>
struct sequence_is : forwarding_piece<Surrogate> {
  static_assert(!contains(Surrogate::reads, field::gathered), "rlcore: this surrogate gathers over its row already");
  static_assert(contains(Surrogate::reads, field::old_logp),
                "rlcore: sequence_is holds a surrogate that reads old_logp; this one has no ratio that could be "
                "the sequence's (for a ratio to the rollout write rollout_is{sequence_is{surrogate}})");
  static_assert(!contains(Surrogate::reads, field::ref_logp),
                "rlcore: sequence_is shows a surrogate the ratio of its row in place of logp, so one that also "
                "compares logp with ref_logp is not for it");
  static_assert(!reads_probabilities_of<Surrogate>(),
                "rlcore: this surrogate looks at the probabilities of single tokens (DPPO), and sequence_is has "
                "only the ratio of the row to show");
  static constexpr bool keeps_logp = stops_gradient_of<Surrogate>();
  static constexpr field reads = static_cast<field>(static_cast<unsigned>(Surrogate::reads) &
                                                    ~static_cast<unsigned>(field::logp | field::old_logp)) |
                                 (keeps_logp ? field::logp : field::none) | field::gathered;
  using gathers = mean_of<log_ratio_to_old>;

  /// The surrogate `s` on the ratio of the row.
  constexpr explicit sequence_is(Surrogate s) : forwarding_piece<Surrogate>(s) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Surrogate>> operator()(const token<V>& t) const noexcept {
    token<V> shown = t;
    if constexpr (keeps_logp) {
      shown.old_logp = t.logp - t.gathered;
    } else {
      shown.logp = t.gathered;
      shown.old_logp = V(0);
    }
    return this->piece.template operator()<Math, V>(shown);
  }
};

/// one_per_sequence{piece}: the piece's value is the same at each token of a row, and is meant once per row. An
/// aggregation that would count long sequences more than once is then refused (huggingface/trl#4557,
/// verl-project/verl#2775). one_per_sequence{sequence_is{ppo_clip{}}} is GSPO.
///
/// One term per row has one advantage per row: the loop refuses one per token. OpenRLHF and TRL differentiate the
/// sequence's ratio itself and would give every token the mean of its row's terms; verl gives each token its own, which
/// is sequence_is without this promise.
template <class Piece>
struct one_per_sequence : forwarding_piece<Piece> {
  static_assert(contains(Piece::reads, field::gathered),
                "rlcore: only a piece that reads what was gathered over its row has one value per sequence, e.g. "
                "one_per_sequence{sequence_is{ppo_clip{}}}");
  static constexpr bool per_sequence = true;
  static constexpr field row_fields = per_row_fields_of<Piece>() | field::advantage;

  /// The piece `p`, whose value is the same at each token of a row.
  constexpr explicit one_per_sequence(Piece p) : forwarding_piece<Piece>(p) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    return this->piece.template operator()<Math, V>(t);
  }
};

/// -A exp(mean over the row of the clipped log-ratio), once per sequence: GMPO (Zhao et al. 2025; verl "geo_mean", TRL
/// GMPO). Tokens are clipped one by one, in log space: `low` and `high` are widths of logp - old_logp, 0.4 in the paper
/// and in TRL; verl takes them from clip_ratio. One advantage per row: the loop refuses one per token, for which the
/// slope would have to be that of the row's mean advantage.
///
/// slope: -A exp(mean), and 0 for tokens that are clipped. Aggregated by sequence_mean_token_mean, whose 1 / n is that
/// of the mean. Monitors: share of tokens clipped above (A > 0) and below (A < 0).
struct geometric_mean_ratio {
  using gathers = mean_of<clipped_log_ratio>;
  static constexpr field reads = field::logp | field::old_logp | field::advantage | field::gathered;
  static constexpr std::string_view name = "policy";
  static constexpr std::array<std::string_view, 2> monitors{"clipfrac", "clipfrac_lower"};
  static constexpr bool per_sequence = true;
  static constexpr field row_fields = field::advantage;
  double low = 0.4, high = 0.4;

  constexpr void check_settings() const {
    check_setting("geometric_mean_ratio", "low", low, setting::width);
    check_setting("geometric_mean_ratio", "high", high, setting::width);
  }

  /// The gather, with this piece's widths.
  constexpr clipped_log_ratio score() const noexcept { return {low, high}; }

  template <class Math, class V>
  RLCORE_FN term<V, 2> operator()(const token<V>& t) const noexcept {
    const V x = t.logp - t.old_logp;
    const auto above = Math::all(t.advantage > V(0), x > V(high));
    const auto below = Math::all(t.advantage < V(0), x < V(-low));
    const V value = -(Math::exp(t.gathered) * t.advantage);
    return {value,
            Math::select(Math::any(above, below), V(0), value),
            {Math::select(above, V(1), V(0)), Math::select(below, V(1), V(0))}};
  }
};

/// The same with verl's monitors: shares of tokens outside of the widths, on either side, with A > 0 and with A < 0.
struct counts_outside : forwarding_piece<geometric_mean_ratio> {
  constexpr counts_outside() = default;
  /// Around `p`.
  constexpr explicit counts_outside(geometric_mean_ratio p) : forwarding_piece(p) {}

  template <class Math, class V>
  RLCORE_FN term<V, 2> operator()(const token<V>& t) const noexcept {
    const auto own = this->piece.template operator()<Math, V>(t);
    const V x = t.logp - t.old_logp;
    const auto outside = Math::any(x > V(this->piece.high), x < V(-this->piece.low));
    return {own.value,
            own.slope,
            {Math::select(Math::all(t.advantage > V(0), outside), V(1), V(0)),
             Math::select(Math::all(t.advantage < V(0), outside), V(1), V(0))}};
  }
};

/// -stop_gradient(phi(w)) A logp with w = exp(sum over the row of the log-ratio) and phi(w) = w^k e^(lambda (1 - w)),
/// which is 1 at w = 1 and fades to 0 on both sides: VESPO (2026; TRL, Liger "vespo"). k and lambda depend on the sign
/// of A; log w is clamped to [lowest, limit], so that phi is finite for any lambda > 0. slope: -phi A.
///
/// `vespo` sums clamp(logp - old_logp, +-20); `corrected_vespo` folds the tokens' off-policy weights into w (and must
/// not be weighted again).
template <class Score>
struct gamma_weighted {
  using gathers = sum_of<Score>;
  static constexpr field reads = field::logp | field::advantage | field::gathered;
  static constexpr std::string_view name = "policy";
  static constexpr bool stops_gradient = true;
  double k_positive = 2.0, lambda_positive = 3.0;  ///< where A >= 0
  double k_negative = 3.0, lambda_negative = 2.0;
  double lowest = -18.420680743952367, limit = 20.0;  ///< log(1e-8)

  constexpr void check_settings() const {
    check_setting("vespo", "k_positive", k_positive, setting::coefficient);
    check_setting("vespo", "lambda_positive", lambda_positive, setting::coefficient);
    check_setting("vespo", "k_negative", k_negative, setting::coefficient);
    check_setting("vespo", "lambda_negative", lambda_negative, setting::coefficient);
    check_setting("vespo", "lowest", lowest, setting::number);
    check_setting("vespo", "limit", limit, setting::number);
  }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const auto positive = t.advantage >= V(0);
    const V k = Math::select(positive, V(k_positive), V(k_negative));
    const V lambda = Math::select(positive, V(lambda_positive), V(lambda_negative));
    const V log_w = Math::clamp(t.gathered, V(lowest), V(limit));
    const V slope = -(Math::exp(k * log_w - lambda * Math::expm1(log_w)) * t.advantage);
    return {slope * t.logp, slope};
  }
};

/// Of the sum of clamp(logp - old_logp, +-20) over the row.
using vespo = gamma_weighted<limited_log_ratio_to_old>;
/// Of the same with the off-policy weights of the tokens folded in.
using corrected_vespo = gamma_weighted<corrected_log_ratio_to_old>;

RLCORE_ALGORITHM_END
RLCORE_END
