// Distillation on the tokens that the student wrote: KL, and advantages from a teacher's log-probs (MiniLLM, on-policy
// distillation).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/advantage/detail/tokens.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// sg(logp - ref_logp) logp with the teacher as reference: the policy gradient of KL(student || teacher) (SDPO "sampled
/// token", TRL). slope: logp - ref_logp. The value means nothing; see k1 for the divergence.
struct sampled_reverse_kl {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "sampled_reverse_kl";
  static constexpr bool stops_gradient = true;

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V d = t.logp - t.ref_logp;
    return {d * t.logp, d};
  }
};

/// -a logp with a = sg(ref_logp - rollout_logp), the teacher as reference. slope: -a. The
/// policy gradient with the negative k1 as advantage (verl "use_policy_gradient"); with weights, see iw_opd.
struct on_policy_distillation {
  static constexpr field reads = field::logp | field::ref_logp | field::rollout_logp;
  static constexpr std::string_view name = "distillation";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V a = t.ref_logp - t.rollout_logp;
    return {-(a * t.logp), -a};
  }
};

/// -w a logp with a = sg(ref_logp - rollout_logp), the teacher as reference, and field::weight w as prefix_weights
/// makes it (IW-OPD, TRL). slope: -w a. The weight is no off-policy correction: weighted{} has no part in it.
struct iw_opd {
  static constexpr field reads = field::logp | field::ref_logp | field::rollout_logp | field::weight;
  static constexpr std::string_view name = "distillation";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V a = t.weight * (t.ref_logp - t.rollout_logp);
    return {-(a * t.logp), -a};
  }
};

/// w_t = 1 + gamma (1 - sum_{s < t} |a_s| / sum_s |a_s|) over the live tokens of each row, a = teacher_logp -
/// rollout_logp: early tokens weigh up to 1 + gamma (IW-OPD, TRL, whose defaults these are). It is field::weight of
/// iw_opd; as a factor of teacher_advantage{}, which is a itself, it makes the same gradient. Slots where the mask is 0
/// are not read and get 0. All are [rows, tokens]; throws std::invalid_argument for other shapes.
struct prefix_weights {
  double gamma = 0.5, epsilon = 1e-8;  ///< epsilon: the least that the total counts

  /// Writes w to `weights`.
  template <class Teacher, class Rollout, class Weights>
  void operator()(const Teacher& teacher_logp, const Rollout& rollout_logp, const token_mask& mask,
                  Weights&& weights) const {
    const auto teacher = as_view<2>(teacher_logp);
    const auto rollout = as_view<2>(rollout_logp);
    const auto weight = as_view<2>(weights);
    using number = typename std::remove_cv_t<decltype(weight)>::value_type;
    detail::check_shape("log-probs of the rollout", rollout.shape, "those of the teacher", teacher.shape);
    detail::check_shape("weights", weight.shape, "log-probs of the teacher", teacher.shape);
    detail::check_mask_shape(mask, "log-probs of the teacher", teacher.shape);
    for (extent_t i = 0; i < weight.shape[0]; ++i) {
      const auto live = [&](extent_t t) { return token_block::live_bits(mask, i, t, 1) != 0; };
      const auto gap = [&](extent_t t) {
        return std::abs(static_cast<double>(teacher(i, t)) - static_cast<double>(rollout(i, t)));
      };
      double total = 0, before = 0;
      for (extent_t t = 0; t < weight.shape[1]; ++t)
        if (live(t)) total += gap(t);
      total = std::max(total, epsilon);
      for (extent_t t = 0; t < weight.shape[1]; ++t) {
        weight(i, t) = live(t) ? static_cast<number>(1 + gamma * (1 - before / total)) : number(0);
        if (live(t)) before += gap(t);
      }
    }
  }
};

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
