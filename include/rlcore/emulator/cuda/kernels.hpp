// The text of the CUDA kernels, compiled for the host.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/device/cuda/arguments.hpp"

RLCORE_BEGIN
namespace nvidia::emulated {

/// What runs a kernel for one thread: the argument is that of the kernel, e.g. arguments::product.
using host_kernel = void (*)(const void*);
/// The kernel of the host.
host_kernel host_kernel_of(kernel k);

}  // namespace nvidia::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

#include "rlcore/core/elementary.hpp"
#include "rlcore/emulator/cuda/blocks.hpp"
#include "rlcore/emulator/cuda/tensor_core.hpp"
#include "rlcore/simd/math.hpp"

RLCORE_BEGIN
namespace nvidia::emulated {
// The names that a kernel finds in CUDA.
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline void __syncthreads() { running_block::here().barrier(); }
inline void __syncwarp() {}  // the emulator's threads meet in add_tensor_product itself
/// CUDA's vector of four floats, which is read and written at once.
struct alignas(16) float4 {
  float x, y, z, w;
};
/// CUDA's vector of two words.
struct alignas(8) uint2 {
  unsigned x, y;
};

namespace text {
using std::size_t;
using word = unsigned long long;  ///< half of a number of the tables
using elementary::constants::signed_wide;
using elementary::constants::wide;
inline word __umul64hi(word a, word b) { return static_cast<word>((static_cast<wide>(a) * b) >> 64); }

inline constexpr auto& powers_of_two = elementary::constants::powers_of_two;
inline constexpr auto& reciprocals = elementary::constants::reciprocals;
/// The numbers as words.
template <class Word, std::size_t n>
constexpr std::array<word, n> words_of(const std::array<Word, n>& numbers) {
  std::array<word, n> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = numbers[i];
  return words;
}
inline constexpr auto factorials = words_of(elementary::detail::over_factorial<63>),
                      quotients = words_of(elementary::detail::over);
inline constexpr const word* over_factorial = factorials.data();
inline constexpr const word* over = quotients.data();
inline constexpr auto log_reciprocals_high = [] {
  std::array<word, 65> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = elementary::constants::log_reciprocals[i][0];
  return words;
}();
inline constexpr auto log_reciprocals_low = [] {
  std::array<word, 65> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = elementary::constants::log_reciprocals[i][1];
  return words;
}();
inline constexpr word ln_2_word = elementary::constants::ln_2_word,
                      ln_2_high = static_cast<word>(elementary::constants::ln_2 >> 64),
                      ln_2_low = static_cast<word>(elementary::constants::ln_2),
                      log2_e_high = static_cast<word>(elementary::constants::log2_e >> 64),
                      log2_e_low = static_cast<word>(elementary::constants::log2_e);

inline constexpr auto& exp_narrow = exp_constants<float>::narrow;
inline constexpr auto& exp_wide = exp_constants<float>::wide;
inline constexpr auto& log_series = log_constants<float>::series;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma push_macro("__device__")
#pragma push_macro("__forceinline__")
#pragma push_macro("__shared__")
#pragma push_macro("__align__")
#undef __device__
#undef __forceinline__
#undef __shared__
#undef __align__
#define RLCORE_CUDA_TEXT(...) __VA_ARGS__
#define RLCORE_CUDA_KERNEL(name) inline void name(const arguments::name& o)
#define RLCORE_CUDA_UNROLL
#define __device__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __align__(bytes) __attribute__((aligned(bytes)))
#include "rlcore/device/cuda/text/sums.inc"

#include "rlcore/device/cuda/text/elementary.inc"
#include "rlcore/device/cuda/text/products.inc"

#include "rlcore/device/cuda/text/attention.inc"
#include "rlcore/device/cuda/text/attention_tiles.inc"
#include "rlcore/device/cuda/text/elements.inc"
#include "rlcore/device/cuda/text/log_prob.inc"
#include "rlcore/device/cuda/text/losses.inc"
#include "rlcore/device/cuda/text/rows.inc"
#include "rlcore/device/cuda/text/tensor_products.inc"
#undef RLCORE_CUDA_TEXT
#undef RLCORE_CUDA_KERNEL
#undef RLCORE_CUDA_UNROLL
#pragma pop_macro("__device__")
#pragma pop_macro("__forceinline__")
#pragma pop_macro("__shared__")
#pragma pop_macro("__align__")
#pragma GCC diagnostic pop
}  // namespace text

RLCORE_INLINE host_kernel host_kernel_of(kernel k) {
  static constexpr host_kernel kernels[] = {
#define RLCORE_CUDA_KERNEL(name) [](const void* o) { text::name(*static_cast<const arguments::name*>(o)); },
#include "rlcore/device/cuda/text/kernels.inc"
#undef RLCORE_CUDA_KERNEL
  };
  return kernels[static_cast<int>(k)];
}

}  // namespace nvidia::emulated
RLCORE_END
#endif
