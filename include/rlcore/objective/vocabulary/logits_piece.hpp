// The protocol of a logits piece: value and gradient of one position by its vector of logits.
//
//   struct z_loss {
//     static constexpr logits_field reads = logits_field::none;
//     static constexpr std::string_view name = "z_loss";
//     template <class T>
//     double operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
//       const auto n = normalize(x.logits);
//       const double lse = n.value();
//       if (g.wanted())
//         for (extent_t j = 0; j < x.logits.size; j += g.lanes)
//           g.write(j, pack<T>(2 * lse) * fast_math::exp(n.logp(x.logits.load(j))));
//       return lse * lse;
//     }
//   };
//
// A piece that is a sum over the vocabulary is shorter still: see entry.hpp. Optional members: `monitors` (then return
// logits_term<N>), `void check(extent_t vocabulary) const` and `check_teacher` (throw std::invalid_argument, once per
// call), `extent_t label_count() const` (labels number something else than the vocabulary), `extent_t target_count()
// const` (length of a soft label), `static constexpr bool keeps_vocabularies = true` (the teacher's entries have
// another meaning), and `std::size_t scratch_bytes(extent_t vocabulary, extent_t teacher_vocabulary) const`.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "rlcore/objective/piece/fields_used.hpp"
#include "rlcore/objective/vocabulary/entry.hpp"
#include "rlcore/objective/vocabulary/position.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A logits piece's value of one position and its diagnostics.
template <std::size_t Monitors = 0>
struct logits_term {
  double value = 0;
  double monitor[Monitors]{};
};
template <>
struct logits_term<0> {
  double value = 0;
  /// A value without diagnostics.
  logits_term(double v = 0) noexcept : value(v) {}
};

/// Members of a piece that a decorator hands on to the loop: the decorated piece, seen through any number of them.
template <class P>
constexpr const auto& innermost(const P& piece) noexcept {
  if constexpr (requires { typename P::decorates; })
    return innermost(piece.piece);
  else
    return piece;
}
/// The type of the piece inside of all decorators.
template <class P>
using innermost_type = std::remove_cvref_t<decltype(innermost(std::declval<const P&>()))>;

template <class P>
inline constexpr bool keeps_vocabularies = requires {
  innermost_type<P>::keeps_vocabularies;
};

/// Bytes that a piece wants per position at work: sorting needs some, nothing else does.
template <class P>
constexpr std::size_t scratch_bytes_of(const P& piece, extent_t vocabulary, extent_t teacher_vocabulary) noexcept {
  if constexpr (requires { innermost(piece).scratch_bytes(vocabulary, teacher_vocabulary); })
    return innermost(piece).scratch_bytes(vocabulary, teacher_vocabulary);
  else
    return 0;
}

/// A piece that is shown a position and writes its own gradient.
template <class P>
concept position_piece = requires(const P p, const logits_position<float>& x, const logits_gradient<float>& g) {
  { P::reads } -> std::convertible_to<logits_field>;
  { P::name } -> std::convertible_to<std::string_view>;
  { p(x, g) } -> std::convertible_to<logits_term<monitor_count<P>>>;
};

/// Either kind of logits piece: of a position, or of the entries of the vocabulary.
template <class P>
concept logits_piece = position_piece<P> || entry_piece<P>;

/// Refuses at compile time what is no logits piece, with a sentence that says what one is.
template <class P>
consteval bool check_logits_piece() {
  static_assert(
      logits_piece<P>,
      "rlcore: a logits piece has `static constexpr logits_field reads`, `static constexpr std::string_view name` and "
      "either template <class T> double operator()(const logits_position<T>&, const logits_gradient<T>&) const "
      "noexcept, or template <class Math, class V> term<V> operator()(const entry<V>&) const noexcept (a sum over the "
      "vocabulary); token pieces go to evaluate(), with the log-probs that log_probs() makes of logits");
  return logits_piece<P>;
}

/// Sum over the vocabulary of an entry-wise piece, and its gradient by the logits: slope_j - p_j sum(slopes).
template <entry_piece P, class T>
double sum_over_vocabulary(const P& piece, const logits_position<T>& x, const logits_gradient<T>& g) noexcept {
  constexpr bool two = contains(P::reads, logits_field::teacher);
  const logits_source<T>&z = x.logits, &w = x.teacher;
  const normalizer<T> student = normalize(z), teacher = two ? normalize(w) : normalizer<T>{};
  const auto term_at = [&](extent_t j) RLCORE_LAMBDA {
    entry<pack<T>> e{};
    e.logp = student.logp(z.load(j));
    e.p = fast_math::exp(e.logp);
    if constexpr (two) {
      e.teacher_logp = teacher.logp(w.load(j));
      e.teacher_p = fast_math::exp(e.teacher_logp);
    }
    term<pack<T>> t = piece.template operator()<fast_math, pack<T>>(e);
    // Entries that neither model knows, and the lanes past the end.
    auto dead = e.p == pack<T>(T(0));
    if constexpr (two) dead = dead & (e.teacher_p == pack<T>(T(0)));
    t.value = fast_math::select(dead, pack<T>(T(0)), t.value);
    t.slope = fast_math::select(dead, pack<T>(T(0)), t.slope);
    return std::pair{t, e.p};
  };
  wide_sum<T> value, slope;
  for (extent_t j = 0; j < z.size; j += z.lanes) {
    const auto t = term_at(j).first;
    value.add(t.value), slope.add(t.slope);
  }
  if (g.wanted()) {
    const pack<T> total(static_cast<T>(slope.total()));
    for (extent_t j = 0; j < z.size; j += z.lanes) {
      const auto [t, p] = term_at(j);
      g.write(j, t.slope - p * total);
    }
  }
  return value.total();
}

/// Throws std::invalid_argument if an entry-wise piece uses the teacher without listing it in `reads`.
template <class P>
RLCORE_FN void check_entry_reads(const P& piece) {
  if constexpr (entry_piece<P> && !contains(P::reads, logits_field::teacher)) {
    const entry<dependence> e{dependence(0.0), dependence::from(1), dependence(0.0), dependence::from(1)};
    const term<dependence> t = piece.template operator()<dependence_math, dependence>(e);
    if ((t.value.fields | t.slope.fields) != 0)
      throw std::invalid_argument("rlcore: " + std::string(P::name) +
                                  " uses the teacher, which its `reads` does not list; add logits_field::teacher to "
                                  "`static constexpr logits_field reads`");
  }
}

/// Runs a logits piece of either kind.
template <class P, class T>
logits_term<monitor_count<P>> run_piece(const P& piece, const logits_position<T>& x,
                                        const logits_gradient<T>& g) noexcept {
  if constexpr (entry_piece<P>)
    return sum_over_vocabulary(piece, x, g);
  else
    return piece(x, g);
}

RLCORE_ALGORITHM_END
RLCORE_END
