// Incremental detokenizer with stop strings: emits whole characters only, and holds back a possible beginning of a stop
// string.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/stream_decoder.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace serving {

/// The length of the longest suffix of `text` that is a proper prefix of `mark`.
inline std::size_t overlap(std::string_view text, std::string_view mark) noexcept {
  for (std::size_t n = std::min(text.size(), mark.empty() ? 0 : mark.size() - 1); n > 0; --n)
    if (text.substr(text.size() - n) == mark.substr(0, n)) return n;
  return 0;
}

/// All pieces together, finish() included, are the tokenizer's decoding of all ids at once, cut at the first complete
/// stop string; of several that end at the same position the longest counts. One that is complete within the text of
/// the first `min_tokens` tokens does not count, as in vLLM.
class text_stream {
 public:
  /// `include_stop` leaves the stop string in the text. The stop strings must outlive the stream.
  text_stream(const text::tokenizer& tokenizer, std::span<const std::string> stops, bool include_stop,
              bool skip_special_tokens, std::int64_t min_tokens = 0)
      : decoder_(tokenizer, skip_special_tokens), stops_(stops), include_stop_(include_stop), early_(min_tokens) {}

  /// The text that can be emitted now; empty after a stop string.
  std::string push(std::int32_t id);
  /// The rest of the text.
  std::string finish();
  /// The stop string that ended the text.
  const std::optional<std::string>& stop() const noexcept { return stop_; }
  bool stopped() const noexcept { return stop_.has_value(); }

 private:
  std::string take(const std::string& piece, bool early);

  text::stream_decoder decoder_;
  std::span<const std::string> stops_;
  bool include_stop_;
  std::int64_t early_;         // remaining tokens whose text is exempt from stop strings
  std::size_t too_early_ = 0;  // characters of held_ that belong to such tokens
  std::string held_;
  std::optional<std::string> stop_;
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE std::string text_stream::push(std::int32_t id) {
  if (stopped()) return {};
  const std::string piece = decoder_.push(id);
  const bool early = early_ > 0;
  if (early) --early_;
  return take(piece, early);
}

RLCORE_INLINE std::string text_stream::finish() {
  if (stopped()) return {};
  std::string shown = take(decoder_.finish(), early_ > 0);
  if (!stopped()) shown += std::exchange(held_, {});
  return shown;
}

RLCORE_INLINE std::string text_stream::take(const std::string& piece, bool early) {
  held_ += piece;
  if (early) too_early_ = held_.size();
  std::size_t first = held_.npos, end = held_.npos;
  for (const std::string& s : stops_) {
    const std::size_t at = held_.find(s, too_early_ < s.size() ? 0 : too_early_ - s.size() + 1);
    if (at == held_.npos || (stop_ && (at + s.size() > end || (at + s.size() == end && at >= first)))) continue;
    stop_ = s, first = at, end = at + s.size();
  }
  if (stop_) {
    held_.resize(include_stop_ ? end : first);
    return std::exchange(held_, {});
  }
  std::size_t kept = 0;
  for (const std::string& s : stops_) kept = std::max(kept, overlap(held_, s));
  std::string shown = held_.substr(0, held_.size() - kept);
  held_.erase(0, shown.size());
  too_early_ -= std::min(too_early_, shown.size());
  return shown;
}

}  // namespace serving
RLCORE_END
#endif
