// log(a A + b B) from log A and log B.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN
namespace detail {

/// log(e^x + e^y) without leaving log space: mixtures of probabilities that underflow stay finite.
template <class Math, class V>
RLCORE_FN V log_add(const V& x, const V& y) noexcept {
  return Math::max(x, y) + Math::log1p(Math::exp(-Math::abs(x - y)));
}

}  // namespace detail
RLCORE_END
