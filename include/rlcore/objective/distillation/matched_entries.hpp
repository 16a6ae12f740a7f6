// A divergence on the tokens that two vocabularies have in common.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/objective/distillation/detail/support.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// matched_entries{piece, student, teacher}: any entry-wise piece summed over the pairs (student[k], teacher[k]) of
/// entries that mean the same token, with their probabilities in their own vocabularies, not renormalised. With uld on
/// the others it is the hybrid loss of GOLD (TRL): sum{scaled{w, matched_entries{generalised_jsd{}, s, t}},
/// scaled{1 - w, uld{other_s, other_t}}}, there with w = matched tokens / teacher's vocabulary. gradient: slope_j - S_j
/// sum(slopes). The lists have no repetitions and are not copied.
template <entry_piece Piece>
struct matched_entries {
  static_assert(contains(Piece::reads, logits_field::teacher), "rlcore: matched_entries holds a divergence");
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = Piece::name;
  static constexpr bool keeps_vocabularies = true;
  [[no_unique_address]] Piece piece;
  std::span<const std::int32_t> student, teacher;

  /// `piece` on the pairs (s[k], t[k]) of entries of the student and of the teacher.
  constexpr matched_entries(Piece p, std::span<const std::int32_t> s, std::span<const std::int32_t> t)
      : piece(p), student(s), teacher(t) {}

  /// Throws std::invalid_argument if the lists differ in length or one of the student's entries is none of its
  /// vocabulary.
  void check(extent_t vocabulary) const {
    if (student.size() != teacher.size())
      throw std::invalid_argument("rlcore: matched_entries: [" + std::to_string(student.size()) +
                                  "] entries of the student, [" + std::to_string(teacher.size()) + "] of the teacher");
    for (const std::int32_t j : student)
      if (j < 0 || j >= vocabulary)
        throw std::invalid_argument("rlcore: matched_entries: " + std::to_string(j) +
                                    " is no entry of a vocabulary of " + std::to_string(vocabulary));
    if constexpr (requires { piece.check(vocabulary); }) piece.check(vocabulary);
  }
  /// Throws std::invalid_argument if one of the teacher's entries is none of its vocabulary.
  void check_teacher(extent_t vocabulary) const {
    for (const std::int32_t j : teacher)
      if (j < 0 || j >= vocabulary)
        throw std::invalid_argument("rlcore: matched_entries: " + std::to_string(j) +
                                    " is no entry of a teacher's vocabulary of " + std::to_string(vocabulary));
  }

  template <class T>
  logits_term<> operator()(logits_position<T> x, const logits_gradient<T>& g) const noexcept {
    const normalizer<T> n = normalize(x.logits), m = normalize(x.teacher);
    const auto at = [&](extent_t k) {
      const auto i = static_cast<std::size_t>(k);
      return detail::term_of(piece, n.logp(x.logits[student[i]]), m.logp(x.teacher[teacher[i]]));
    };
    double value = 0, slopes = 0;
    for (extent_t k = 0; k < std::ssize(student); ++k) {
      const term<double> t = at(k);
      value += t.value, slopes += t.slope;
    }
    x.support = {student.data(), std::ssize(student), 1, false};
    if (g.wanted())
      detail::scatter_slopes(
          x, n, slopes, [&](extent_t k) { return at(k).slope; }, g);
    return value;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
