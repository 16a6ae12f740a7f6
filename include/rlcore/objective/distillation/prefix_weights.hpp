// Token weights that fall as a sequence drifts away from the teacher.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "rlcore/objective/advantage/detail/token_block.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
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
