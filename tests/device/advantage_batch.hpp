// Rewards, values and masks of a batch for the estimators of advantages, on the host in double and on a device.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "device/emulated_devices.hpp"
#include "rlcore/device/advantages.hpp"

namespace rlcore_test {

using doubles = std::vector<double>;

/// Where the slots that count lie.
enum class slots { all, prefix, gaps, late, none };
inline constexpr slots every_layout[] = {slots::all, slots::prefix, slots::gaps, slots::late, slots::none};

/// A device_matrix of the host as float and double, and on a device.
template <class Device>
struct device_matrix {
  device_matrix(Device& d, extent_t rows, extent_t width, floats x)
      : shape{rows, width}, host(x.begin(), x.end()), here(d, shape) {
    here.memory().upload(x);
  }
  view<const double, 2> in_double() const { return {host.data(), shape}; }
  extents<2> shape;
  doubles host;
  tensor<float, 2, Device> here;
};

/// Random [rows, width] with a mask: NaN where a slot does not count.
template <class Device>
struct token_arrays {
  token_arrays(Device& d, slots form_, extent_t rows_, extent_t width_)
      : rows(rows_), width(width_), form(form_), device_mask_memory(d, {rows_, width_}) {
    for (extent_t i = 0; i < rows; ++i) {
      const extent_t length = i % 5 == 3 ? 0 : 1 + (i * 11 + 5) % width;
      for (extent_t t = 0; t < width; ++t) {
        bool live = form == slots::all;
        if (form == slots::prefix) live = t < length;
        if (form == slots::gaps) live = t < length && (t * 5 + i) % 4 != 1;
        if (form == slots::late) live = t >= width - length && (t + i) % 7 != 2;
        mask.push_back(live);
      }
    }
    device_mask_memory.memory().upload(mask);
  }
  /// Normal values, function of the seed.
  device_matrix<Device> random(Device& d, std::uint64_t seed, double scale, double shift = 0) const {
    floats x = normal(rows * width, seed, scale);
    for (std::size_t k = 0; k < x.size(); ++k)
      x[k] = mask[k] != 0 ? x[k] + static_cast<float>(shift) : std::numeric_limits<float>::quiet_NaN();
    return {d, rows, width, x};
  }
  token_mask on_host() const {
    return form == slots::all ? token_mask{} : token_mask(view<const std::uint8_t, 2>{mask.data(), {rows, width}});
  }
  device_mask<Device> on_device() const {
    return form == slots::all ? device_mask<Device>{} : device_mask<Device>(device_mask_memory);
  }
  std::string text() const {
    return "mask " + std::to_string(static_cast<int>(form)) + " of " + std::to_string(rows) + " x " +
           std::to_string(width);
  }

  extent_t rows, width;
  slots form;
  std::vector<std::uint8_t> mask;
  tensor<std::uint8_t, 2, Device> device_mask_memory;
};

template <std::size_t Rank, class Device>
floats fetched(const tensor<float, Rank, Device>& x) {
  floats host(x.size());
  x.memory().download(host);
  return host;
}

/// |got - want| <= 1e-6 terms, for each number; 0 where there is no term.
inline void expect_advantages(const floats& got, const doubles& want, const doubles& terms, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t k = 0; k < got.size(); ++k) {
    if ((std::isnan(want[k]) && std::isnan(got[k])) || static_cast<double>(got[k]) == want[k]) continue;
    ASSERT_LE(std::abs(static_cast<double>(got[k]) - want[k]), 1e-6 * terms[k])
        << what << ": number " << k << " is " << got[k] << " instead of " << want[k];
  }
}

}  // namespace rlcore_test
