// The cube's inner loop for the instruction sets of the host; the choice changes the speed, never a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

namespace cube_sse2 {
inline constexpr int lanes = 2, rows_at_once = 2;
#include "rlcore/emulator/numerics/cube_tile.inc"
}  // namespace cube_sse2

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace cube_avx2 {
inline constexpr int lanes = 4, rows_at_once = 4;
#include "rlcore/emulator/numerics/cube_tile.inc"
}  // namespace cube_avx2
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma")
#endif
namespace cube_avx512 {
inline constexpr int lanes = 8, rows_at_once = 8;
#include "rlcore/emulator/numerics/cube_tile.inc"
}  // namespace cube_avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__

/// The inner loops: c[8, 8] += a b, see cube_tile.inc.
struct cube_tiles {
  const char* name;
  void (*add_float)(float*, const double*, const double*, std::int64_t, std::int64_t);
  void (*add_double)(double*, const double*, const double*, std::int64_t, std::int64_t);
};

/// The fastest loop that this processor supports, or the one called `name` (sse2, avx2, avx512) if it is supported.
inline cube_tiles choose_cube_tiles(const char* name = nullptr) {
  const auto is = [name](char first, int length) {
    return name == nullptr || (name[0] == first && __builtin_strlen(name) == static_cast<std::size_t>(length));
  };
#if defined(__x86_64__)
  if (is('a', 6) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return {"avx512", cube_avx512::add_float, cube_avx512::add_double};
  if ((is('a', 4) || is('a', 6)) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {"avx2", cube_avx2::add_float, cube_avx2::add_double};
#endif
  return {"sse2", cube_sse2::add_float, cube_sse2::add_double};
}

}  // namespace ascend::emulated
RLCORE_END
