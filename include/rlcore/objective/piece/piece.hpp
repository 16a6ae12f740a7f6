// The protocol of a token piece and its static_assert messages.
//
//   struct my_divergence {
//     static constexpr field reads = field::logp | field::ref_logp;
//     static constexpr std::string_view name = "my_divergence";
//     template <class Math, class V>
//     RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
//       const V d = t.logp - t.ref_logp;
//       return {0.5f * (d * d), d};                    // value, slope = d value / d logp
//     }
//   };
//
// Optional members: `static constexpr field wrt` (what the slope is taken by, default field::logp),
// `static constexpr std::array<std::string_view, N> monitors` (then return term<V, N>), and
// `static constexpr bool stops_gradient = true` (the slope deliberately is not the derivative of the value),
// `using gathers = mean_of<log_ratio_to_old>` (a statistic of the row, read as field::gathered),
// `static constexpr bool per_sequence = true`, and `static constexpr field row_fields = field::advantage` (one value
// per row, not per token). Bodies use arithmetic, comparisons, V(setting) and Math:: only: the same code runs on float,
// double, packs of lanes and dual numbers.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/simd/exact.hpp"

RLCORE_BEGIN
/// A set of per-token inputs; combine with |. Log-probs are those of the token that was sampled.
enum class field : unsigned {
  none = 0,
  logp = 1,          ///< log pi_theta, the current policy
  old_logp = 2,      ///< the proximal policy, at the start of the step
  ref_logp = 4,      ///< the reference policy
  rollout_logp = 8,  ///< the behaviour policy, as recorded by the sampler
  advantage = 16,    ///< constant
  weight = 32,       ///< off-policy correction, constant
  entropy = 64,      ///< of the current policy's distribution at this position
  value = 128,       ///< of the current critic
  old_value = 256,   ///< of the critic at the start of the step
  target = 512,      ///< return or label, constant
  selected = 1024,   ///< 1 where a selection over the batch chose the token, else 0
  gathered = 2048,   ///< a statistic of the token's row: computed by the loop, not an input
};

/// The fields of either set.
constexpr field operator|(field a, field b) noexcept {
  return static_cast<field>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// Whether `set` has a field of `f`.
RLCORE_FN constexpr bool contains(field set, field f) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(f)) != 0;
}

inline constexpr std::size_t field_count = 12;
inline constexpr std::array<std::string_view, field_count> field_names{
    "logp",    "old_logp", "ref_logp",  "rollout_logp", "advantage", "weight",
    "entropy", "value",    "old_value", "target",       "selected",  "gathered"};

/// The i-th field, the one with bit i.
RLCORE_FN constexpr field field_at(std::size_t i) noexcept { return static_cast<field>(1u << i); }

/// Input of a piece: one token (V = float) or one token per lane (V = pack). Fields that no piece reads are never
/// loaded and hold nothing.
template <class V>
struct token {
  V logp, old_logp, ref_logp, rollout_logp, advantage, weight, entropy, value, old_value, target, selected, gathered;
};

/// token<V>::*field_member<V>[i] is the member of field_at(i).
template <class V>
inline constexpr V token<V>::* field_member[field_count] = {
    &token<V>::logp,      &token<V>::old_logp, &token<V>::ref_logp, &token<V>::rollout_logp,
    &token<V>::advantage, &token<V>::weight,   &token<V>::entropy,  &token<V>::value,
    &token<V>::old_value, &token<V>::target,   &token<V>::selected, &token<V>::gathered};

/// A piece's value for one token, its slope d value / d `wrt` (by default d value / d logp), and as many diagnostics as
/// the piece has names in `monitors`.
template <class V, std::size_t Monitors = 0>
struct term {
  V value, slope;
  V monitor[Monitors];
};

template <class V>
struct term<V, 0> {
  V value, slope;
};

/// A term with one diagnostic, usually 0 or 1 ("clipped").
template <class V>
using flagged_term = term<V, 1>;

RLCORE_ALGORITHM_BEGIN
/// A node that holds other pieces: sum, scaled.
template <class N>
concept composite_piece = requires {
  { N::pieces } -> std::convertible_to<std::size_t>;
};

/// The field by which P's slope is taken: its member `wrt`, else field::logp.
template <class P>
constexpr field wrt_of() noexcept {
  if constexpr (requires { P::wrt; })
    return P::wrt;
  else
    return field::logp;
}

/// The names of P's monitors, an array that is empty if it has none.
template <class P>
constexpr auto monitors_of() noexcept {
  if constexpr (requires { P::monitors; })
    return P::monitors;
  else
    return std::array<std::string_view, 0>{};
}

template <class P>
inline constexpr std::size_t monitor_count = monitors_of<P>().size();

/// The fields that P needs with one value per row: `static constexpr field row_fields = field::advantage;`.
template <class P>
constexpr field per_row_fields_of() noexcept {
  if constexpr (requires { P::row_fields; })
    return P::row_fields;
  else
    return field::none;
}

/// Whether the piece says `static constexpr bool per_sequence = true`: its value is one term per sequence, which each
/// of the sequence's tokens repeats, so that only sequence_mean_token_mean weighs it right.
template <class P>
inline constexpr bool is_per_sequence = false;
template <class P>
  requires requires { P::per_sequence; }
inline constexpr bool is_per_sequence<P> = P::per_sequence;

/// A piece declares the fields it reads, has a name, and returns term<V, number of monitors> for a token<V>.
template <class P>
concept token_piece = requires(const P p, const token<float>& t) {
  { P::reads } -> std::convertible_to<field>;
  { P::name } -> std::convertible_to<std::string_view>;
  { p.template operator()<exact_math, float>(t) } -> std::same_as<term<float, monitor_count<P>>>;
};

/// Checks one piece with a static_assert message per mistake; true if it is valid. The float and double bodies are
/// instantiated here so that a body which compiles for neither is reported before the loop is built.
template <class P>
consteval bool check_piece() {
  if constexpr (!requires {
                  { P::reads } -> std::convertible_to<field>;
                }) {
    static_assert(
        requires { P::reads; },
        "rlcore: a token piece must say what it reads, e.g. "
        "static constexpr field reads = field::logp | field::advantage;");
    return false;
  } else if constexpr (!requires {
                         { P::name } -> std::convertible_to<std::string_view>;
                       }) {
    static_assert(
        requires { P::name; },
        "rlcore: a token piece must have a name for reports, e.g. "
        "static constexpr std::string_view name = \"my_piece\";");
    return false;
  } else if constexpr (!requires(const P p, const token<float>& t) { p.template operator()<exact_math, float>(t); }) {
    static_assert(
        requires(const P p, const token<float>& t) { p.template operator()<exact_math, float>(t); },
        "rlcore: a token piece must have a const call operator for any scalar-like V: "
        "template <class Math, class V> term<V> operator()(const token<V>& t) const noexcept");
    return false;
  } else if constexpr (!token_piece<P>) {
    static_assert(token_piece<P>,
                  "rlcore: a token piece must return term<V>{value, slope}, where slope is d(value)/d(logp) (or by its "
                  "`wrt`), or term<V, N>{value, slope, {...}} if it has N names in `monitors`");
    return false;
  } else {
    static_assert(noexcept(std::declval<const P&>().template operator()<exact_math, float>(token<float>{})),
                  "rlcore: the call operator of a token piece must be noexcept");
    [[maybe_unused]] constexpr auto body = &P::template operator()<exact_math, double>;
    return true;
  }
}

template <class N>
inline constexpr std::size_t piece_count = 1;
template <composite_piece N>
inline constexpr std::size_t piece_count<N> = N::pieces;

/// The i-th piece of an objective, seen through sums and scales.
template <std::size_t Index, class N>
RLCORE_FN constexpr const auto& piece_at(const N& node) noexcept {
  if constexpr (composite_piece<N>)
    return node.template piece<Index>();
  else
    return node;
}

/// The type of the i-th piece of an objective.
template <std::size_t Index, class N>
using piece_type = std::remove_cvref_t<decltype(piece_at<Index>(std::declval<const N&>()))>;

/// The factor with which the i-th piece enters the loss.
template <std::size_t Index, class N>
RLCORE_FN constexpr double coefficient_at(const N& node) noexcept {
  if constexpr (composite_piece<N>)
    return node.template coefficient<Index>();
  else
    return 1.0;
}

/// A measure declares the fields it reads, has the name of a monitor, and returns a V for a token<V>.
template <class M>
concept token_measure = requires(const M m, const token<float>& t) {
  { M::reads } -> std::convertible_to<field>;
  { M::name } -> std::convertible_to<std::string_view>;
  { m.template operator()<exact_math, float>(t) } -> std::same_as<float>;
};

/// old_logp - logp clamped to +-limit: verl's ppo_kl, TRL's and OpenRLHF's approximate KL.
struct ppo_kl {
  static constexpr field reads = field::logp | field::old_logp;
  static constexpr std::string_view name = "ppo_kl";
  double limit = std::numeric_limits<double>::infinity();

  template <class Math, class V>
  RLCORE_FN V operator()(const token<V>& t) const noexcept {
    const V x = t.old_logp - t.logp;
    return Math::select(x > V(limit), V(limit), Math::select(x < V(-limit), V(-limit), x));
  }
};

/// |logp - old_logp|, which verl logs as ppo_kl for kl_cov.
struct abs_ppo_kl {
  static constexpr field reads = field::logp | field::old_logp;
  static constexpr std::string_view name = "ppo_kl";

  template <class Math, class V>
  RLCORE_FN V operator()(const token<V>& t) const noexcept {
    return Math::abs(t.logp - t.old_logp);
  }
};

/// 1 for selected tokens, which clip_cov takes out of the update and verl logs as clipfrac.
struct selected_fraction {
  static constexpr field reads = field::selected;
  static constexpr std::string_view name = "clipfrac";

  template <class Math, class V>
  RLCORE_FN V operator()(const token<V>& t) const noexcept {
    return Math::select(t.selected != V(0), V(1), V(0));
  }
};

/// The value of the critic.
struct predicted_value {
  static constexpr field reads = field::value;
  static constexpr std::string_view name = "vpred";

  template <class Math, class V>
  RLCORE_FN V operator()(const token<V>& t) const noexcept {
    return t.value;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
