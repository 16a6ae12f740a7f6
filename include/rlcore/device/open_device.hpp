// A device by its settings.
#pragma once

#include <memory>

#include "rlcore/device/any_device.hpp"
#include "rlcore/device/device_settings.hpp"

#if !defined(RLCORE_LINKED_KERNELS)
#include "rlcore/device/open_device_here.hpp"
#endif

RLCORE_BEGIN

/// The device that `s` describes. Throws device_error if there is none. With RLCORE_LINKED_KERNELS (in CMake: link
/// rlcore::kernels) it is compiled there once, with all devices, and a program that asks for one includes none of them.
#if defined(RLCORE_LINKED_KERNELS)
std::unique_ptr<any_device> open_device(const device_settings& s);
#else
inline std::unique_ptr<any_device> open_device(const device_settings& s) { return open_device_here(s); }
#endif

RLCORE_END
