// Advantages from a teacher's log-probs: MiniLLM, on-policy distillation.
#pragma once

#include <limits>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/advantage/detail/tokens.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A_t = sum_{s>=t} gamma^{s-t} r_s, r_t = teacher logp - student logp limited to +-limit; divided by the sum of the
/// gamma^{s-t} over live tokens if length_normalization: MiniLLM (Gu et al. 2024). With gamma = 0 the advantage is the
/// token's own r_t: on-policy distillation as policy gradient (verl's use_policy_gradient with k1 and limit = 10).
///
/// The student's log-probs are those at the start of the step: constants. (TRL's MiniLLM lets a gradient pass through
/// them, the paper does not.) `masked_weight` is what a masked slot counts in the divisor (TRL: 1e-4) and
/// `absolute_power` multiplies A by gamma^t (TRL without length normalization); the defaults are the paper's. Masked
/// slots are not read, consume a step of gamma, and get 0. All are [rows, tokens]; throws std::invalid_argument for
/// other shapes.
struct teacher_advantage {
  double gamma = 0.0;
  bool length_normalization = true;
  double limit = std::numeric_limits<double>::infinity();
  double masked_weight = 0.0;
  bool absolute_power = false;

  /// Writes A to `advantages`.
  template <class Teacher, class Student, class Advantages>
  void operator()(const Teacher& teacher_logp, const Student& student_logp, const token_mask& mask,
                  Advantages&& advantages) const {
    const auto teacher = as_view<2>(teacher_logp);
    const auto student = as_view<2>(student_logp);
    const auto out = as_view<2>(advantages);
    using result = typename std::remove_cv_t<decltype(out)>::value_type;
    detail::check_shape("log-probs of the student", student.shape, "those of the teacher", teacher.shape);
    detail::check_shape("advantages", out.shape, "log-probs of the teacher", teacher.shape);
    detail::check_mask_shape(mask, "log-probs of the teacher", teacher.shape);
    for (extent_t i = 0; i < out.shape[0]; ++i) {
      double sum = 0, weight = 0;
      for (extent_t t = out.shape[1]; t-- > 0;) {
        const bool live = token_block::live_bits(mask, i, t, 1) != 0;
        sum *= gamma, weight *= gamma;
        weight += live ? 1.0 : masked_weight;
        if (live) {
          const double r = static_cast<double>(teacher(i, t)) - static_cast<double>(student(i, t));
          sum += r > limit ? limit : r < -limit ? -limit : r;
        }
        double a = length_normalization ? sum / weight : sum;
        if (absolute_power && !length_normalization) a *= elementary::pow(gamma, static_cast<double>(t));
        out(i, t) = live ? static_cast<result>(a) : result(0);
      }
    }
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
