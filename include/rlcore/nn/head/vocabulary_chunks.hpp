// The parts of the vocabulary with separate sums.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/parallel/partition.hpp"

RLCORE_BEGIN
namespace nn {

/// `total` parts, of which `count` from `first` on are this rank's: config::tp_reduce_chunks, or one for each rank.
struct vocabulary_chunks {
  std::int64_t vocabulary = 0, total = 1, first = 0, count = 1;

  /// tp_reduce_chunks parts, or without them one for each tensor parallel rank, dealt to the ranks in equal runs.
  static vocabulary_chunks of(const config& c, const partition& p) {
    const std::int64_t ranks = p.tensor_size, total = c.tp_reduce_chunks > 0 ? c.tp_reduce_chunks : ranks;
    return {c.vocab_size, total, p.tensor_rank * (total / ranks), total / ranks};
  }
  /// Are there sums to be added?
  bool apart() const noexcept { return total > 1; }
  /// The tokens of part n of all.
  slice part(std::int64_t n) const { return vocabulary_part(vocabulary, n, total); }
  /// Columns of this rank's weight that are its part c.
  slice columns(std::int64_t c) const {
    const std::int64_t begin = part(first).begin;
    const slice chunk = part(first + c);
    return {chunk.begin - begin, chunk.end - begin};
  }
  /// out [n, tokens]: the tokens, counted from the begin of each of the `n` parts from part `from` on.
  void count_from(std::span<const std::int32_t> tokens, std::int64_t from, std::int64_t n,
                  std::vector<std::int32_t>& out) const {
    out.clear();
    for (std::int64_t c = 0; c < n; ++c)
      for (const std::int32_t token : tokens) out.push_back(token - static_cast<std::int32_t>(part(from + c).begin));
  }
};

/// states [t] = those of `chunks` parts [chunks, t], added by pairs as parallel::tree adds ranks.
template <class Device>
void merge_log_probs(Device& device, log_prob_state* states, extent_t t, extent_t chunks) {
  for (extent_t step = 1; step < chunks; step *= 2)
    for (extent_t c = 0; c + step < chunks; c += 2 * step)
      device.log_prob_merge(states + c * t, states + (c + step) * t, t);
}

}  // namespace nn
RLCORE_END
