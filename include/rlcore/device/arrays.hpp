// Device arrays of a step: uploaded once, with rows gathered on the device per micro-batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/tensor.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN

/// Copies a container of the host (a vector, a matrix: anything that as_view takes) to device memory, row after row.
template <class Host, memory_device Device>
auto to_device(Device& device, const Host& host) {
  const auto v = as_view(host);
  using view_type = std::remove_cv_t<decltype(v)>;
  using element = typename view_type::value_type;
  static_assert(view_type::rank <= 2, "rlcore: to_device takes a vector or a matrix [rows, tokens]");
  tensor<element, view_type::rank, Device> copy(device, v.shape);
  const auto size = static_cast<std::size_t>(v.size());
  if (v.stride == view_type(v.data, v.shape).stride) {
    copy.memory().upload(std::span<const element>(v.data, size));
    return copy;
  }
  std::vector<element> rows;
  rows.reserve(size);
  for (extent_t i = 0; i < v.shape[0]; ++i)
    if constexpr (view_type::rank == 1)
      rows.push_back(v(i));
    else
      for (extent_t j = 0; j < v.shape[1]; ++j) rows.push_back(v(i, j));
  copy.memory().upload(rows);
  return copy;
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
  const auto indices = to_device(device, ids);
  device.run(op::gather_rows{.y = chosen.data(),
                             .x = x.data(),
                             .x_rows = static_cast<extent_t>(count),
                             .ids = indices.data(),
                             .count = static_cast<extent_t>(rows.size()),
                             .width = static_cast<extent_t>(width)});
  return chosen;
}

RLCORE_END
