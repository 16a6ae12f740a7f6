// The protocol of a token piece, and the sentences that explain it to whoever broke it.
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
// per row, not per token). Bodies use arithmetic, comparisons, V(setting) and Math:: only: the same text runs on float,
// double, packs of lanes and dual numbers.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rlcore/objective/piece/field.hpp"
#include "rlcore/objective/piece/term.hpp"
#include "rlcore/simd/exact.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A node that holds other pieces: sum, scaled.
template <class N>
concept composite_piece = requires {
  { N::pieces } -> std::convertible_to<std::size_t>;
};

/// What P's slope is taken by: its member `wrt`, else field::logp.
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

/// The fields that P wants with one value per row: `static constexpr field row_fields = field::advantage;`.
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

/// A piece says what it reads, has a name, and returns term<V, number of monitors> for a token<V>.
template <class P>
concept token_piece = requires(const P p, const token<float>& t) {
  { P::reads } -> std::convertible_to<field>;
  { P::name } -> std::convertible_to<std::string_view>;
  { p.template operator()<exact_math, float>(t) } -> std::same_as<term<float, monitor_count<P>>>;
};

/// Checks one piece with a sentence per mistake; true if all is well. The float and double bodies are instantiated here
/// so that a body which compiles for neither is reported before the loop is built.
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

RLCORE_ALGORITHM_END
RLCORE_END
