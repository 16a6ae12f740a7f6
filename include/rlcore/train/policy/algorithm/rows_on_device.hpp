// The rows of a micro-batch in the memory of a device.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/objective/loop/device_batch.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/tensor.hpp"
#include "rlcore/train/policy/algorithm/policy_algorithm.hpp"

RLCORE_BEGIN
namespace train {

/// The addresses of a vector of a device, which the host must not read through.
template <class T, class Device>
std::span<T> span_of(const device_view<T, 1, Device>& x) noexcept {
  return {x.data, static_cast<std::size_t>(x.shape[0])};
}
/// The same of a tensor.
template <class T, class Device>
std::span<const T> span_of(const tensor<T, 1, Device>& x) noexcept {
  return {x.data(), x.size()};
}

/// Consecutive numbers in the memory of a device.
struct device_run {
  const float* data = nullptr;
  extent_t count = 0;
};

/// Fields of rows: host fields are uploaded together, device fields are joined on the device.
template <class Device>
class rows_on_device {
 public:
  /// old_logp, advantages and what else is in `reads` of the fields of `host`, whose offsets must outlive this. The
  /// runs of `ref`, if any, are ref_logp and must outlive it too.
  rows_on_device(Device& device, const policy_rows& host, field reads, std::span<const device_run> ref = {}) {
    std::vector<float> all;
    std::size_t first[std::size(fields)];
    for (std::size_t f = 0; f < std::size(fields); ++f) {
      first[f] = all.size();
      const std::span<const float> x = host.*fields[f].second;
      if (contains(reads | field::old_logp | field::advantage, fields[f].first))
        all.insert(all.end(), x.begin(), x.end());
    }
    std::size_t joined = 0;
    if (ref.size() > 1 && contains(reads, field::ref_logp))
      for (const device_run& r : ref) joined += static_cast<std::size_t>(r.count);
    memory_ = buffer<float, Device>(device, all.size() + joined);
    if (!all.empty()) device.upload(memory_.data(), all.data(), all.size() * sizeof(float));
    rows_.offsets = host.offsets;
    for (std::size_t f = 0; f < std::size(fields); ++f) {
      const std::size_t last = f + 1 < std::size(fields) ? first[f + 1] : all.size();
      rows_.*fields[f].second = {memory_.data() + first[f], last - first[f]};
    }
    if (!ref.empty() && contains(reads, field::ref_logp)) show_reference(device, ref, memory_.data() + all.size());
  }
  /// Addresses; the host must not read through them.
  const policy_rows& rows() const noexcept { return rows_; }

 private:
  static constexpr std::pair<field, std::span<const float> policy_rows::*> fields[] = {
      {field::old_logp, &policy_rows::old_logp},
      {field::ref_logp, &policy_rows::ref_logp},
      {field::advantage, &policy_rows::advantage},
      {field::advantage, &policy_rows::token_advantage},
      {field::selected, &policy_rows::selected}};

  /// One run is read where it lies; several are joined at `room`.
  void show_reference(Device& device, std::span<const device_run> ref, float* room) {
    if (ref.size() == 1) {
      rows_.ref_logp = {ref[0].data, static_cast<std::size_t>(ref[0].count)};
      return;
    }
    float* to = room;
    for (const device_run& r : ref)
      device.run(op::copy_rows{.y = to, .y_row = r.count, .x = r.data, .x_row = r.count, .count = 1, .width = r.count}),
          to += r.count;
    rows_.ref_logp = {room, to};
  }

  policy_rows rows_;
  buffer<float, Device> memory_;
};

}  // namespace train
RLCORE_END
