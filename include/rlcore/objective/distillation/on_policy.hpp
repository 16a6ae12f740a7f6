// On-policy distillation: KL on the tokens that the student wrote.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <type_traits>

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

RLCORE_ALGORITHM_END
RLCORE_END
