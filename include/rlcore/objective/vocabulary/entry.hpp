// What an entry-wise piece sees of one entry of the vocabulary.
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
#pragma once

#include <concepts>

#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/vocabulary/logits_field.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

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

RLCORE_ALGORITHM_END
RLCORE_END
