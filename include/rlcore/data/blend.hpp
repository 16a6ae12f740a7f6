// The order of rows: samplers, and blends of data sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/data/row.hpp"

RLCORE_BEGIN
namespace data {

/// The numbers 0 to n - 1, shuffled (Fisher-Yates) or in order. A pure function of its arguments: a resumed run needs
/// only seed and epoch. Throws std::invalid_argument when n does not fit 32 bits.
inline std::vector<std::uint32_t> epoch_order(std::size_t n, std::uint64_t seed, std::uint64_t epoch, bool shuffle) {
  if (n > UINT32_MAX) throw std::invalid_argument("rlcore: epoch_order of more than 2^32 - 1 rows");
  std::vector<std::uint32_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::uint32_t>(i);
  if (!shuffle) return order;
  const random_key key = random_key{seed}.child(0x6f726472u);  // "ordr"
  for (std::size_t i = n; i-- > 1;) {
    const auto last = static_cast<std::uint32_t>(i);
    std::swap(
        order[i],
        order[key.below(last + 1, last, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32))]);
  }
  return order;
}

/// Rows of batch number `batch` (from 1) of `size` rows each: epoch after epoch, the last partial batch of each
/// dropped. Needs size <= n.
inline std::vector<std::uint32_t> rows_of_batch(std::size_t n, std::int64_t size, std::int64_t batch,
                                                std::uint64_t seed, bool shuffle) {
  const std::int64_t per_epoch = static_cast<std::int64_t>(n) / size, index = batch - 1;
  const auto order = epoch_order(n, seed, static_cast<std::uint64_t>(index / per_epoch), shuffle);
  const auto first = order.begin() + index % per_epoch * size;
  return {first, first + size};
}

/// Row `row` of data set `set`.
struct row_place {
  std::uint32_t set = 0, row = 0;
  friend bool operator==(const row_place&, const row_place&) = default;
};

/// All rows of all datasets, concatenated.
std::vector<row_place> concatenated(std::span<const std::size_t> sizes);

/// Draws the dataset of each row with the given probabilities (they need not sum to 1) until every dataset is
/// exhausted; one that ends sooner restarts (the rule "all_exhausted" of Hugging Face datasets). The order is a
/// function of the arguments. Throws std::invalid_argument for empty sets, and probabilities that are not positive.
std::vector<row_place> interleaved(std::span<const std::size_t> sizes, std::span<const double> probabilities,
                                   std::uint64_t seed);

/// The rows of all sets in the order of use.
struct blend {
  std::vector<table> sets;
  std::vector<row_place> order;

  std::size_t size() const noexcept { return order.size(); }
  /// Row i in the order of use.
  const row& operator[](std::size_t i) const { return sets[order[i].set].rows[order[i].row]; }
  /// "<file>: row <n>"
  std::string where(std::size_t i) const { return row_text(sets[order[i].set].file, order[i].row); }
  /// The folder of its file, the base of relative image paths.
  std::filesystem::path folder(std::size_t i) const {
    return std::filesystem::path(sets[order[i].set].file).parent_path();
  }
};

}  // namespace data
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DATA)
RLCORE_BEGIN
namespace data {

RLCORE_INLINE std::vector<row_place> concatenated(std::span<const std::size_t> sizes) {
  std::vector<row_place> order;
  for (std::uint32_t set = 0; set < sizes.size(); ++set)
    for (std::uint32_t i = 0; i < sizes[set]; ++i) order.push_back({set, i});
  return order;
}

RLCORE_INLINE std::vector<row_place> interleaved(std::span<const std::size_t> sizes,
                                                 std::span<const double> probabilities, std::uint64_t seed) {
  double total = 0;
  if (sizes.size() != probabilities.size() || sizes.empty())
    throw std::invalid_argument("rlcore: interleaved: " + std::to_string(sizes.size()) + " sets and " +
                                std::to_string(probabilities.size()) + " probabilities");
  for (std::size_t set = 0; set < sizes.size(); ++set) {
    if (!(probabilities[set] > 0) || sizes[set] == 0)
      throw std::invalid_argument("rlcore: interleaved: set " + std::to_string(set) + " has " +
                                  std::to_string(sizes[set]) + " rows and probability " +
                                  std::to_string(probabilities[set]));
    total += probabilities[set];
  }
  const random_key key = random_key{seed}.child(0x6d697865u);  // "mixe"
  std::vector<std::uint32_t> next(sizes.size());
  std::vector<bool> whole(sizes.size());
  std::vector<row_place> order;
  for (std::size_t left = sizes.size(); left > 0;) {
    double at = key.uniform(static_cast<std::uint32_t>(order.size())) * total;
    std::uint32_t set = 0;
    while (set + 1 < sizes.size() && at >= probabilities[set]) at -= probabilities[set++];
    order.push_back({set, next[set]});
    if (++next[set] < sizes[set]) continue;
    next[set] = 0;
    if (!whole[set]) whole[set] = true, --left;
  }
  return order;
}

}  // namespace data
RLCORE_END
#endif
