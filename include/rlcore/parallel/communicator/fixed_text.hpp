// Async-signal-safe text buffer without allocation or locale.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// Up to 511 characters; longer text is truncated. Every member is async-signal-safe.
class fixed_text {
 public:
  /// Appends a null-terminated string.
  fixed_text& add(const char* s) noexcept {
    while (*s != '\0' && size_ + 1 < sizeof(data_)) data_[size_++] = *s++;
    return *this;
  }
  /// Appends a number in decimal.
  fixed_text& add(std::uint64_t n) noexcept {
    char digits[21];
    std::size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    do {
      digits[--at] = static_cast<char>('0' + n % 10);
      n /= 10;
    } while (n != 0);
    return add(digits + at);
  }
  /// Appends a signed number in decimal.
  fixed_text& add(int n) noexcept {
    if (n < 0) add("-");
    return add(static_cast<std::uint64_t>(n < 0 ? -static_cast<long long>(n) : n));
  }
  /// Appends seconds with one decimal.
  fixed_text& add_seconds(std::int64_t nanoseconds) noexcept {
    const auto tenths = static_cast<std::uint64_t>(nanoseconds < 0 ? 0 : nanoseconds) / 100'000'000;
    return add(tenths / 10).add(".").add(tenths % 10).add(" s");
  }
  /// Writes the text to a file descriptor; stops at the first error.
  void write_to(int file) const noexcept {
    std::size_t done = 0;
    while (done < size_) {
      const ssize_t n = ::write(file, data_ + done, size_ - done);
      if (n <= 0) return;
      done += static_cast<std::size_t>(n);
    }
  }
  /// Null-terminated.
  const char* text() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  char data_[512] = {};
  std::size_t size_ = 0;
};

}  // namespace parallel
RLCORE_END
