// Scoring in groups of rows that ranks share, and sums of their reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "rlcore/nn/model/units.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/train/model/trainable_model.hpp"

RLCORE_BEGIN
namespace train {

/// Neighbouring rows [first, last).
using row_range = parallel::index_range;
using parallel::even_share;
using parallel::gather_parts;
using parallel::share_by_cost;

/// Adds up the reports of all ranks that share the rows of a step or an evaluation.
template <class Device, class Strategy, class T>
void sum_over_ranks(const trainable_model<Device, Strategy>& model, T& report) {
  model.strategy().sum(report);
}

/// True if this rank writes files.
template <class Device, class Strategy>
bool writes(const trainable_model<Device, Strategy>& model) {
  return model.strategy().first();
}

/// The rows that this rank evaluates, out of `count` rows of tokens_of(row) tokens each.
template <class Device, class Strategy, class TokensOf>
row_range own_rows(const trainable_model<Device, Strategy>& model, std::size_t count, TokensOf&& tokens_of) {
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int64_t>(tokens_of(i)));
  return model.strategy().rows(tokens);
}

/// Gathers each rank's numbers for its own_rows(), in the order of all rows.
template <class Device, class Strategy, class T>
void gather_rows(const trainable_model<Device, Strategy>& model, std::vector<T>& numbers) {
  model.strategy().gather(numbers);
}

/// Calls f(first, last) for consecutive groups of `count` rows, one forward each: at most `max_rows` rows (0: no limit)
/// and, except for a single longer row, at most `max_tokens` tokens (0: no limit); tokens_of(i) is the length of row i.
/// The split never changes a bit.
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

/// The same for this rank's rows; f scores them with each of `models` (causal_lm::units()) once per call. With sharded
/// weights f is also called with (count, count) for each group that a different rank has in excess: empty passes
/// (log_probs, values, most_likely) take part in the collectives. Every rank calls this, even without rows.
template <class TokensOf, class F>
void for_each_scored_group(std::initializer_list<nn::unit_source*> models, std::size_t count, std::int64_t max_rows,
                           std::int64_t max_tokens, TokensOf&& tokens_of, F&& f) {
  std::vector<row_range> groups;
  for_each_group(count, max_rows, max_tokens, tokens_of,
                 [&](std::size_t first, std::size_t last) { groups.push_back({first, last}); });
  for (nn::unit_source* m : models)
    if (m) {
      groups.resize(m->most_passes(groups.size()), {count, count});
      break;
    }
  for (const row_range& g : groups) f(g.first, g.last);
  for (nn::unit_source* m : models)
    if (m) m->rest();
}

}  // namespace train

RLCORE_END
