// The protocol of a logits piece: a loss on logits.
//
// The protocol of an entry-wise piece, which sees one entry of the vocabulary at a time.
//
//   struct forward_kl {
//     static constexpr logits_field reads = logits_field::teacher;
//     static constexpr std::string_view name = "forward_kl";
//     template <class Math, class V>
//     RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
//       return {times<Math>(e.teacher_p, e.teacher_logp - e.logp), -e.teacher_p};   // value, d value / d logp
//     }
//   };
//
// The loss of a position is the sum of the values over the vocabulary. The loop turns the slopes by the log-probs into
// the gradient by the logits, slope_j - p_j sum(slopes), so an entry-wise piece never sees a softmax.
//
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
// A piece that is a sum over the vocabulary is shorter still: see `entry` below. Optional members: `monitors` (then
// return logits_term<N>), `void check(extent_t vocabulary) const` and `check_teacher` (throw std::invalid_argument,
// once per call), `extent_t label_count() const` (labels number something else than the vocabulary), `extent_t
// target_count() const` (length of a soft label), `static constexpr bool keeps_vocabularies = true` (the teacher's
// entries have another meaning), and `std::size_t scratch_bytes(extent_t vocabulary, extent_t teacher_vocabulary)
// const`.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/objective/piece/fields_used.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/vocabulary/position.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A set of inputs of one position; combine with |.
enum class logits_field : unsigned {
  none = 0,
  label = 1,         ///< an entry of the vocabulary
  teacher = 2,       ///< logits of the teacher or the reference
  support = 4,       ///< a few entries of the vocabulary
  support_logp = 8,  ///< the teacher's log-probs of the support's entries
  target = 16,       ///< a distribution over the entries the piece names (soft label)
  weight = 32,       ///< constant factor of the position
};

/// The inputs of either set.
constexpr logits_field operator|(logits_field a, logits_field b) noexcept {
  return static_cast<logits_field>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// Whether `set` has an input of `f`.
constexpr bool contains(logits_field set, logits_field f) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(f)) != 0;
}

inline constexpr std::size_t logits_field_count = 6;
inline constexpr std::array<std::string_view, logits_field_count> logits_field_names{
    "labels", "teacher", "support", "support_logp", "targets", "weight"};

/// Log-probability and probability of one entry under the student (the policy) and the teacher (the reference), both at
/// the temperature in force. Teacher members hold nothing unless `reads` names logits_field::teacher.
template <class V>
struct entry {
  V logp, teacher_logp;  ///< -inf where the model gives the entry no probability
  V p, teacher_p;
};

/// p x with 0 (-inf) = 0 inf = 0: terms of entries that have no probability.
template <class Math, class V>
RLCORE_FN V times(const V& p, const V& x) noexcept {
  return Math::select(p == V(0), V(0), p * x);
}

/// A piece that is a sum over the vocabulary.
template <class P>
concept entry_piece = requires(const P p, const entry<float>& e) {
  { P::reads } -> std::convertible_to<logits_field>;
  { p.template operator()<exact_math, float>(e) } -> std::same_as<term<float>>;
};

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
inline constexpr bool keeps_vocabularies = requires { innermost_type<P>::keeps_vocabularies; };

/// Scratch bytes that a piece needs per position: only sorting needs any.
template <class P>
constexpr std::size_t scratch_bytes_of(const P& piece, extent_t vocabulary, extent_t teacher_vocabulary) noexcept {
  if constexpr (requires { innermost(piece).scratch_bytes(vocabulary, teacher_vocabulary); })
    return innermost(piece).scratch_bytes(vocabulary, teacher_vocabulary);
  else
    return 0;
}

/// A piece that sees a position and writes its own gradient.
template <class P>
concept position_piece = requires(const P p, const logits_position<float>& x, const logits_gradient<float>& g) {
  { P::reads } -> std::convertible_to<logits_field>;
  { P::name } -> std::convertible_to<std::string_view>;
  { p(x, g) } -> std::convertible_to<logits_term<monitor_count<P>>>;
};

/// Either kind of logits piece: of a position, or of the entries of the vocabulary.
template <class P>
concept logits_piece = position_piece<P> || entry_piece<P>;

/// Rejects at compile time any type that is no logits piece, with a message that describes the protocol.
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
