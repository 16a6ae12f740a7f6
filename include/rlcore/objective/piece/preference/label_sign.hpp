// The label of a row that is judged alone.
#pragma once

#include <limits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// 1 for the label 1 (desirable), -1 for 0 (undesirable), NaN for anything else, so that a wrong label shows in the
/// loss.
template <class Math, class V>
RLCORE_FN V label_sign(const V& label) noexcept {
  return Math::select(label == V(1), V(1),
                      Math::select(label == V(0), V(-1), V(std::numeric_limits<double>::quiet_NaN())));
}

RLCORE_ALGORITHM_END
RLCORE_END
