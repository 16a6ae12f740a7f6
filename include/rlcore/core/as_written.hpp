// A look at whether arithmetic is done as it is written, for the flags that no macro tells of and no pragma undoes.
#pragma once

#include <bit>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// Throws rlcore::error if a * b + c is contracted in this file, or -(a - b) becomes b - a. clang does so with
/// -ffp-contract=fast and -fno-signed-zeros whatever the source says, and defines no macro by which they could be refused
/// earlier; without the second, -fassociative-math has no effect. Costs a few operations; nothing with g++.
inline void require_arithmetic_as_written() {
#if defined(__clang__)
  volatile float root = 1 + 0x1p-12f, square = 1 + 0x1p-11f;  // the square less 2^-24, which rounds away
  const float a = root, b = square;
  if (a * a - b != 0)
    throw error(
        "rlcore: this file was compiled with clang's -ffp-contract=fast, which changes the bits of losses; compile it "
        "with -ffp-contract=on, clang's default");
  volatile float one = 1;
  const float x = one, y = one, negated = -(x - y);
  if (std::bit_cast<std::uint32_t>(negated) == 0)
    throw error(
        "rlcore: this file was compiled with -fno-signed-zeros, which also lets -fassociative-math reorder sums and "
        "changes the bits of losses; compile it without, or with -fsigned-zeros behind it");
#endif
}

RLCORE_ALGORITHM_END
RLCORE_END
