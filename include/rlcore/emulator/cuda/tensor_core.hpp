// The tensor cores of a Hopper GPU: steps of products of bfloat16.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/emulator/cuda/blocks.hpp"

RLCORE_BEGIN
namespace nvidia::emulated {

/// Sixteen values of bfloat16 with the exponents as they are written, that of 1 for subnormal values.
struct tensor_row {
  std::array<double, 16> values{};
  std::array<int, 16> exponents{};

  /// Takes the bits of value `at`.
  void set(std::size_t at, std::uint16_t bits) {
    values[at] = std::bit_cast<float>(std::uint32_t{bits} << 16);
    const int e = bits >> 7 & 255;
    exponents[at] = (e > 0 ? e : 1) - 127;
  }
};

/// Sum of a[k] b[k] for 16 k, and c, as Hopper's tensor core adds in float32: the products, which are exact, and c are
/// cut towards zero to multiples of 2^(E - 25), with E the largest exponent of those that are not 0 (of a product: the
/// sum of its factors' exponents) and at least -133; their sum is cut towards zero to a float. A sum of 0 is +0, NaN is
/// 0x7fffffff. Independent of the order of k. An H100 gave the same bits for 3e8 elements of all kinds.
inline float tensor_core_sum(const tensor_row& a, const tensor_row& b, float c) {
  constexpr int least = -133, digits = 25;
  int top = least;
  double plain = c;
  for (std::size_t k = 0; k < 16; ++k) {
    const double product = a.values[k] * b.values[k];
    plain += product;
    const int e = a.exponents[k] + b.exponents[k];
    if (product != 0 && e > top) top = e;
  }
  if (plain - plain != 0) {  // an infinity or NaN among them
    return plain != plain ? std::bit_cast<float>(0x7fffffffu) : static_cast<float>(plain);
  }
  const int e = static_cast<int>(std::bit_cast<std::uint32_t>(c) >> 23 & 255);
  if (c != 0 && (e > 0 ? e : 1) - 127 > top) top = (e > 0 ? e : 1) - 127;

  const auto power = [](int n) { return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52); };
  const double unit = power(digits - top);
  std::int64_t sum = static_cast<std::int32_t>(c * unit);
  for (std::size_t k = 0; k < 16; ++k) sum += static_cast<std::int32_t>(a.values[k] * b.values[k] * unit);
  if (sum == 0) return 0.0f;
  const double exact = static_cast<double>(sum) * power(top - digits);
  const double size = exact < 0 ? -exact : exact;
  if (size >= 0x1p128)
    return exact < 0 ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(size));
  if (std::bit_cast<float>(bits) > size) --bits;  // it was rounded away from zero
  return bits == 0 ? 0.0f : std::bit_cast<float>(bits | (exact < 0 ? 0x80000000u : 0u));
}

/// What a warp's threads exchange in one step.
struct tensor_step {
  std::array<tensor_row, 16> a;
  std::array<tensor_row, 8> b;
  std::array<std::uint64_t, 32> rounds{};  ///< in which each thread wrote its part
};

/// d += a b of a 16 x 16 and a 16 x 8 matrix, spread over the threads of a warp as mma.sync's m16n8k16 has them. All
/// threads of the block take part.
inline void add_tensor_product(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  static thread_local std::vector<tensor_step> steps(64);  // of 32 warps, in odd and in even rounds
  running_block& block = running_block::here();
  const std::uint64_t round = block.round();
  const std::size_t lane = threadIdx.x % 32, row = lane / 4, slot = lane % 4 * 2;
  tensor_step& s = steps[threadIdx.x / 32 * 2 + round % 2];
  const auto put = [](tensor_row& to, std::size_t at, unsigned two) {
    to.set(at, static_cast<std::uint16_t>(two));
    to.set(at + 1, static_cast<std::uint16_t>(two >> 16));
  };
  put(s.a[row], slot, a[0]);
  put(s.a[row + 8], slot, a[1]);
  put(s.a[row], slot + 8, a[2]);
  put(s.a[row + 8], slot + 8, a[3]);
  put(s.b[row], slot, b[0]);
  put(s.b[row], slot + 8, b[1]);
  s.rounds[lane] = round;
  block.barrier();
  for (const std::uint64_t r : s.rounds)
    if (r != round) {
      std::fputs("rlcore: cuda emulator: not all threads of a warp take part in a product of the tensor core\n",
                 stderr);
      std::abort();
    }
  for (std::size_t k = 0; k < 4; ++k) d[k] = tensor_core_sum(s.a[row + k / 2 * 8], s.b[slot + k % 2], d[k]);
}

/// Two floats as bfloat16, to the nearest, ties to even.
inline unsigned two_bf16(float low, float high) {
  const auto rounded = [](float x) -> unsigned {
    const auto u = std::bit_cast<std::uint32_t>(x);
    return x == x ? (u + 0x7fffu + (u >> 16 & 1u)) >> 16 : 0x7fffu;
  };
  return rounded(low) | rounded(high) << 16;
}

}  // namespace nvidia::emulated
RLCORE_END
