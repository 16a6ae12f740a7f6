// KL estimators k1, k2, k3 and |k1| of KL(policy || reference), verl's variants (low_var_kl), and one chosen at run
// time.
#pragma once

#include <cstdint>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN

RLCORE_ALGORITHM_BEGIN
/// d = logp - ref_logp: unbiased as a value. Its slope is 1, whose expectation under the policy is zero, so as a loss
/// it gives no signal: an objective refuses it unless it is wrapped in accept_zero_gradient.
struct k1 {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";
  static constexpr bool zero_mean_gradient = true;

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp - t.ref_logp, V(1)};
  }
};

/// Lets a piece whose gradient is zero in expectation into a loss nevertheless (verl's kl_loss_type=kl).
template <class Piece>
struct accept_zero_gradient : Piece {
  static constexpr bool zero_mean_gradient = false;
  /// The piece `p`, allowed in a loss.
  constexpr explicit accept_zero_gradient(Piece p) : Piece(p) {}
};

/// d^2 / 2 with d = logp - ref_logp (Schulman 2020; verl's "mse"). The slope d has the gradient of KL(policy ||
/// reference) as its on-policy expectation.
struct k2 {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V d = t.logp - t.ref_logp;
    return {0.5f * (d * d), d};
  }
};

/// e^-d - 1 + d with d = logp - ref_logp (Schulman 2020; GRPO; TRL's beta term). Never negative. slope: 1 - e^-d, whose
/// on-policy expectation is the gradient of KL(reference || policy), the opposite direction. Computed without
/// cancellation near d = 0.
struct k3 {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V e = t.ref_logp - t.logp;
    return {Math::excess(e), -Math::expm1(e)};
  }

  /// r times the value for r = exp(logp - old_logp). Where e^-d is large the product is exp(ref_logp - old_logp) less
  /// r (1 - d), which also holds where e^-d overflows and r is 0.
  template <class Math, class V>
  RLCORE_FN V value_times_ratio(const token<V>& t, const V& ratio) const noexcept {
    const V e = t.ref_logp - t.logp;
    const V apart = Math::exp(t.ref_logp - t.old_logp) - ratio * (V(1) + Math::min(e, V(1e30)));
    return Math::select(e > V(30), apart, ratio * Math::excess(e));
  }
  /// value + slope, which is d without rounding: what the product rule with a ratio needs (ratio_corrected).
  template <class Math, class V>
  RLCORE_FN V value_plus_slope(const token<V>& t) const noexcept {
    return t.logp - t.ref_logp;
  }
};

/// |d| with d = logp - ref_logp (verl's "abs"). slope: sign(d), 0 at 0. Not the gradient of a KL divergence.
struct abs_kl {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V d = t.logp - t.ref_logp;
    return {Math::abs(d), Math::sign(d)};
  }
};

/// Whether a clamp on a value also zeroes its gradient.
enum class gradient_at_clamp : std::uint8_t {
  cut,   ///< 0 where the value lies beyond a limit; the limits are included
  pass,  ///< that of the value without the limit: a token far away is still pulled back
};

/// min(e^c - 1 - c, value_limit) with c = clamp(ref_logp - logp, -limit, limit): verl's "low_var_kl".
///
/// slope: 1 - e^c. With gradient_at_clamp::cut, as in verl, it is 0 beyond either limit: with the defaults a token gets
/// no restoring force where ref_logp - logp is above 2.61 or below -11.0. With pass it keeps 1 - e^c, which is at most
/// e^limit in size.
template <gradient_at_clamp Gradient>
struct limited_k3 {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";
  static constexpr bool stops_gradient = Gradient == gradient_at_clamp::pass;
  double limit = 20.0, value_limit = 10.0;

  constexpr void check_settings() const {
    check_setting("clamped_k3", "limit", limit, setting::bound);
    check_setting("clamped_k3", "value_limit", value_limit, setting::bound);
  }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V free = t.ref_logp - t.logp;
    const V e = Math::clamp(free, V(-limit), V(limit));
    const V value = Math::excess(e), slope = -Math::expm1(e);
    if constexpr (Gradient == gradient_at_clamp::pass) return {Math::min(value, V(value_limit)), slope};
    const auto flat = Math::any(value > V(value_limit), free > V(limit), free < V(-limit));
    return {Math::min(value, V(value_limit)), Math::select(flat, V(0), slope)};
  }
};

/// verl's: no slope beyond either limit.
using clamped_k3 = limited_k3<gradient_at_clamp::cut>;
using low_var_kl = clamped_k3;  ///< verl's name

/// clamp(value, low, high) of another piece: OpenRLHF limits k1, k2 and k3 this way. slope: the piece's own, and with
/// gradient_at_clamp::cut 0 where its value lies outside of [low, high]; an overflowed slope is cut too, not multiplied
/// by zero. value_clamped{k3{}} is OpenRLHF's k3.
template <class Piece, gradient_at_clamp Gradient = gradient_at_clamp::cut>
struct value_clamped : forwarding_piece<Piece> {
  static constexpr bool stops_gradient = stops_gradient_of<Piece>() || Gradient == gradient_at_clamp::pass;
  double low = -10.0, high = 10.0;

  /// The piece `p` with its value in [low_, high_].
  constexpr explicit value_clamped(Piece p, double low_ = -10.0, double high_ = 10.0)
      : forwarding_piece<Piece>(p), low(low_), high(high_) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    auto result = this->piece.template operator()<Math, V>(t);
    if constexpr (Gradient == gradient_at_clamp::cut)
      result.slope = Math::select(Math::any(result.value<V(low), result.value> V(high)), V(0), result.slope);
    result.value = Math::clamp(result.value, V(low), V(high));
    return result;
  }
};

/// The names that end in "+" in verl, e.g. with_kl_gradient(clamped_k3{}) for k3+: the value of `estimator`, and the
/// slope logp - ref_logp, whose on-policy expectation is the gradient of KL(policy || reference). It makes k1 and
/// absolute usable as losses.
template <class Estimator>
constexpr straight_through<Estimator, k2> with_kl_gradient(Estimator estimator) noexcept {
  return {estimator, k2{}};
}

/// verl's kl or k1, abs, mse or k2, low_var_kl or k3 (clamped).
enum class kl_kind : std::uint8_t { k1, abs_kl, k2, k3 };

/// f(piece) with the piece that `kind` names; all calls must return the same type.
template <class F>
constexpr auto visit_divergence(kl_kind kind, F&& f) {
  switch (kind) {
    case kl_kind::k1:
      return f(k1{});
    case kl_kind::abs_kl:
      return f(abs_kl{});
    case kl_kind::k2:
      return f(k2{});
    case kl_kind::k3:
      break;
  }
  return f(clamped_k3{});
}

/// The divergence that `kind` names; where `straight` it keeps its value but has the slope of k2 (verl's names ending
/// in "+"). One piece with a switch, not one type per kind: every further objective adds a loop to a trainer's build.
struct any_divergence {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";
  kl_kind kind = kl_kind::k3;
  bool straight = false;
  bool absent = false;  ///< 0 everywhere, also where a log-prob is infinite: the term is switched off

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    if (absent) return {V(0), V(0)};
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

RLCORE_ALGORITHM_END

RLCORE_END
