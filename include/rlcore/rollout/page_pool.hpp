// Who uses which page of the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace rollout {

/// Pages 0 .. pages - 1 with the number of their users. The page released last is given out first.
class page_pool {
 public:
  page_pool() = default;
  /// Pages that nobody uses. Throws std::invalid_argument for a negative number.
  explicit page_pool(std::int32_t pages) { reset(pages); }

  /// Forgets all users.
  void reset(std::int32_t pages) {
    require(pages >= 0, "page_pool: the number of pages is negative");
    users_.assign(static_cast<std::size_t>(pages), 0);
    free_.resize(users_.size());
    for (std::int32_t p = 0; p < pages; ++p) free_[static_cast<std::size_t>(pages - 1 - p)] = p;
    least_free_ = pages;
  }

  std::int32_t pages() const noexcept { return static_cast<std::int32_t>(users_.size()); }
  std::int32_t available() const noexcept { return static_cast<std::int32_t>(free_.size()); }
  /// How many users the page has.
  std::int32_t users(std::int32_t page) const { return users_[static_cast<std::size_t>(page)]; }
  /// The largest number of pages in use since reset().
  std::int32_t most_used() const noexcept { return pages() - least_free_; }

  /// A page of one user, or -1 if there is none left.
  std::int32_t acquire() {
    if (free_.empty()) return -1;
    const std::int32_t page = free_.back();
    free_.pop_back();
    if (available() < least_free_) least_free_ = available();
    users_[static_cast<std::size_t>(page)] = 1;
    return page;
  }
  /// One user more of a page in use.
  void share(std::int32_t page) {
    require(page >= 0 && page < pages() && users(page) > 0, "page_pool: the page to share is not in use");
    ++users_[static_cast<std::size_t>(page)];
  }
  /// One user less; the last one frees it.
  void release(std::int32_t page) {
    require(page >= 0 && page < pages() && users(page) > 0, "page_pool: the page to release is not in use");
    if (--users_[static_cast<std::size_t>(page)] == 0) free_.push_back(page);
  }

 private:
  std::vector<std::int32_t> users_, free_;
  std::int32_t least_free_ = 0;
};

}  // namespace rollout
RLCORE_END
