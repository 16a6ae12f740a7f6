// A copy of rows of logits under the rules of their sequences.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/rollout/apply_rules.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace rollout {

/// The rules of a row, its number in the call, leave no token to draw from its logits.
struct undrawable_row : error {
  std::size_t row;
  /// Of row `number`; `problem` says what leaves nothing.
  undrawable_row(std::size_t number, const std::string& problem) : error(problem), row(number) {}
};

/// Applies rules to a copy of logits, on the host: where it cannot read the device's memory, the rows under rules are
/// downloaded and uploaded. Keeps its memory between calls.
template <rlcore::device Device>
class ruled_logits {
 public:
  /// logits [rows.size(), vocabulary] (device memory) under rows[i], as a copy that is good until the next call; the
  /// logits themselves if all rows are neutral. Throws undrawable_row.
  const float* operator()(Device& device, const float* logits, extent_t vocabulary, std::span<const ruled_row> rows) {
    if (std::ranges::all_of(rows, &ruled_row::neutral)) return logits;
    const auto width = static_cast<std::size_t>(vocabulary);
    if (copy_.size() < rows.size() * width) copy_ = {device, rows.size() * width};
    device.copy_rows(copy_.data(), vocabulary, nullptr, logits, vocabulary, static_cast<extent_t>(rows.size()),
                     vocabulary);
    if constexpr (Device::host_readable) device.wait();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].neutral()) continue;
      float* row = copy_.data() + i * width;
      if constexpr (Device::host_readable) {
        apply(i, rows[i], std::span(row, width));
      } else {
        host_.resize(width);
        device.download(host_.data(), row, width * sizeof(float));
        apply(i, rows[i], host_);
        device.upload(row, host_.data(), width * sizeof(float));
      }
    }
    return copy_.data();
  }

 private:
  void apply(std::size_t number, const ruled_row& row, std::span<float> logits) {
    try {
      apply_rules(row, logits, kept_);
    } catch (const error& e) {
      throw undrawable_row(number, e.what());
    }
  }

  buffer<float, Device> copy_;
  std::vector<float> kept_, host_;  // the second: one row
};

}  // namespace rollout
RLCORE_END
