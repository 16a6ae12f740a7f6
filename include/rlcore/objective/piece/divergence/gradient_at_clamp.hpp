// What a clamp does to the gradient.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// A clamp limits a value; whether it also silences the gradient is a choice of its own.
enum class gradient_at_clamp : std::uint8_t {
  cut,   ///< 0 where the value lies beyond a limit; the limits themselves belong to the inside
  pass,  ///< that of the value without the limit: a token far away is still pulled back
};

RLCORE_ALGORITHM_END
RLCORE_END
