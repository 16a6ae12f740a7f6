// Token counts of a sequence, for repetition, frequency and presence penalties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace rollout {

/// The distinct tokens of a sequence's prompt and text, with the number of times each was generated. A function of
/// prompt and text only. A hash table with 8 bytes per slot: appending a token takes constant time.
class token_history {
 public:
  /// Resets to `prompt` and the text so far. Tokens are >= 0.
  void start(std::span<const std::int32_t> prompt, std::span<const std::int32_t> generated = {});
  /// Appends a generated token.
  void add(std::int32_t token) { ++place_of(token).generated; }

  /// Does the token occur in the prompt or the text?
  bool contains(std::int32_t token) const noexcept { return !places_.empty() && places_[find(token)].token == token; }
  /// How often the token was generated.
  std::int64_t generated(std::int32_t token) const noexcept {
    return contains(token) ? places_[find(token)].generated : 0;
  }
  /// Distinct tokens.
  std::size_t size() const noexcept { return distinct_; }

  /// Calls f(token, times generated) once for each distinct token, in unspecified order.
  template <class F>
  void for_each(F&& f) const {
    for (const place& p : places_)
      if (p.token != empty) f(p.token, std::int64_t{p.generated});
  }

 private:
  static constexpr std::int32_t empty = -1;
  struct place {
    std::int32_t token = empty;
    std::uint32_t generated = 0;
  };

  /// The slot of the token, or the empty slot for it. The number of slots is a power of two.
  std::size_t find(std::int32_t token) const noexcept;
  place& place_of(std::int32_t token);
  void grow();

  std::vector<place> places_;
  std::size_t distinct_ = 0;
};

}  // namespace rollout
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_ROLLOUT)
RLCORE_BEGIN
namespace rollout {

RLCORE_INLINE void token_history::start(std::span<const std::int32_t> prompt, std::span<const std::int32_t> generated) {
  places_.clear();
  distinct_ = 0;
  for (const std::int32_t token : prompt) place_of(token);
  for (const std::int32_t token : generated) add(token);
}

RLCORE_INLINE std::size_t token_history::find(std::int32_t token) const noexcept {
  const std::size_t mask = places_.size() - 1;
  const std::uint64_t mixed = static_cast<std::uint64_t>(token) * 0x9e3779b97f4a7c15u;
  std::size_t at = static_cast<std::size_t>(mixed >> 32) & mask;
  while (places_[at].token != token && places_[at].token != empty) at = (at + 1) & mask;
  return at;
}

RLCORE_INLINE auto token_history::place_of(std::int32_t token) -> place& {
  if (2 * (distinct_ + 1) > places_.size()) grow();
  place& p = places_[find(token)];
  if (p.token == empty) p.token = token, ++distinct_;
  return p;
}

RLCORE_INLINE void token_history::grow() {
  const std::vector<place> before =
      std::exchange(places_, std::vector<place>(places_.empty() ? 64 : 2 * places_.size()));
  for (const place& p : before)
    if (p.token != empty) places_[find(p.token)] = p;
}

}  // namespace rollout
RLCORE_END
#endif
