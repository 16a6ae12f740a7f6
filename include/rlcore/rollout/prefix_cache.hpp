// Pages of the KV cache: the pool, and the cache of shared prefixes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/rollout/pass_results.hpp"
#include "rlcore/rollout/sequence.hpp"

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

/// Everything but the weights that determines the keys and values of a full page: the previous page, its own tokens,
/// and the images whose first token is in the page. `before` is 0 for the first page of a sequence; `salt` counts only
/// for this page.
struct page_content {
  std::uint64_t before = 0, salt = 0;
  std::span<const std::int32_t> tokens;
  std::span<const nn::image_patches> images = {};
};

/// A hash table from contents to pages. A lookup compares the tokens, salts and image floats, not only hashes. Content
/// numbers are never reused: a page whose predecessor was evicted is no longer found.
class prefix_cache {
 public:
  /// An empty table for pages 0 .. pages - 1.
  void reset(std::int32_t pages) {
    known_.assign(static_cast<std::size_t>(pages), {});
    heads_.assign(std::bit_ceil(known_.size() + 1), none);
  }
  /// Forgets all pages.
  void clear() {
    known_.assign(known_.size(), {});
    std::ranges::fill(heads_, none);
  }

  /// The page with this content, or -1.
  std::int32_t find(const page_content& wanted) const {
    std::int32_t page = heads_[place(wanted)];
    while (page != none && !at(page).is(wanted)) page = at(page).next;
    return page;
  }
  /// The number of a known page's content.
  std::uint64_t number(std::int32_t page) const { return at(page).number; }

  /// Sets the content of the page; no other known page may have the same content. `pixels` owns the images.
  void insert(std::int32_t page, const page_content& content, std::shared_ptr<const void> pixels);
  /// Removes the page from the table.
  void forget(std::int32_t page);

 private:
  static constexpr std::int32_t none = -1;

  struct entry {
    std::uint64_t number = 0, before = 0, salt = 0;  // number 0: unknown
    std::array<std::int32_t, kv_page> tokens{};
    std::vector<nn::image_patches> images;
    std::shared_ptr<const void> pixels;
    std::size_t head = 0;
    std::int32_t next = none;

    bool is(const page_content& c) const {
      return before == c.before && (before != 0 || salt == c.salt) && std::ranges::equal(tokens, c.tokens) &&
             std::ranges::equal(images, c.images, same_image);
    }
  };

  entry& at(std::int32_t page) { return known_[static_cast<std::size_t>(page)]; }
  const entry& at(std::int32_t page) const { return known_[static_cast<std::size_t>(page)]; }
  std::size_t place(const page_content& c) const;

  std::vector<entry> known_;         // by page
  std::vector<std::int32_t> heads_;  // the first page of each chain
  std::uint64_t last_number_ = 0;
};

/// Caches the full pages of sequences; they stay in the pool until they are evicted.
class prefix_pages {
 public:
  /// Clears the cache; with `pages` 0 prefix caching is off. The pool must outlive this.
  void start(std::int32_t pages, page_pool& pool);
  /// Invalidates all cached pages.
  void clear() {
    table_.clear();
    pool_->forget_kept();
  }
  /// Number of tokens served from the cache.
  std::size_t hits() const noexcept { return hits_; }
  /// Counts `tokens` as served from the cache.
  void count(std::int64_t tokens) { hits_ += static_cast<std::size_t>(tokens); }

  /// Allocates a page, or returns -1 if no page is available.
  std::int32_t acquire() {
    const std::int32_t page = pool_->acquire();
    if (on_ && page >= 0) table_.forget(page);
    return page;
  }

  /// The cached full pages that match the beginning of the sequence, at most `most` tokens. Valid until the next call.
  std::span<const std::int32_t> find(const sequence& s, std::int64_t most);

  /// After a pass: caches those of the sequence's `pages` that are now full.
  void remember(sequence& s, const std::int32_t* pages);

 private:
  static constexpr std::int64_t page_size = kv_page;

  /// The number of the first `tokens` of a sequence that are worth caching. The tower reads all images of a prompt or
  /// none, so keys and values of only some images save no work, and caching them would keep all their floats.
  static std::int64_t worth_finding(const sequence& s, std::int64_t tokens) {
    const bool some = s.shown && s.shown->rows_until(std::min(tokens, s.prompt_length)) < s.shown->rows();
    return some ? std::min(tokens, s.shown->first_token.front()) : tokens;
  }

  static page_content content(const sequence& s, std::int64_t number, std::uint64_t before);

  page_pool* pool_ = nullptr;
  prefix_cache table_;
  bool on_ = false;
  std::size_t hits_ = 0;
  std::vector<std::int32_t> found_;
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

RLCORE_INLINE void prefix_cache::insert(std::int32_t page, const page_content& content,
                                        std::shared_ptr<const void> pixels) {
  forget(page);  // its tokens may be stored after an evicted predecessor
  entry& e = at(page);
  e = {++last_number_, content.before, content.before == 0 ? content.salt : 0, {}, {}, {}, place(content), none};
  std::ranges::copy(content.tokens, e.tokens.begin());
  if (!content.images.empty()) {
    e.images.assign(content.images.begin(), content.images.end());
    e.pixels = std::move(pixels);
  }
  e.next = heads_[e.head];
  heads_[e.head] = page;
}

RLCORE_INLINE void prefix_cache::forget(std::int32_t page) {
  entry& e = at(page);
  if (e.number == 0) return;
  std::int32_t* link = &heads_[e.head];
  while (*link != page) link = &at(*link).next;
  *link = e.next;
  e = {};
}

RLCORE_INLINE std::size_t prefix_cache::place(const page_content& c) const {
  std::uint64_t hash = c.before != 0 ? c.before : ~c.salt;
  for (const std::int32_t token : c.tokens)
    hash = std::rotl((hash ^ static_cast<std::uint32_t>(token)) * 0x9e3779b97f4a7c15u, 29);
  return static_cast<std::size_t>(hash >> 7) & (heads_.size() - 1);
}

RLCORE_INLINE void prefix_pages::start(std::int32_t pages, page_pool& pool) {
  pool_ = &pool;
  table_.reset(pages);
  on_ = pages > 0;
  hits_ = 0;
}

RLCORE_INLINE std::span<const std::int32_t> prefix_pages::find(const sequence& s, std::int64_t most) {
  found_.clear();
  std::uint64_t before = 0;
  for (std::int64_t i = 0; on_ && (i + 1) * page_size <= most; ++i) {
    const std::int32_t page = table_.find(content(s, i, before));
    if (page < 0) break;
    found_.push_back(page);
    before = table_.number(page);
  }
  found_.resize(static_cast<std::size_t>(worth_finding(s, std::ssize(found_) * page_size) / page_size));
  return found_;
}

RLCORE_INLINE void prefix_pages::remember(sequence& s, const std::int32_t* pages) {
  if (!on_) return;
  sequence::scheduled& plan = s.plan;
  const std::int64_t most = worth_finding(s, plan.fed);
  for (; (plan.remembered + 1) * page_size <= most; ++plan.remembered) {
    const page_content full = content(s, plan.remembered, plan.last_page);
    std::int32_t page = table_.find(full);
    if (page < 0) {
      page = pages[plan.remembered];
      table_.insert(page, full, s.shown ? s.shown->pixels : nullptr);
      pool_->keep(page);
    }
    plan.last_page = table_.number(page);
  }
}

RLCORE_INLINE page_content prefix_pages::content(const sequence& s, std::int64_t number, std::uint64_t before) {
  const std::int64_t first = number * page_size;
  page_content c{before, s.asked.salt,
                 std::span(s.tokens).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(page_size))};
  if (s.shown) c.images = s.shown->images_in(first, first + page_size);
  return c;
}

}  // namespace rollout
RLCORE_END
#endif
