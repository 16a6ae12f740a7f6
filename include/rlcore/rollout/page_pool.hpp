// KV cache page allocator: free list, reference counts and LRU eviction of cached pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace rollout {

/// Reference-counted pages 0 .. pages - 1. acquire() takes free pages first, the most recently released one first, then
/// unreferenced cached pages in LRU order.
class page_pool {
 public:
  page_pool() = default;
  /// All pages are free. Throws std::invalid_argument for a negative number.
  explicit page_pool(std::int32_t pages) { reset(pages); }

  /// Frees all pages and drops the cached ones.
  void reset(std::int32_t pages);

  std::int32_t pages() const noexcept { return static_cast<std::int32_t>(users_.size()); }
  /// The number of unreferenced pages, free or cached.
  std::int32_t available() const noexcept { return static_cast<std::int32_t>(free_.size()) + idle_; }
  /// The reference count of the page.
  std::int32_t users(std::int32_t page) const { return users_[static_cast<std::size_t>(page)]; }
  /// Is the page cached for reuse?
  bool kept(std::int32_t page) const { return kept_[static_cast<std::size_t>(page)] != 0; }
  /// The largest number of pages in use since reset().
  std::int32_t most_used() const noexcept { return pages() - least_free_; }

  /// Allocates a page with reference count 1, not kept(); -1 if no page is available.
  std::int32_t acquire();
  /// Increments the reference count of a page that is in use or kept.
  void share(std::int32_t page);
  /// Decrements the reference count; at 0 the page is available again.
  void release(std::int32_t page);
  /// Marks a page in use as cached: its content stays findable after its release.
  void keep(std::int32_t page) {
    require(page >= 0 && page < pages() && users(page) > 0, "page_pool: the page to keep is not in use");
    kept_[static_cast<std::size_t>(page)] = 1;
  }
  /// Drops all cached pages.
  void forget_kept();

 private:
  /// Links in the LRU list of unreferenced cached pages, in the order of their release.
  struct neighbours {
    std::int32_t previous = 0, next = 0;
  };
  neighbours& link(std::int32_t page) { return links_[static_cast<std::size_t>(page)]; }
  void unlink(std::int32_t page);

  std::vector<std::int32_t> users_, free_;
  std::vector<char> kept_;
  std::vector<neighbours> links_;
  std::int32_t idle_ = 0, least_free_ = 0;
};

}  // namespace rollout
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_ROLLOUT)
RLCORE_BEGIN
namespace rollout {

RLCORE_INLINE void page_pool::reset(std::int32_t pages) {
  require(pages >= 0, "page_pool: the number of pages is negative");
  users_.assign(static_cast<std::size_t>(pages), 0);
  kept_.assign(users_.size(), 0);
  free_.resize(users_.size());
  for (std::int32_t p = 0; p < pages; ++p) free_[static_cast<std::size_t>(pages - 1 - p)] = p;
  links_.assign(users_.size() + 1, {pages, pages});  // the last entry holds both ends of the list
  idle_ = 0;
  least_free_ = pages;
}

RLCORE_INLINE std::int32_t page_pool::acquire() {
  std::int32_t page = -1;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else if (idle_ > 0) {
    page = link(pages()).next;
    unlink(page);
    kept_[static_cast<std::size_t>(page)] = 0;
  } else {
    return page;
  }
  users_[static_cast<std::size_t>(page)] = 1;
  if (available() < least_free_) least_free_ = available();
  return page;
}

RLCORE_INLINE void page_pool::share(std::int32_t page) {
  require(page >= 0 && page < pages() && (users(page) > 0 || kept(page)), "page_pool: the page to share is not in use");
  if (users_[static_cast<std::size_t>(page)]++ > 0) return;
  unlink(page);
  if (available() < least_free_) least_free_ = available();
}

RLCORE_INLINE void page_pool::release(std::int32_t page) {
  require(page >= 0 && page < pages() && users(page) > 0, "page_pool: the page to release is not in use");
  if (--users_[static_cast<std::size_t>(page)] > 0) return;
  if (!kept(page)) return free_.push_back(page);
  const std::int32_t last = link(pages()).previous;
  link(page) = {last, pages()};
  link(last).next = link(pages()).previous = page;
  ++idle_;
}

RLCORE_INLINE void page_pool::forget_kept() {
  while (idle_ > 0) {
    const std::int32_t page = link(pages()).next;
    unlink(page);
    free_.push_back(page);
  }
  kept_.assign(kept_.size(), 0);
}

RLCORE_INLINE void page_pool::unlink(std::int32_t page) {
  const neighbours at = link(page);
  link(at.previous).next = at.next;
  link(at.next).previous = at.previous;
  --idle_;
}

}  // namespace rollout
RLCORE_END
#endif
