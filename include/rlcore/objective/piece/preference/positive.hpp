// A setting that is more than zero.
#pragma once

#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The scale of a link (beta, a temperature), written as the number that it is: a finite one above 0, anything else
/// throws std::invalid_argument. With beta <= 0 a preference loss has no gradient or prefers the rejected answer.
struct positive {
  double value;
  /// Throws std::invalid_argument unless x is finite and above 0.
  constexpr positive(double x) : value(x) {
    if (!(x > 0) || x - x != 0)
      throw std::invalid_argument("rlcore: the beta (or temperature) of a link is a finite number above 0, not " +
                                  std::to_string(x));
  }
  constexpr operator double() const noexcept { return value; }
};

RLCORE_ALGORITHM_END
RLCORE_END
