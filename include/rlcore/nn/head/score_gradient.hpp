// Where the gradient of a score head goes.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace nn {

/// `weight` [hidden] and, unless null, `bias` [1]; without `add`, weight holds nothing to add to.
struct score_gradient {
  float *weight = nullptr, *bias = nullptr;
  bool add = true;
};

}  // namespace nn
RLCORE_END
