// Ring of the names of a stream's recent operations.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend {

/// An asynchronous error does not name its operation: it is one of those enqueued since the last wait; this keeps the
/// last 32. Names are literals.
class recent_operations {
 public:
  /// Notes an operation; the pointer is kept.
  void add(const char* name) noexcept { names_[count_++ % names_.size()] = name; }
  void clear() noexcept { count_ = 0; }
  std::size_t count() const noexcept { return count_; }
  /// The name if exactly one operation is recorded; else null.
  const char* only() const noexcept { return count_ == 1 ? names_[0] : nullptr; }
  /// "; asked for since the last wait, latest first: aclnnMatmul, aclnnAdd x3", or nothing: for the end of a message.
  std::string written() const {
    if (count_ == 0) return {};
    const std::size_t n = std::min(count_, names_.size());
    std::string line = count_ == 1 ? "; the operation is " : "; asked for since the last wait, latest first: ";
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t same = 1;
      while (i + 1 < n && at(i + 1) == at(i)) ++same, ++i;
      line += at(i);
      if (same > 1) line += " x" + std::to_string(same);
      if (i + 1 < n) line += ", ";
    }
    if (count_ > n) line += ", and " + std::to_string(count_ - n) + " before";
    return line;
  }

 private:
  std::string_view at(std::size_t back) const noexcept { return names_[(count_ - 1 - back) % names_.size()]; }

  std::array<const char*, 32> names_{};
  std::size_t count_ = 0;
};

}  // namespace ascend
RLCORE_END
