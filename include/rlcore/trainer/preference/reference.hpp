// The frozen model that preferences are measured against.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/nn/log_probs.hpp"
#include "rlcore/trainer/preference/packed_answers.hpp"
#include "rlcore/trainer/supervised/task.hpp"
#include "rlcore/trainer/trainee.hpp"

RLCORE_BEGIN
namespace trainer {

/// Log-probs of every answer token under `model`, into `out`.
template <class Device>
void score_answers(nn::causal_lm<Device>& model, nn::workspace<Device>& space, const packed_answers& rows,
                   std::vector<float>& out) {
  out.resize(rows.targets.row.size());
  nn::log_probs(model, space, rows.inputs, rows.targets, 1.0f, out, {});
}

/// A second model, or with LoRA the trainee without its adapter.
template <class Device>
class reference_model {
 public:
  /// nullptr: the trainee's own base.
  explicit reference_model(nn::causal_lm<Device>* own) : own_(own) {}

  void operator()(trainee<Device>& model, const packed_answers& rows, std::vector<float>& out) const {
    if (own_ != nullptr) return score_answers(*own_, model.space, rows, out);
    model.with_base([&] { score_answers(model.model, model.space, rows, out); });
  }

 private:
  nn::causal_lm<Device>* own_;
};

/// The reference's log-probs of a data set's answers: computed when first asked for, then kept.
class reference_log_probs {
 public:
  /// Row i has lengths[i] answer tokens.
  explicit reference_log_probs(const std::vector<std::size_t>& lengths) : known_(lengths.size(), false) {
    for (const std::size_t n : lengths) begin_.push_back(begin_.back() + n);
  }

  /// Appends those of `rows` to `out`. compute(unknown, values) fills `values`, one row after the other, for the rows
  /// that were not asked for before.
  template <class Compute>
  void append(std::span<const std::uint32_t> rows, std::vector<float>& out, Compute&& compute) {
    values_.resize(begin_.back());
    std::vector<std::uint32_t> unknown;
    for (const std::uint32_t row : rows)
      if (!known_[row]) unknown.push_back(row), known_[row] = true;
    if (!unknown.empty()) {
      std::vector<float> fresh;
      compute(std::span<const std::uint32_t>(unknown), fresh);
      auto from = fresh.begin();
      for (const std::uint32_t row : unknown) {
        const auto n = static_cast<std::ptrdiff_t>(begin_[row + 1] - begin_[row]);
        std::copy(from, from + n, values_.begin() + static_cast<std::ptrdiff_t>(begin_[row]));
        from += n;
      }
    }
    for (const std::uint32_t row : rows)
      out.insert(out.end(), values_.begin() + static_cast<std::ptrdiff_t>(begin_[row]),
                 values_.begin() + static_cast<std::ptrdiff_t>(begin_[row + 1]));
  }

 private:
  std::vector<std::size_t> begin_{0};
  std::vector<bool> known_;
  std::vector<float> values_;
};

/// The rows of a step, at most `rows_per_pass` at a time: pack(rows, answers) puts their answers side by side, then
/// f(rows, answers, the reference's log-probs) is called.
template <class Device, class Pack, class F>
void for_answers(std::span<const std::uint32_t> rows, std::int64_t rows_per_pass, trainee<Device>& model,
                 const reference_model<Device>& reference, reference_log_probs& known, Pack&& pack, F&& f) {
  packed_answers batch, unknown;
  std::vector<float> ref;
  for_each_group(
      rows.size(), rows_per_pass, 0, [](std::size_t) { return 0; },
      [&](std::size_t first, std::size_t last) {
        const auto group = rows.subspan(first, last - first);
        ref.clear();
        known.append(group, ref, [&](std::span<const std::uint32_t> fresh, std::vector<float>& values) {
          pack(fresh, unknown);
          reference(model, unknown, values);
        });
        pack(group, batch);
        f(group, std::as_const(batch), std::span<const float>(ref));
      });
}

}  // namespace trainer
RLCORE_END
