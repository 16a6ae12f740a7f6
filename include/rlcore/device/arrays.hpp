// Device arrays of a step: uploaded once, with rows gathered on the device per micro-batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/tensor/tensor.hpp"

RLCORE_BEGIN

/// Copies `host` to device memory.
template <class T, memory_device Device>
tensor<T, 1, Device> to_device(Device& device, const std::vector<T>& host) {
  tensor<T, 1, Device> there(device, {static_cast<extent_t>(host.size())});
  there.memory().upload(host);
  return there;
}

/// Gathers rows[0], rows[1], ... of x, a contiguous matrix with rows of `width` numbers. Throws std::invalid_argument
/// if x has no such row.
template <device Device, class Index>
tensor<float, 1, Device> rows_at(Device& device, const tensor<float, 1, Device>& x, std::span<const Index> rows,
                                 std::size_t width = 1) {
  const std::size_t count = width == 0 ? 0 : x.size() / width;
  std::vector<std::int32_t> ids;
  for (const Index i : rows) {
    if (static_cast<std::size_t>(i) >= count)
      throw std::invalid_argument("rlcore: row " + std::to_string(i) + " of " + std::to_string(x.size()) +
                                  " numbers in rows of " + std::to_string(width) + ", which are " +
                                  std::to_string(count));
    ids.push_back(static_cast<std::int32_t>(i));
  }
  tensor<float, 1, Device> chosen(device, {static_cast<extent_t>(rows.size() * width)});
  if (chosen.size() == 0) return chosen;
  const auto there = to_device(device, ids);
  device.run(op::gather_rows{.y = chosen.data(),
                             .x = x.data(),
                             .x_rows = static_cast<extent_t>(count),
                             .ids = there.data(),
                             .count = static_cast<extent_t>(rows.size()),
                             .width = static_cast<extent_t>(width)});
  return chosen;
}

RLCORE_END
