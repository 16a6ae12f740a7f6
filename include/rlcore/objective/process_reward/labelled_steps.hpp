// Judgements of the steps of an answer, and the logits they are about.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/objective/vocabulary/alignment.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// One step of a row: the token in the row where it ends, and what was thought of it. A hard label is the index of a
/// class (std::int64_t), a soft one the probabilities of R classes (std::array<T, R>); they are different types, so
/// neither can be stored as the other.
template <class Label>
struct step_label {
  std::int64_t last_token;
  Label label;
};

/// The positions of all steps of the packed rows and their labels, for logits_batch::positions, labels (or, of soft
/// labels, targets) and offsets. Rows without steps are rows without live positions.
template <class Label>
struct labelled_steps {
  std::vector<std::int64_t> positions;
  std::vector<Label> labels;
  std::vector<std::int64_t> offsets{0};
};

/// Soft labels as the matrix [steps, R] that logits_batch::targets takes.
template <class T, std::size_t R>
matrix_view<const T> target_matrix(const labelled_steps<std::array<T, R>>& steps) noexcept {
  return {steps.labels.empty() ? nullptr : steps.labels.front().data(),
          {static_cast<extent_t>(steps.labels.size()), static_cast<extent_t>(R)}};
}

/// Which of the judged steps of a row are trained on.
enum class judged_steps : std::uint8_t {
  all,
  last,  ///< the last one of each row alone (TRL's train_on_last_step_only): the answer as a whole
};

/// Finds the logits of every step. `row_offsets` are those of the packed tokens; the steps of row i are
/// steps[step_offsets[i]] ... steps[step_offsets[i + 1] - 1], in the order of their tokens. `alignment` is
/// at_position{} for a head that judges at the token itself (PRM of OpenRLHF and TRL), predicts_next{} for a model that
/// predicts the judgement as its next token. Throws std::invalid_argument if a step lies outside its row, whether it
/// is trained on or not: rows that were truncated lose their steps by the caller's decision, not here. (TRL cuts rows
/// after it chose the last step: under judged_steps::last a row that was cut has no step for it; drop all of its
/// steps.)
template <class Alignment, class Label>
labelled_steps<Label> label_steps(Alignment alignment, std::span<const std::int64_t> row_offsets,
                                  std::span<const step_label<Label>> steps, std::span<const std::int64_t> step_offsets,
                                  judged_steps which = judged_steps::all) {
  detail::check_packed(step_offsets, steps.size(), "label_steps");
  if (row_offsets.size() != step_offsets.size())
    throw std::invalid_argument("rlcore: label_steps: row_offsets are [" + std::to_string(row_offsets.size()) +
                                "], step_offsets are [" + std::to_string(step_offsets.size()) + "]");
  labelled_steps<Label> out;
  for (std::size_t i = 0; i + 1 < row_offsets.size(); ++i) {
    const std::int64_t first = row_offsets[i], length = row_offsets[i + 1] - first;
    std::int64_t before = -1;
    for (std::int64_t k = step_offsets[i]; k < step_offsets[i + 1]; ++k) {
      const step_label<Label>& step = steps[static_cast<std::size_t>(k)];
      const std::int64_t at = step.last_token < 0 || step.last_token >= length
                                  ? -1
                                  : detail::logits_of(alignment, first + step.last_token, first);
      if (at < 0 || step.last_token <= before)
        throw std::invalid_argument("rlcore: label_steps: step " + std::to_string(k - step_offsets[i]) + " of row " +
                                    std::to_string(i) + " ends at token " + std::to_string(step.last_token) +
                                    " after " + std::to_string(before) + ", the row has " + std::to_string(length) +
                                    " tokens");
      before = step.last_token;
      if (which == judged_steps::last && k + 1 != step_offsets[i + 1]) continue;
      out.positions.push_back(at);
      out.labels.push_back(step.label);
    }
    out.offsets.push_back(static_cast<std::int64_t>(out.positions.size()));
  }
  return out;
}

RLCORE_ALGORITHM_END
RLCORE_END
