// What a device may have beyond the device concept: rows of packed weights as floats.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "rlcore/device/device.hpp"

RLCORE_BEGIN

/// An embedding that is packed for the head's products need not be in memory a second time.
template <class D>
concept packed_rows = device<D> && requires(D& d, const D& constant, float* y, const std::byte* packed,
                                            weight_format format, const std::int32_t* ids, extent_t n) {
  // false: this device, of a kind that may have this kernel, has none
  { constant.reads_packed_rows() } -> std::same_as<bool>;
  // y[k] = row ids[k] of a packed weight, as its format rounded it; not of int8: y, packed, format, ids, count, inputs
  d.gather_packed_rows(y, packed, format, ids, n, n);
};

/// Can rows of packed weights be had?
template <device D>
bool reads_packed_rows(const D& d) {
  if constexpr (packed_rows<D>) {
    return d.reads_packed_rows();
  } else {
    return false;
  }
}

RLCORE_END
