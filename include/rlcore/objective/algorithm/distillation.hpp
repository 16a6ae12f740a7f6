// Knowledge distillation from a teacher's distribution: forward KL, reverse KL, GKD.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/distillation/divergences.hpp"
#include "rlcore/objective/evaluate.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// Knowledge distillation (Hinton et al. 2015): KL(teacher || student) over the vocabulary; the mean over tokens.
constexpr auto kd() { return algorithm{no_advantage{}, forward_kl{}, token_mean{}}; }

/// The student's mode-seeking direction, KL(student || teacher) (MiniLLM, Gu et al. 2024, its token-level form).
constexpr auto reverse_kd() { return algorithm{no_advantage{}, reverse_kl{}, token_mean{}}; }

/// GKD (Agarwal et al. 2024): the generalised Jensen-Shannon divergence, on answers of the student.
constexpr auto gkd(generalised_jsd divergence = {}) {
  check_setting("gkd", "beta", divergence.beta, setting::fraction);
  return algorithm{no_advantage{}, divergence, token_mean{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
