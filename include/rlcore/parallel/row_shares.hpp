// Splits rows over ranks and all-gathers the results.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/index_range.hpp"

RLCORE_BEGIN
namespace parallel {

/// Range `part` when `count` rows are split into `parts` consecutive ranges whose sizes differ by at most one.
inline index_range even_share(std::size_t count, std::size_t parts, std::size_t part) noexcept {
  return {count * part / parts, count * (part + 1) / parts};
}

/// The same by cost: a row belongs to the part that contains the midpoint of its cost interval.
inline index_range share_by_cost(std::span<const std::int64_t> cost, std::size_t parts, std::size_t part) {
  std::int64_t total = 0, before = 0;
  for (const std::int64_t c : cost) total += c;
  if (total <= 0) return even_share(cost.size(), parts, part);
  index_range range{cost.size(), cost.size()};
  for (std::size_t i = 0; i < cost.size(); before += cost[i++]) {
    // The part is floor(parts * middle / total), in whole numbers.
    const auto owner =
        static_cast<std::size_t>((2 * before + cost[i]) * static_cast<std::int64_t>(parts) / (2 * total));
    const std::size_t bounded = std::min(owner, parts - 1);
    if (bounded >= part) range.first = std::min(range.first, i);
    if (bounded > part) range.last = std::min(range.last, i);
  }
  return {std::min(range.first, range.last), range.last};
}

/// All-gathers the parts of all ranks of `group` in rank order.
template <class T>
std::vector<T> gather_parts(any_communicator& group, std::span<const T> mine) {
  if (group.size() == 1) return {mine.begin(), mine.end()};
  std::vector<std::size_t> counts(static_cast<std::size_t>(group.size()));
  const std::size_t count = mine.size();
  group.all_gather(std::span<const std::size_t>(&count, 1), std::span(counts));
  std::size_t total = 0;
  for (const std::size_t n : counts) total += n;
  std::vector<T> out(total);
  group.all_gather_v(mine, std::span(out), std::span<const std::size_t>(counts));
  return out;
}

}  // namespace parallel
RLCORE_END
