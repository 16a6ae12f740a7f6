// The fused multiply-add of targets without the instruction, against the C library's, which is correctly rounded.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

#include "rlcore/device/cpu/arguments.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace RLCORE_TEST_ID {
namespace {

namespace portable {
using rlcore::extent_t;
#include "rlcore/device/cpu/lanes_portable.inc"
}  // namespace portable

struct words {
  std::mt19937 generator;
  std::uint32_t operator()() { return static_cast<std::uint32_t>(generator()); }
};
std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

/// In each of the lanes, and with the sign of the product turned.
void expect_fused(float a, float b, float c) {
  for (const float sign : {1.0f, -1.0f}) {
    const float x = sign * a, expected = std::fma(x, b, c);
    for (int lane = 0; lane < portable::lanes; ++lane) {
      portable::vf va = portable::broadcast(1.5f), vb = portable::broadcast(0.3f), vc = portable::broadcast(7.0f);
      va[lane] = x, vb[lane] = b, vc[lane] = c;
      for (const float y : {portable::fma_of_doubles(va, vb, vc)[lane], portable::fma(va, vb, vc)[lane]}) {
        if (std::isnan(expected))
          ASSERT_TRUE(std::isnan(y)) << x << " * " << b << " + " << c;
        else
          ASSERT_EQ(bits(y), bits(expected)) << x << " * " << b << " + " << c;
      }
    }
  }
}

TEST(fma, of_any_bits) {
  words random{std::mt19937(1)};
  for (int i = 0; i < 300000; ++i)
    expect_fused(std::bit_cast<float>(random()), std::bit_cast<float>(random()), std::bit_cast<float>(random()));
}

/// Values of like size, so that the sum cancels, rounds, and lies near the middle of two floats.
TEST(fma, of_sums_that_nearly_cancel) {
  words random{std::mt19937(2)};
  const auto one_to_two = [&] { return std::bit_cast<float>((random() >> 9) | 0x3f800000u); };
  for (int i = 0; i < 300000; ++i) {
    const float a = one_to_two(), b = one_to_two();
    const float product = std::nextafter(a * b, static_cast<float>(random() % 3));
    expect_fused(a, b, -product);
    expect_fused(a, b, std::ldexp(one_to_two(), static_cast<int>(random() % 100) - 50));
  }
}

/// A product of 25 bits lies in the middle of two floats; what is added decides, however little it is.
TEST(fma, of_middles_and_a_grain) {
  words random{std::mt19937(3)};
  constexpr float least = std::numeric_limits<float>::denorm_min();
  for (int i = 0; i < 100000; ++i) {
    const auto a = static_cast<float>(random() % 4096 + 4096), b = static_cast<float>(random() % 4096 | 1);
    for (const float grain : {0.0f, least, -least, 1e-30f, -1e-30f, 0.001f, -0.001f}) expect_fused(a, b, grain);
    // The same, the middle being that of the addend and half a unit.
    const auto c = static_cast<float>(random() % 8388608 + 8388608);
    for (const float x : {0.5f, std::nextafter(0.5f, 0.0f), std::nextafter(0.5f, 1.0f)}) expect_fused(x, 1.0f, c);
  }
}

TEST(fma, of_results_below_the_normal_numbers) {
  words random{std::mt19937(4)};
  const auto any = [&](int exponent) {
    return std::ldexp(std::bit_cast<float>((random() >> 9) | 0x3f800000u), exponent - static_cast<int>(random() % 30));
  };
  for (int i = 0; i < 300000; ++i) {
    expect_fused(any(-60), any(-60), any(-130));
    expect_fused(any(-60), any(-60), 0.0f);
    expect_fused(0x1p-75f, 0x1p-75f, any(-130));  // half of the least float
    expect_fused(0x1p-75f, std::nextafter(0x1p-75f, 1.0f), any(-120));
  }
}

TEST(fma, of_ends_and_of_what_is_no_number) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max(),
                  nan = std::numeric_limits<float>::quiet_NaN(), least = std::numeric_limits<float>::denorm_min();
  const float values[] = {0.0f, -0.0f, 1, -1, least, -least, most, -most, infinity, -infinity, nan, 0x1p-126f, 3};
  for (const float a : values)
    for (const float b : values)
      for (const float c : values) expect_fused(a, b, c);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
