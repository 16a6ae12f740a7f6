// Counter-based random numbers (Philox): a pure function of a key and a counter, never of a thread, a rank or a call
// order.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/elementary.hpp"

RLCORE_BEGIN

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
/// Maps a 64-bit key and a 128-bit counter to four independent 32-bit words.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key, std::array<std::uint32_t, 4> counter) noexcept {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0], b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

/// A stream of numbers addressed by up to four coordinates, e.g. (step, prompt, sample, position) of a sampled token.
struct random_key {
  std::uint64_t seed = 0;

  /// The four random words at these coordinates.
  constexpr std::array<std::uint32_t, 4> words(std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0,
                                               std::uint32_t d = 0) const noexcept {
    return philox(seed, {a, b, c, d});
  }
  /// Uniform in [0, 1) with 53 random bits.
  constexpr double uniform(std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0,
                           std::uint32_t d = 0) const noexcept {
    const auto w = words(a, b, c, d);
    return static_cast<double>(((std::uint64_t{w[0]} << 32) | w[1]) >> 11) * 0x1p-53;
  }
  /// Standard normal by Box-Muller.
  double normal(std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0, std::uint32_t d = 0) const noexcept {
    const auto w = words(a, b, c, d);
    const double u = (static_cast<double>(((std::uint64_t{w[0]} << 32) | w[1]) >> 11) + 1) * 0x1p-53;  // (0, 1]
    const double v = static_cast<double>(((std::uint64_t{w[2]} << 32) | w[3]) >> 11) * 0x1p-53;
    return std::sqrt(-2 * elementary::log(u)) * elementary::cos(2 * std::numbers::pi * v);
  }
  /// Uniform integer in [0, n); the bias is below 2^-32 for n < 2^32.
  constexpr std::uint32_t below(std::uint32_t n, std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0,
                                std::uint32_t d = 0) const noexcept {
    return static_cast<std::uint32_t>(std::uint64_t{words(a, b, c, d)[0]} * n >> 32);
  }
  /// An independent key for a purpose, so that two uses of one seed never share a number.
  constexpr random_key child(std::uint32_t purpose) const noexcept {
    const auto w = philox(seed ^ 0x5DEECE66D1CE4E5BULL, {purpose, 0x726c636fu, 0, 0});
    return {(std::uint64_t{w[0]} << 32) | w[1]};
  }
};

RLCORE_END
