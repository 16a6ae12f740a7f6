// A token with its log-prob.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace rollout {

/// A token and its log-prob.
struct token_logprob {
  std::int32_t token = 0;
  float logp = 0;
};

}  // namespace rollout
RLCORE_END
