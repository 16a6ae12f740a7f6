// Overflow-checked products of option values.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace trainer::detail {

/// a * b, both at least 0. Throws config_error, beginning with `name`, where 64 bits do not hold it.
inline std::int64_t product(std::int64_t a, std::int64_t b, const std::string& name) {
  if (a > 0 && b > std::numeric_limits<std::int64_t>::max() / a)
    throw config_error(name + ": " + std::to_string(a) + " x " + std::to_string(b) +
                       " is more than a number of 64 bits holds");
  return a * b;
}

}  // namespace trainer::detail
RLCORE_END
