// Inline namespaces for the ABI: types carry the library version, algorithms the instruction set.
//
// Two objects compiled with different -march must not share one weak symbol of a loop (the linker would keep an
// arbitrary one), yet must agree on every type. So types live in rlcore::v0 and loops whose code depends on the
// instruction set additionally in an inline namespace named after it.
//
// Flags that give up IEEE arithmetic are rejected here, since every header includes this one: they hide NaN and reorder
// sums, and the functions of such a file have the same names as those of a strict one.
#pragma once

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/instruction_set.hpp"

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error \
    "rlcore: -ffast-math, -Ofast and their parts (-ffinite-math-only, -fassociative-math, -freciprocal-math, \
-fno-signed-zeros, -funsafe-math-optimizations) make losses wrong; compile the files that include rlcore without them, \
in CMake: set_source_files_properties(loss.cpp PROPERTIES COMPILE_OPTIONS -fno-fast-math). Nothing is slower for it."
#elif defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16
#error \
    "rlcore: float arithmetic is carried out in a wider type here (FLT_EVAL_METHOD is not 0); add -msse2 -mfpmath=sse"
#endif
static_assert(static_cast<double>(0.1f) > 0.1,
              "rlcore: -fsingle-precision-constant makes other numbers of the constants here; compile the files that "
              "include rlcore without it");

#define RLCORE_BEGIN                         \
  RLCORE_AS_WRITTEN_BEGIN namespace rlcore { \
    inline namespace v0 {
#define RLCORE_END \
  }                \
  }                \
  RLCORE_AS_WRITTEN_END

#define RLCORE_ALGORITHM_BEGIN inline namespace RLCORE_LINKAGE {
#define RLCORE_ALGORITHM_END }
