// Run-time check for IEEE floating-point arithmetic: compiler flags that no macro reveals and no pragma undoes, and a
// thread's rounding and subnormal modes.
#pragma once

#include <bit>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// Throws rlcore::error unless this thread rounds to nearest and keeps subnormal numbers, the default. Linking with
/// -ffast-math, or loading such a library, changes the default.
RLCORE_NOINLINE inline void require_default_rounding() {
#if defined(__x86_64__)
  const unsigned control = __builtin_ia32_stmxcsr();
  const bool other_rounding = (control & 0x6000) != 0, no_subnormals = (control & 0x8040) != 0;
#elif defined(__aarch64__)
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  const bool other_rounding = (control & 0xc00000) != 0, no_subnormals = (control & 0x1000000) != 0;
#else
  const bool other_rounding = false, no_subnormals = false;
#endif
  if (other_rounding)
    throw error(
        "rlcore: this thread does not round to nearest (std::fesetround was called), which changes the bits of "
        "losses; call std::fesetenv(FE_DFL_ENV) before");
  if (no_subnormals)
    throw error(
        "rlcore: this thread takes subnormal numbers for 0, which changes losses (a program or library linked with "
        "-ffast-math sets that as it starts); link without -ffast-math, or call std::fesetenv(FE_DFL_ENV) before");
}

/// Throws rlcore::error if a * b + c is contracted in this file, or -(a - b) becomes b - a; and if this thread does not
/// use the default rounding. clang does the first with -ffp-contract=fast and -fno-signed-zeros whatever the source
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
