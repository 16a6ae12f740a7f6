// The KL penalty without sampling.
#pragma once

#include <string_view>

#include "rlcore/objective/distillation/forward_kl.hpp"
#include "rlcore/objective/distillation/reverse_kl.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// KL(policy || reference) over the whole vocabulary: what k1, k2 and k3 estimate from one token, with the exact
/// gradient of this position (verl's "full", which raises there). The reference is logits_batch::teacher.
struct full_kl : reverse_kl {
  static constexpr std::string_view name = "kl";
};

/// KL(reference || policy), the direction that k3 descends when it is a loss.
struct reverse_full_kl : forward_kl {
  static constexpr std::string_view name = "kl";
};

RLCORE_ALGORITHM_END
RLCORE_END
