// Reading rows of packed weights: panels as cpu::pack_weight writes them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/cpu/arguments.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

namespace cpu_kernels {

/// Bytes of a panel of weights with `inputs` inputs.
constexpr extent_t panel_bytes(weight_format format, extent_t inputs) noexcept {
  return panel_width * (format == weight_format::float32 ? 4 * inputs
                        : is_bfloat16(format)            ? 2 * (inputs + inputs % 2)
                                                         : inputs + 4);
}

/// The values of output `row` of a packed weight, float32 or bf16.
inline void read_packed_row(float* y, const std::byte* packed, weight_format format, extent_t row, extent_t inputs) {
  constexpr extent_t word = sizeof(std::uint32_t), next = panel_width * word;
  const std::byte* at = packed + row / panel_width * panel_bytes(format, inputs) + row % panel_width * word;
  const bool pairs = is_bfloat16(format);  // the earlier input in the upper half of a word
  for (extent_t p = 0; p < inputs; p += pairs ? 2 : 1, at += next) {
    std::uint32_t bits;
    std::memcpy(&bits, at, sizeof bits);
    y[p] = std::bit_cast<float>(pairs ? bits & 0xffff0000u : bits);
    if (pairs && p + 1 < inputs) y[p + 1] = std::bit_cast<float>(bits << 16);
  }
}

}  // namespace cpu_kernels

RLCORE_END
