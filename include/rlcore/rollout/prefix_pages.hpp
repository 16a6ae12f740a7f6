// The pages in which a new sequence finds its beginning.
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

/// Remembers the full pages of sequences, which stay in the pool until others need them.
class prefix_pages {
 public:
  /// Forgets all. Of `pages` 0 it remembers none. The pool must live as long.
  void start(std::int32_t pages, page_pool& pool);
  /// Keys and values are of no use any more.
  void clear() {
    table_.clear();
    pool_->forget_kept();
  }
  /// Tokens that were found.
  std::size_t hits() const noexcept { return hits_; }
  /// `tokens` were found and taken.
  void count(std::int64_t tokens) { hits_ += static_cast<std::size_t>(tokens); }

  /// A page of one user, or -1 if there is none left.
  std::int32_t acquire() {
    const std::int32_t page = pool_->acquire();
    if (on_ && page >= 0) table_.forget(page);
    return page;
  }

  /// Full pages that hold the beginning of the sequence, no more than `most` tokens. Good until the next call.
  std::span<const std::int32_t> find(const sequence& s, std::int64_t most);

  /// After a pass: the full ones of the sequence's `pages` hold what it has fed.
  void remember(sequence& s, const std::int32_t* pages);

 private:
  static constexpr std::int64_t page_size = kv_page;

  /// How many of the first `tokens` of a sequence spare another one work. The pictures of a prompt are read all or
  /// none, since the tower reads them together: keys and values of some of them are of no use, and would keep all
  /// floats.
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
