// The chips that the emulator supports.
#pragma once

#include <span>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// The properties of a chip that determine its summation order and its memory.
struct chip {
  std::string_view name;  ///< as aclrtGetSocName returns it
  int cores = 0;          ///< cube cores; the chip has twice as many vector cores
  int memory_gib = 0;
};

/// Atlas A2 and one die of A3, as the files of CANN 8.1's platform_config have them.
inline std::span<const chip> chips() noexcept {
  static constexpr chip table[] = {{"Ascend910B1", 24, 64},    {"Ascend910B2", 24, 64},    {"Ascend910B2C", 24, 64},
                                   {"Ascend910B3", 20, 64},    {"Ascend910B4", 20, 32},    {"Ascend910B4-1", 20, 32},
                                   {"Ascend910_9391", 24, 64}, {"Ascend910_9392", 24, 64}, {"Ascend910_9381", 24, 64},
                                   {"Ascend910_9382", 24, 64}, {"Ascend910_9372", 20, 64}, {"Ascend910_9362", 20, 32}};
  return table;
}

/// The chip of this name, or nullptr.
inline const chip* find_chip(std::string_view name) noexcept {
  for (const chip& c : chips())
    if (c.name == name) return &c;
  return nullptr;
}

}  // namespace ascend::emulated
RLCORE_END
