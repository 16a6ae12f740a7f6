// Distribution of an update's sequences over ranks and micro-batches.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/planning/layout.hpp"
#include "rlcore/planning/workload.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// The batches of the busiest data rank, per optimizer step unless a member says otherwise.
struct batches {
  std::int64_t rows = 0;           ///< sequences
  std::int64_t micro_rows = 0;     ///< sequences per micro-batch
  std::int64_t micro = 0;          ///< micro-batches
  std::int64_t leaves = 1;         ///< leaves of the gradient's tree, each sent separately with zero 2 and 3
  std::int64_t tokens = 0;         ///< tokens of one device per micro-batch
  std::int64_t scored = 0;         ///< micro-batches of a scoring pass; not split by leaves
  std::int64_t scored_tokens = 0;  ///< tokens of one device per scored micro-batch

  /// 8 leaves, or one for each data rank if there are more, or one for each micro-batch.
  batches(const layout& l, const workload& w) {
    const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    rows = up(std::max<std::int64_t>(1, w.sequences() / w.updates), l.data);
    const std::int64_t wanted = std::max<std::int64_t>(1, w.micro_tokens * l.context / w.length());
    leaves = l.leaf_of_micro ? up(rows, wanted) : std::min(rows, up(8, l.data));
    micro_rows = std::min(wanted, up(rows, leaves));
    micro = leaves * up(up(rows, leaves), micro_rows);
    tokens = up(micro_rows * w.length(), l.context);
    const std::int64_t sequences = up(w.sequences(), l.data);
    scored = up(sequences, wanted), scored_tokens = up(std::min(wanted, sequences) * w.length(), l.context);
  }
};

}  // namespace trainer::planning
RLCORE_END
