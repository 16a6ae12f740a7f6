// From a decision per row to field::selected.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/loop/live_rows.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Calls decide(i, row, keep) for each row; keep starts as zeros and gets 1 for the live tokens that are selected.
/// Writes it to `selected`, 0 in all other slots. If the batch has a selection already, the two are joined by `and`:
/// `selected` may be the same memory.
template <class T, class Decide>
void mark_tokens(const token_batch<T>& batch, const std::type_identity_t<token_field<T>>& selected, field reads,
                 const Decide& decide) {
  // Some field that has the batch's shape.
  field fields = reads | (batch.selected.present() ? field::selected : field::none);
  const std::array<const token_field<const T>*, 4> any{&batch.logp, &batch.old_logp, &batch.entropy, &batch.advantage};
  const std::array<field, 4> names{field::logp, field::old_logp, field::entropy, field::advantage};
  for (std::size_t k = 0; k < any.size() && fields == field::none; ++k)
    if (any[k]->present()) fields = names[k];
  const live_rows<T> rows(batch, fields, "the selection");
  const auto out = rows.target("selected", selected);
  live_row row;
  scratch_vector<double> keep;
  for (extent_t i = 0; i < rows.size(); ++i) {
    rows.read(i, row);
    keep.assign(row.size(), 0.0);
    decide(i, static_cast<const live_row&>(row), std::span<double>(keep));
    if (batch.selected.present())
      for (std::size_t k = 0; k < keep.size(); ++k)
        if (row[field::selected][k] == 0) keep[k] = 0;
    rows.write(out, i, row, keep);
  }
}

RLCORE_ALGORITHM_END
RLCORE_END
