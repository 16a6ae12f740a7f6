// Rows in groups that go through a model together, and how ranks keep step where no rank has all of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "rlcore/nn/model/units.hpp"
#include "rlcore/training/ranks/shares.hpp"

RLCORE_BEGIN
namespace trainer {

/// Calls f(first, last) for consecutive groups of `count` rows that go through the model together: at most `max_rows`
/// of them (0: no limit) and, except for a single longer one, at most `max_tokens` tokens (0: no limit); tokens_of(i)
/// is the length of row i. The split never changes a bit.
template <class TokensOf, class F>
void for_each_group(std::size_t count, std::int64_t max_rows, std::int64_t max_tokens, TokensOf&& tokens_of, F&& f) {
  for (std::size_t first = 0; first < count;) {
    std::size_t last = first;
    std::int64_t tokens = 0;
    while (last < count) {
      const auto length = static_cast<std::int64_t>(tokens_of(last));
      if (last > first && max_rows > 0 && static_cast<std::int64_t>(last - first) >= max_rows) break;
      if (last > first && max_tokens > 0 && tokens + length > max_tokens) break;
      tokens += length;
      ++last;
    }
    f(first, last);
    first = last;
  }
}

/// The same for rows of this rank that f scores with `models` (causal_lm::units()), once with each in every call. Where
/// their weights are in shards, f is also called with (count, count), as often as another rank has more groups: passes
/// over nothing (log_probs, values, most_likely) make the collectives of a pass. Every rank calls this, also without
/// rows.
template <class TokensOf, class F>
void for_each_scored_group(std::initializer_list<nn::unit_source*> models, std::size_t count, std::int64_t max_rows,
                           std::int64_t max_tokens, TokensOf&& tokens_of, F&& f) {
  std::vector<row_range> groups;
  for_each_group(count, max_rows, max_tokens, tokens_of, [&](std::size_t first, std::size_t last) {
    groups.push_back({first, last});
  });
  for (nn::unit_source* m : models)
    if (m) {
      groups.resize(m->most_passes(groups.size()), {count, count});
      break;
    }
  for (const row_range& g : groups) f(g.first, g.last);
  for (nn::unit_source* m : models)
    if (m) m->rest();
}

}  // namespace trainer
RLCORE_END
