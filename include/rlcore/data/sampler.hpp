// Shuffled or sequential sampler of row indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"

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

}  // namespace data
RLCORE_END
