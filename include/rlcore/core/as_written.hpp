// A look at whether sums and products are rounded as they are written, for the one flag that no pragma can undo.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// Throws rlcore::error if a * b + c is contracted in this file: clang does that with -ffp-contract=fast whatever the
/// source says, and defines no macro by which it could be refused earlier. Costs three operations; nothing with g++.
inline void require_arithmetic_as_written() {
#if defined(__clang__)
  volatile float root = 1 + 0x1p-12f, square = 1 + 0x1p-11f;  // the square less 2^-24, which rounds away
  const float a = root, b = square;
  if (a * a - b != 0)
    throw error(
        "rlcore: this file was compiled with clang's -ffp-contract=fast, which changes the bits of losses; compile it "
        "with -ffp-contract=on, clang's default");
#endif
}

RLCORE_ALGORITHM_END
RLCORE_END
