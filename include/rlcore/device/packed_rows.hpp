// Optional device extension: reading rows of packed weights as floats.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "rlcore/device/device.hpp"

RLCORE_BEGIN

/// With it, an embedding that is packed for the output head is not stored a second time.
template <class D>
concept packed_rows = device<D> && requires(D& d, const D& constant, float* y, const std::byte* packed,
                                            weight_format format, const std::int32_t* ids, extent_t n) {
  // false: this device lacks the kernel, although its type has the function
  { constant.reads_packed_rows() } -> std::same_as<bool>;
  // y[k] = row ids[k] of a packed weight, as rounded by its format; not for int8: y, packed, format, ids, count, inputs
  d.gather_packed_rows(y, packed, format, ids, n, n);
};

/// Whether the device can read rows of packed weights.
template <device D>
bool reads_packed_rows(const D& d) {
  if constexpr (packed_rows<D>) {
    return d.reads_packed_rows();
  } else {
    return false;
  }
}

RLCORE_END
