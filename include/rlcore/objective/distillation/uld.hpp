// Distillation between models that have no token in common.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// sum_i |S_(i) - P_(i)| between the probabilities sorted in descending order, the shorter list continued by 0 (ULD,
/// Boizard et al. 2024; TRL GOLD): the vocabularies may differ in size and meaning. Lists of entries, if given,
/// restrict the sum to those entries of either model. gradient by z: S_j (sign_j [j in the list] - sum_r S_r sign_r)
/// with the sign of the pair that j is in, 0 at ties. Student and teacher positions must have been paired before.
/// Sorts: wants logits_batch::scratch.
struct uld {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "uld";
  static constexpr bool keeps_vocabularies = true;
  std::span<const std::int32_t> student{}, teacher{};  ///< without repetitions; empty: all entries

  /// Throws std::invalid_argument if one of the student's entries is none of its vocabulary.
  void check(extent_t vocabulary) const { check_list(student, vocabulary, "the student's"); }
  /// Throws std::invalid_argument if one of the teacher's entries is none of its vocabulary.
  void check_teacher(extent_t vocabulary) const { check_list(teacher, vocabulary, "the teacher's"); }
  /// Bytes for the order of the student's entries and the sorted probabilities of the teacher, with room to align them.
  std::size_t scratch_bytes(extent_t vocabulary, extent_t teacher_vocabulary) const noexcept {
    const std::size_t bytes = static_cast<std::size_t>(vocabulary) * sizeof(std::int32_t) +
                              static_cast<std::size_t>(teacher_vocabulary) * sizeof(double);
    return (bytes + 128) / 64 * 64;
  }

  template <class T>
  logits_term<> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    const logits_source<T>&z = x.logits, &w = x.teacher;
    const normalizer<T> of_student = normalize(z), of_teacher = normalize(w);
    if (!std::isfinite(of_student.value() + of_teacher.value())) {  // NaN has no place in an order
      if (g.wanted()) g.fill(std::numeric_limits<T>::quiet_NaN());
      return std::numeric_limits<double>::quiet_NaN();
    }
    const extent_t n = student.empty() ? z.size : std::ssize(student);
    const extent_t m = teacher.empty() ? w.size : std::ssize(teacher);
    const auto misaligned = reinterpret_cast<std::uintptr_t>(x.scratch.data()) % alignof(double);
    double* const sorted =
        reinterpret_cast<double*>(x.scratch.data() + (misaligned ? alignof(double) - misaligned : std::size_t{0}));
    std::int32_t* const order = reinterpret_cast<std::int32_t*>(sorted + m);
    for (extent_t i = 0; i < m; ++i)
      sorted[i] = elementary::exp(of_teacher.logp(w[teacher.empty() ? i : teacher[static_cast<std::size_t>(i)]]));
    for (extent_t i = 0; i < n; ++i)
      order[i] = student.empty() ? static_cast<std::int32_t>(i) : student[static_cast<std::size_t>(i)];
    std::sort(sorted, sorted + m, [](double a, double b) { return a > b; });
    std::sort(order, order + n, [&](std::int32_t a, std::int32_t b) {
      const double za = z[a], zb = z[b];
      return za != zb ? za > zb : a < b;
    });
    const auto p = [&](extent_t i) { return i < n ? elementary::exp(of_student.logp(z[order[i]])) : 0.0; };
    const auto sign = [&](extent_t i) {
      const double d = p(i) - (i < m ? sorted[i] : 0.0);
      return d > 0 ? 1.0 : d < 0 ? -1.0 : 0.0;
    };
    double value = 0, signs = 0;
    for (extent_t i = 0; i < std::max(n, m); ++i) {
      value += std::abs(p(i) - (i < m ? sorted[i] : 0.0));
      signs += p(i) * sign(i);
    }
    if (g.wanted()) {
      const pack<T> total(static_cast<T>(signs));
      for (extent_t j = 0; j < z.size; j += z.lanes) g.write(j, -(fast_math::exp(of_student.logp(z.load(j))) * total));
      for (extent_t i = 0; i < n; ++i) g.add_at(order[i], p(i) * sign(i));
    }
    return value;
  }

 private:
  static void check_list(std::span<const std::int32_t> list, extent_t vocabulary, const char* whose) {
    for (const std::int32_t j : list)
      if (j < 0 || j >= vocabulary)
        throw std::invalid_argument("rlcore: uld: " + std::to_string(j) + " is no entry of " + whose +
                                    " vocabulary of " + std::to_string(vocabulary));
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
