// The rows of a micro-batch in the memory of a device.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/objective/loop/device_batch.hpp"
#include "rlcore/objective/piece/field.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/tensor.hpp"
#include "rlcore/trainer/policy/algorithm/policy_rows.hpp"

RLCORE_BEGIN
namespace trainer {

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

/// Fields that the host has, uploaded together.
template <class Device>
class rows_on_device {
 public:
  /// old_logp, advantages and what else is in `reads` of the fields of `host`, whose offsets have to outlive this.
  rows_on_device(Device& device, const policy_rows& host, field reads) {
    std::vector<float> all;
    std::size_t first[std::size(fields)];
    for (std::size_t f = 0; f < std::size(fields); ++f) {
      first[f] = all.size();
      const std::span<const float> x = host.*fields[f].second;
      if (contains(reads | field::old_logp | field::advantage, fields[f].first))
        all.insert(all.end(), x.begin(), x.end());
    }
    memory_ = buffer<float, Device>(device, all.size());
    memory_.upload(all);
    rows_.offsets = host.offsets;
    for (std::size_t f = 0; f < std::size(fields); ++f) {
      const std::size_t last = f + 1 < std::size(fields) ? first[f + 1] : all.size();
      rows_.*fields[f].second = {memory_.data() + first[f], last - first[f]};
    }
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

  policy_rows rows_;
  buffer<float, Device> memory_;
};

}  // namespace trainer
RLCORE_END
