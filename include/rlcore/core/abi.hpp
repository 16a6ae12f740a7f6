// Namespaces: types carry the version, algorithms the instruction set.
//
// Two objects compiled with different -march must not share one weak symbol of a loop (the linker would keep an
// arbitrary one), yet must agree on every type. So types live in rlcore::v0 and loops whose code depends on the
// instruction set additionally in an inline namespace named after it.
#pragma once

#define RLCORE_BEGIN \
  namespace rlcore { \
  inline namespace v0 {
#define RLCORE_END \
  }                \
  }

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define RLCORE_ISA avx512
#elif defined(__AVX2__) && defined(__FMA__)
#define RLCORE_ISA avx2
#elif defined(__aarch64__)
#define RLCORE_ISA neon
#else
#define RLCORE_ISA base
#endif

#define RLCORE_ALGORITHM_BEGIN inline namespace RLCORE_ISA {
#define RLCORE_ALGORITHM_END }
