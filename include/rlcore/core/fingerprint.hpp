// A hash by which files and tokens are compared.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// A 64-bit hash of words in order. Guards against mistakes, not against forgery.
class fingerprint {
 public:
  fingerprint() = default;
  /// Continues the hash of another one, whose word() this is.
  explicit fingerprint(std::uint64_t word) noexcept : hash_(word) {}
  /// The next word.
  void add(std::uint64_t word) noexcept {
    hash_ = (hash_ ^ word) * 0xd6e8feb86659fd93u;
    hash_ ^= hash_ >> 32;
  }
  /// The next text.
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    for (const char c : text) add(std::uint64_t{static_cast<unsigned char>(c)});
  }
  /// The next tokens.
  void add(std::span<const std::int32_t> tokens) {
    add(std::uint64_t{tokens.size()});
    for (const std::int32_t token : tokens) add(std::uint64_t{static_cast<std::uint32_t>(token)});
  }
  /// The hash.
  std::uint64_t word() const noexcept { return hash_; }
  /// Its 16 digits.
  std::string text() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash_));
    return digits;
  }

 private:
  std::uint64_t hash_ = 0x9e3779b97f4a7c15u;
};

RLCORE_END
