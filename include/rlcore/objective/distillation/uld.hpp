// Distillation between models that have no token in common.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN

/// sum_i |S_(i) - P_(i)| between the probabilities sorted in descending order, the shorter list continued by 0 (ULD,
/// Boizard et al. 2024; TRL GOLD): the vocabularies may differ in size and meaning. gradient by z: S_j (sign_j - sum_r
/// S_r sign_r) with the sign of the pair that j is in. Student and teacher positions must have been paired before.
/// Sorts: wants logits_batch::scratch.
struct uld {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "uld";
  static constexpr bool keeps_vocabularies = true;

  std::size_t scratch_bytes(extent_t vocabulary, extent_t teacher_vocabulary) const noexcept {
    const std::size_t bytes = static_cast<std::size_t>(vocabulary) * sizeof(std::int32_t) +
                              static_cast<std::size_t>(teacher_vocabulary) * sizeof(double);
    return (bytes + 128) / 64 * 64;
  }

  template <class T>
  logits_term<> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    const logits_source<T>&z = x.logits, &w = x.teacher;
    const normalizer<T> student = normalize(z), teacher = normalize(w);
    if (!std::isfinite(student.value() + teacher.value())) {  // NaN has no place in an order
      if (g.wanted()) g.fill(std::numeric_limits<T>::quiet_NaN());
      return std::numeric_limits<double>::quiet_NaN();
    }
    const auto misaligned = reinterpret_cast<std::uintptr_t>(x.scratch.data()) % alignof(double);
    double* const sorted =
        reinterpret_cast<double*>(x.scratch.data() + (misaligned ? alignof(double) - misaligned : std::size_t{0}));
    std::int32_t* const order = reinterpret_cast<std::int32_t*>(sorted + w.size);
    for (extent_t j = 0; j < w.size; ++j) sorted[j] = teacher.logp(w[j]);
    for (extent_t j = 0; j < z.size; ++j) order[j] = static_cast<std::int32_t>(j);
    std::sort(sorted, sorted + w.size, [](double a, double b) { return a > b; });
    std::sort(order, order + z.size, [&](std::int32_t a, std::int32_t b) {
      const double za = z[a], zb = z[b];
      return za != zb ? za > zb : a < b;
    });
    const auto p = [&](extent_t i) { return std::exp(student.logp(z[order[i]])); };
    const auto sign = [&](extent_t i) {
      const double d = p(i) - (i < w.size ? std::exp(sorted[i]) : 0.0);
      return d > 0 ? 1.0 : d < 0 ? -1.0 : 0.0;
    };
    double value = 0, signs = 0;
    for (extent_t i = 0; i < std::max(z.size, w.size); ++i) {
      const double s = i < z.size ? p(i) : 0.0, t = i < w.size ? std::exp(sorted[i]) : 0.0;
      value += std::abs(s - t);
      if (i < z.size) signs += s * sign(i);
    }
    if (g.wanted()) {
      const pack<T> total(static_cast<T>(signs));
      for (extent_t j = 0; j < z.size; j += z.lanes) g.write(j, -(fast_math::exp(student.logp(z.load(j))) * total));
      for (extent_t i = 0; i < z.size; ++i) g.add_at(order[i], p(i) * sign(i));
    }
    return value;
  }
};

RLCORE_END
