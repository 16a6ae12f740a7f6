// AVX-512 instructions that the compilers' vector operators do not reach. Builtins and not <immintrin.h>, which would
// cost every user half a second of compile time.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

#if RLCORE_REGISTER_BYTES == 64
RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace avx512_instruction {

typedef float floats __attribute__((vector_size(64)));
typedef double doubles __attribute__((vector_size(64)));
typedef float half_floats __attribute__((vector_size(32)));

#if defined(__clang__)  // the compilers give these masks different signs
inline constexpr unsigned short all_floats = 0xffff;
inline constexpr unsigned char all_doubles = 0xff;
#else
inline constexpr short all_floats = -1;
inline constexpr char all_doubles = -1;
#endif
inline constexpr int current_rounding = 4;

/// x 2^n for whole n: subnormal results are rounded once, beyond the range it is infinite.
RLCORE_FN floats scale(floats x, floats n) noexcept {
  return __builtin_ia32_scalefps512_mask(x, n, x, all_floats, current_rounding);
}
/// The same for doubles.
RLCORE_FN doubles scale(doubles x, doubles n) noexcept {
  return __builtin_ia32_scalefpd512_mask(x, n, x, all_doubles, current_rounding);
}

/// a b + c with one rounding.
RLCORE_FN floats multiply_add(floats a, floats b, floats c) noexcept {
  return __builtin_ia32_vfmaddps512_mask(a, b, c, all_floats, current_rounding);
}
/// The same for doubles.
RLCORE_FN doubles multiply_add(doubles a, doubles b, doubles c) noexcept {
  return __builtin_ia32_vfmaddpd512_mask(a, b, c, all_doubles, current_rounding);
}

// g++ makes two instructions of the operators.
#if defined(__clang__)
/// The larger of a bound and x; NaN in x stays.
RLCORE_FN floats at_least(floats low, floats x) noexcept { return low > x ? low : x; }
/// The smaller of a bound and x; NaN in x stays.
RLCORE_FN floats at_most(floats high, floats x) noexcept { return high < x ? high : x; }
/// The same for doubles.
RLCORE_FN doubles at_least(doubles low, doubles x) noexcept { return low > x ? low : x; }
/// The same for doubles.
RLCORE_FN doubles at_most(doubles high, doubles x) noexcept { return high < x ? high : x; }
#else
/// The larger of a bound and x; NaN in x stays.
RLCORE_FN floats at_least(floats low, floats x) noexcept {
  return __builtin_ia32_maxps512_mask(low, x, x, all_floats, current_rounding);
}
/// The smaller of a bound and x; NaN in x stays.
RLCORE_FN floats at_most(floats high, floats x) noexcept {
  return __builtin_ia32_minps512_mask(high, x, x, all_floats, current_rounding);
}
/// The same for doubles.
RLCORE_FN doubles at_least(doubles low, doubles x) noexcept {
  return __builtin_ia32_maxpd512_mask(low, x, x, all_doubles, current_rounding);
}
/// The same for doubles.
RLCORE_FN doubles at_most(doubles high, doubles x) noexcept {
  return __builtin_ia32_minpd512_mask(high, x, x, all_doubles, current_rounding);
}
#endif

/// Eight floats as doubles in one instruction.
RLCORE_FN doubles widen(half_floats x) noexcept {
  return __builtin_ia32_cvtps2pd512_mask(x, doubles{}, all_doubles, current_rounding);
}

}  // namespace avx512_instruction
RLCORE_ALGORITHM_END
RLCORE_END
#endif
