// Prefix cache: finds full KV pages by their content.
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
#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/rollout/pass_chunks.hpp"

RLCORE_BEGIN
namespace rollout {

/// Everything but the weights that determines the keys and values of a full page: the previous page, its own tokens,
/// and the images whose first token is in the page. `before` is 0 for the first page of a sequence; `salt` counts only
/// for this page.
struct page_content {
  std::uint64_t before = 0, salt = 0;
  std::span<const std::int32_t> tokens;
  std::span<const nn::picture> pictures = {};
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
    std::vector<nn::picture> pictures;
    std::shared_ptr<const void> pixels;
    std::size_t head = 0;
    std::int32_t next = none;

    bool is(const page_content& c) const {
      return before == c.before && (before != 0 || salt == c.salt) && std::ranges::equal(tokens, c.tokens) &&
             std::ranges::equal(pictures, c.pictures, same_picture);
    }
  };

  entry& at(std::int32_t page) { return known_[static_cast<std::size_t>(page)]; }
  const entry& at(std::int32_t page) const { return known_[static_cast<std::size_t>(page)]; }
  std::size_t place(const page_content& c) const;

  std::vector<entry> known_;         // by page
  std::vector<std::int32_t> heads_;  // the first page of each chain
  std::uint64_t last_number_ = 0;
};

}  // namespace rollout
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_ROLLOUT)
RLCORE_BEGIN
namespace rollout {

RLCORE_INLINE void prefix_cache::insert(std::int32_t page, const page_content& content,
                                        std::shared_ptr<const void> pixels) {
  forget(page);  // its tokens may be stored after an evicted predecessor
  entry& e = at(page);
  e = {++last_number_, content.before, content.before == 0 ? content.salt : 0, {}, {}, {}, place(content), none};
  std::ranges::copy(content.tokens, e.tokens.begin());
  if (!content.pictures.empty()) {
    e.pictures.assign(content.pictures.begin(), content.pictures.end());
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

}  // namespace rollout
RLCORE_END
#endif
