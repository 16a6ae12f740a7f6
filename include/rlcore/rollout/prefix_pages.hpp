// Prefix caching over the page pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/rollout/page_pool.hpp"
#include "rlcore/rollout/prefix_cache.hpp"
#include "rlcore/rollout/sequence.hpp"

RLCORE_BEGIN
namespace rollout {

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
  if (s.shown) c.pictures = s.shown->pictures_in(first, first + page_size);
  return c;
}

}  // namespace rollout
RLCORE_END
#endif
