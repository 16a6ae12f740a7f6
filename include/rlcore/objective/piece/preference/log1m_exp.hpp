// log(1 - e^x) for x <= 0, for odds and for differences of logistic functions.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// log(1 - e^x), without the cancellation of writing it so at either end: by expm1 above -log 2, by log1p below.
/// 0 gives -infinity, x > 0 gives NaN.
template <class Math, class V>
RLCORE_FN V log1m_exp(const V& x) noexcept {
  return Math::select(x > V(-0.6931471805599453), Math::log(-Math::expm1(x)), Math::log1p(-Math::exp(x)));
}

RLCORE_ALGORITHM_END
RLCORE_END
