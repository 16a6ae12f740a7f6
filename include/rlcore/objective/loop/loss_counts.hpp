// Counts of a batch that is a whole optimizer step.
#pragma once

#include "rlcore/objective/aggregation/global_counts.hpp"
#include "rlcore/objective/loop/evaluate.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The counts of `batch`, to be used where one call on one rank is the whole optimizer step; otherwise the counts of
/// all its micro-batches and ranks have to be joined with += first. Throws as evaluate does.
template <class T>
global_counts loss_counts(const token_batch<T>& batch) {
  constexpr field every_field = static_cast<field>((1u << field_count) - 1);
  token_loop::prepared_batch<T> rows;
  rows.shape = detail::shape_of(batch, detail::inputs_of(batch), every_field);
  detail::check_mask(batch.mask, rows.shape);
  rows.lengths = batch.lengths, rows.offsets = batch.offsets;
  global_counts counts;
  for (extent_t i = 0; i < rows.shape.rows; ++i) {
    const extent_t length = rows.length(i);
    counts.add_row(batch.mask.present()
                       ? token_loop::count_live(batch.mask, token_loop::mask_row(batch.mask, i, rows.offset(i)),
                                                static_cast<std::size_t>(length))
                       : static_cast<std::int64_t>(length));
  }
  return counts;
}

RLCORE_ALGORITHM_END
RLCORE_END
