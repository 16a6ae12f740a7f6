// Every device that a program can ask for by name: compiled where this is included.
#pragma once

#include <memory>

#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/device/device_settings.hpp"

RLCORE_BEGIN

/// open_device(), compiled in this translation unit.
inline std::unique_ptr<any_device> open_device_here(const device_settings& s) {
  return std::make_unique<any_device_of<cpu>>(s.threads, s.instruction_set, s.type.value_or(compute::float32));
}

RLCORE_END
