// CPU feature check: an error message in place of "Illegal instruction" if this processor lacks instructions that a
// file is compiled for.
#pragma once

#include <stdexcept>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/instruction_set.hpp"

// 1 if the compiler may use the feature, else 0.
#define RLCORE_USES_VALUE(value) RLCORE_TAKE(RLCORE_COMMA_##value 1, 0, )
#define RLCORE_USES(feature) RLCORE_USES_VALUE(feature)
// The message is a literal: on an unsupported processor nothing may be computed.
#define RLCORE_REQUIRE(feature, name)                                                                               \
  if (RLCORE_USES(feature) && !__builtin_cpu_supports(name))                                                        \
  throw std::runtime_error("rlcore: this program is compiled for processors with " name                             \
                           ", which this one lacks; compile it on this machine, or with -march=x86-64 (in our own " \
                           "build: -DRLCORE_NATIVE=OFF)")

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// Throws std::runtime_error if this file is compiled for instructions that this processor lacks (x86-64).
RLCORE_NOINLINE inline void require_processor() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  RLCORE_REQUIRE(__SSE3__, "sse3");
  RLCORE_REQUIRE(__SSSE3__, "ssse3");
  RLCORE_REQUIRE(__SSE4_1__, "sse4.1");
  RLCORE_REQUIRE(__SSE4_2__, "sse4.2");
  RLCORE_REQUIRE(__POPCNT__, "popcnt");
  RLCORE_REQUIRE(__AVX__, "avx");
  RLCORE_REQUIRE(__FMA__, "fma");
  RLCORE_REQUIRE(__BMI__, "bmi");
  RLCORE_REQUIRE(__BMI2__, "bmi2");
  RLCORE_REQUIRE(__AVX2__, "avx2");
  RLCORE_REQUIRE(__AVX512F__, "avx512f");
  RLCORE_REQUIRE(__AVX512CD__, "avx512cd");
  RLCORE_REQUIRE(__AVX512BW__, "avx512bw");
  RLCORE_REQUIRE(__AVX512DQ__, "avx512dq");
  RLCORE_REQUIRE(__AVX512VL__, "avx512vl");
  RLCORE_REQUIRE(__AVX512IFMA__, "avx512ifma");
  RLCORE_REQUIRE(__AVX512VBMI__, "avx512vbmi");
  RLCORE_REQUIRE(__AVX512VBMI2__, "avx512vbmi2");
  RLCORE_REQUIRE(__AVX512VNNI__, "avx512vnni");
  RLCORE_REQUIRE(__AVX512BITALG__, "avx512bitalg");
  RLCORE_REQUIRE(__AVX512VPOPCNTDQ__, "avx512vpopcntdq");
  RLCORE_REQUIRE(__AVX512BF16__, "avx512bf16");
  RLCORE_REQUIRE(__GFNI__, "gfni");
#endif
}

RLCORE_ALGORITHM_END
RLCORE_END

#undef RLCORE_REQUIRE
#undef RLCORE_USES
#undef RLCORE_USES_VALUE
