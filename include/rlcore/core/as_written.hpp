// A look at whether arithmetic is done as it is written, for the flags that no macro tells of and no pragma undoes, and
// for what a thread may have set at run time.
#pragma once

#include <bit>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// Throws rlcore::error unless this thread rounds to nearest and keeps subnormal numbers, as a thread does that nobody
/// told otherwise. A program that is linked with -ffast-math, or loads such a library, tells its threads otherwise.
RLCORE_NOINLINE inline void require_default_rounding() {
  volatile float one = 1, smallest = 0x1p-126f, subnormal = 0x1p-149f, shift = 0x1p24f, half = 0.5f;
  const float down = one - 0x1p-25f, up = one + 0x1p-24f;  // both half way to the next number
  if (down != 1 || up != 1)
    throw error(
        "rlcore: this thread does not round to nearest (somebody called std::fesetround), which changes the bits of "
        "losses; call std::fesetenv(FE_DFL_ENV) before");
  const float underflow = smallest * half, scaled = subnormal * shift;
  if (std::bit_cast<std::uint32_t>(underflow) == 0 || std::bit_cast<std::uint32_t>(scaled) == 0)
    throw error(
        "rlcore: this thread takes subnormal numbers for 0, which changes losses (a program or library linked with "
        "-ffast-math sets that as it starts); link without -ffast-math, or call std::fesetenv(FE_DFL_ENV) before");
}

/// Throws rlcore::error if a * b + c is contracted in this file, or -(a - b) becomes b - a; and if this thread does not
/// round as it is by default. clang does the first with -ffp-contract=fast and -fno-signed-zeros whatever the source
/// says, and defines no macro by which they could be refused earlier; without the second, -fassociative-math has no
/// effect. Costs a few operations.
RLCORE_NOINLINE inline void require_arithmetic_as_written() {
  require_default_rounding();
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
