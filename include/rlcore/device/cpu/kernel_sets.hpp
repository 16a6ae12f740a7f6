// CPU kernels, compiled once per instruction set; the slowest header to compile.
//
// The fragments *.inc are included into one namespace per set under function target attributes, so that a consumer
// needs no -march flag and one binary runs everywhere. In float32 all sets have the same bits: sums over lanes have one
// order, fma() has one rounding, and RLCORE_BEGIN lets the compilers contract nothing else into one.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/device/cpu/arguments.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

RLCORE_BEGIN

namespace cpu_portable {
inline constexpr const char* name = "portable";
#include "rlcore/device/cpu/lanes_portable.inc"

#include "rlcore/device/cpu/kernels.inc"
}  // namespace cpu_portable

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace cpu_avx2 {
inline constexpr const char* name = "avx2";
#include "rlcore/device/cpu/lanes_avx2.inc"

#include "rlcore/device/cpu/kernels.inc"
}  // namespace cpu_avx2
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif
namespace cpu_avx512 {
inline constexpr const char* name = "avx512";
#include "rlcore/device/cpu/lanes_avx512.inc"

#include "rlcore/device/cpu/kernels.inc"
}  // namespace cpu_avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif
namespace cpu_avx512_bf16 {
using namespace cpu_avx512;
#include "rlcore/device/cpu/gemm_dot.inc"
}  // namespace cpu_avx512_bf16
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__

namespace cpu_kernels {

/// The sets that this processor can run, best first.
RLCORE_INLINE std::vector<const table*> available() {
  std::vector<const table*> sets;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    // On Intel's cores the instruction has half the rate of a fused multiply-add and gains nothing.
    if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd")) sets.push_back(&cpu_avx512_bf16::kernels);
    sets.push_back(&cpu_avx512::kernels);
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(&cpu_avx2::kernels);
#endif
  sets.push_back(&cpu_portable::kernels);
  return sets;
}

}  // namespace cpu_kernels

RLCORE_END
