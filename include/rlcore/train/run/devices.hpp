// Opens a device from its settings.
#pragma once

#include <memory>

#include "rlcore/device/any_device.hpp"
#include "rlcore/device/device_settings.hpp"

#if !defined(RLCORE_COMPILED)
#include "rlcore/train/run/every_device.hpp"
#endif

RLCORE_BEGIN

/// The device that `s` describes. Throws device_error if this machine has none. every_device.hpp defines it.
std::unique_ptr<any_device> open_device(const device_settings& s);

RLCORE_END
