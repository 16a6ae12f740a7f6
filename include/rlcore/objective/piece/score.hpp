// Scores of sequences: sums and means of log-probs or log-ratios, the head of a reward model.
//
// A score is a per-token quantity, summed or averaged over the live tokens of a sequence.
//
// `unit_slope` says that the slope is 1 everywhere; the loop then writes one number to the whole row.
#pragma once

#include <string_view>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// 1 per token, a constant: sum_of<token_count> is the number of live tokens.
struct token_count {
  static constexpr field reads = field::none;
  static constexpr std::string_view name = "token_count";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>&) const noexcept {
    return {V(1), V(0)};
  }
};

/// ref_logp, a constant: for links that compare the two policies other than by their difference (AOT).
struct reference_log_prob {
  static constexpr field reads = field::ref_logp;
  static constexpr std::string_view name = "reference_log_prob";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.ref_logp, V(0)};
  }
};

/// weight (logp - ref_logp), slope weight: LD-DPO with the weights of ld_dpo_weights.
struct weighted_log_ratio_to_reference {
  static constexpr field reads = field::logp | field::ref_logp | field::weight;
  static constexpr std::string_view name = "weighted_log_ratio_to_reference";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.weight * (t.logp - t.ref_logp), t.weight};
  }
};

/// field::value with slope 1 by it: the mask leaves one token of each row alive, the one where the head is read.
struct head_score {
  static constexpr field reads = field::value;
  static constexpr field wrt = field::value;
  static constexpr std::string_view name = "head_score";
  static constexpr bool unit_slope = true;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.value, V(1)};
  }
};

/// logp: the log-likelihood of a sequence (SimPO, ORPO, CPO).
struct log_prob {
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "log_prob";
  static constexpr bool unit_slope = true;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp, V(1)};
  }
};

/// logp - ref_logp: the implicit reward of DPO, IPO, KTO.
struct log_ratio_to_reference {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "log_ratio_to_reference";
  static constexpr bool unit_slope = true;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp - t.ref_logp, V(1)};
  }
};

/// logp - old_logp: the log importance ratio of GSPO, GMPO.
struct log_ratio_to_old {
  static constexpr field reads = field::logp | field::old_logp;
  static constexpr std::string_view name = "log_ratio_to_old";
  static constexpr bool unit_slope = true;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp - t.old_logp, V(1)};
  }
};

/// The sum of Score's value over the live tokens of a row.
template <class Score>
struct sum_of {
  using score = Score;
  static constexpr bool averages = false;
};

/// The same divided by the number of live tokens.
template <class Score>
struct mean_of {
  using score = Score;
  static constexpr bool averages = true;
};

/// For pieces that gather nothing.
struct no_gather {};

namespace detail {
template <class P>
struct gather_of {
  using type = no_gather;
};
template <class P>
  requires requires { typename P::gathers; }
struct gather_of<P> {
  using type = typename P::gathers;
};
}  // namespace detail

/// The row statistic that piece P needs before its tokens are evaluated: its member type `gathers`, e.g.
/// mean_of<log_ratio_to_old>, or no_gather. P reads it as field::gathered.
template <class P>
using gathers_of = typename detail::gather_of<P>::type;

/// The score that P gathers, with P's settings: its member function `score()`, or a default one of the type.
template <class P>
constexpr auto score_of(const P& piece) noexcept {
  if constexpr (requires { piece.score(); })
    return piece.score();
  else
    return typename gathers_of<P>::score{};
}

RLCORE_ALGORITHM_END
RLCORE_END
