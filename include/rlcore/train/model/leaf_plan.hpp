// Splits the rows of an optimizer step into leaves, and each leaf into passes (micro-batches).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/nn/config.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/nn/vision/vision_cost.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"

RLCORE_BEGIN
namespace train {

/// From a mean of so many tokens per pass, rank and dense layer on, weights are packed unit by unit (nn::unit_packer):
/// products take far longer than packing, and what is packed stays in the caches.
inline constexpr std::size_t long_pass_tokens = 256;
/// Whether passes of so many tokens pack units, if ones of `limit` are long; an expert sees a part of the tokens.
inline bool packs_units(std::size_t tokens, std::size_t limit, std::int64_t experts, std::int64_t experts_per_token) {
  return experts == 0
             ? tokens >= limit
             : tokens * static_cast<std::size_t>(experts_per_token) >= limit * static_cast<std::size_t>(experts);
}

/// The rows of an optimizer step, and the largest micro-batch of them (0: no limit).
struct micro_batch_settings {
  std::size_t rows = 0;
  std::int64_t max_rows = 0, max_tokens = 0;  ///< of a micro-batch; a single row with more tokens goes alone
};

/// The plan depends on the lengths of all rows, so every rank knows the passes of all ranks.
class leaf_plan {
 public:
  /// Row i has tokens[i] tokens. A pass has at most `max_rows` rows and `max_tokens` tokens (0: no limit); a single
  /// longer row makes a pass of its own. Unless `further` is empty, row i costs further[i] more than its tokens
  /// (nn::vision_cost).
  leaf_plan(const nn::config& c, std::vector<std::int64_t> tokens, std::size_t leaves, bool balanced,
            std::int64_t max_rows, std::int64_t max_tokens, const std::vector<double>& further = {})
      : tokens_(std::move(tokens)), max_rows_(max_rows), max_tokens_(max_tokens) {
    const double constant = parallel::cost_constant(nn::sizes_of_layer(c));
    std::vector<double> costs;
    for (const std::int64_t n : tokens_) costs.push_back(parallel::sequence_cost(constant, n));
    for (std::size_t i = 0; i < further.size(); ++i) costs[i] += further[i];
    rows_ = parallel::partition_rows(costs, leaves, balanced);
  }

  std::size_t leaves() const noexcept { return rows_.size(); }
  /// Has the leaf no rows?
  bool empty(std::size_t leaf) const { return rows_[leaf].empty(); }
  /// True for each leaf that has rows.
  std::vector<bool> present() const {
    std::vector<bool> has_rows;
    for (const auto& rows : rows_) has_rows.push_back(!rows.empty());
    return has_rows;
  }
  /// Calls f(std::span<const std::uint32_t> rows) for each pass over a leaf; the rows ascend.
  template <class F>
  void for_each_pass(std::size_t leaf, F&& f) const {
    const std::span<const std::uint32_t> rows = rows_[leaf];
    for (std::size_t first = 0, last = 0; first < rows.size(); first = last) {
      for (std::int64_t tokens = 0; last < rows.size(); ++last) {
        tokens += tokens_[rows[last]];
        if (last == first) continue;
        if (max_rows_ > 0 && static_cast<std::int64_t>(last - first) >= max_rows_) break;
        if (max_tokens_ > 0 && tokens > max_tokens_) break;
      }
      f(rows.subspan(first, last - first));
    }
  }
  /// The number of passes over a leaf.
  std::size_t passes(std::size_t leaf) const {
    std::size_t n = 0;
    for_each_pass(leaf, [&](std::span<const std::uint32_t>) { ++n; });
    return n;
  }
  /// The mean number of tokens of a pass over any leaf.
  std::size_t tokens_per_pass() const {
    std::size_t n = 0;
    for (std::size_t leaf = 0; leaf < leaves(); ++leaf) n += passes(leaf);
    const std::int64_t tokens = std::accumulate(tokens_.begin(), tokens_.end(), std::int64_t{0});
    return n == 0 ? 0 : static_cast<std::size_t>(tokens) / n;
  }
  /// The number of passes of the busiest rank in a round.
  std::size_t most_passes(const parallel::leaf_schedule& schedule, std::size_t round) const {
    std::size_t most = 0;
    for (std::size_t d = 0; d < schedule.data_ranks(); ++d) {
      if (const std::size_t leaf = schedule.leaf(d, round); leaf != schedule.none) most = std::max(most, passes(leaf));
    }
    return most;
  }

 private:
  std::vector<std::int64_t> tokens_;
  std::int64_t max_rows_, max_tokens_;
  std::vector<std::vector<std::uint32_t>> rows_;
};

/// The plan of rows of tokens_of(row) tokens and images_of(row) images.
template <class TokensOf, class ImagesOf>
leaf_plan plan_leaves(const nn::config& c, const parallel::parallel_settings& sums, const micro_batch_settings& s,
                      TokensOf&& tokens_of, ImagesOf&& images_of) {
  std::vector<std::int64_t> tokens(s.rows);
  std::vector<double> further(c.vision ? s.rows : 0);
  for (std::size_t i = 0; i < s.rows; ++i) {
    const auto row = static_cast<std::uint32_t>(i);
    tokens[i] = static_cast<std::int64_t>(tokens_of(row));
    if (!further.empty())
      for (const auto& each : images_of(row)) further[i] += nn::vision_cost(c, each.grid);
  }
  return {c, std::move(tokens), static_cast<std::size_t>(sums.leaves), sums.balance, s.max_rows, s.max_tokens, further};
}

}  // namespace train
RLCORE_END
