// The devices that programs open by name, compiled once for a whole program (the target rlcore::kernels).
#if !defined(RLCORE_LINKED_KERNELS)
#define RLCORE_LINKED_KERNELS  // they are in kernels.cpp
#endif
#include "rlcore/device/open_device.hpp"
#include "rlcore/device/open_device_here.hpp"

RLCORE_BEGIN
std::unique_ptr<any_device> open_device(const device_settings& s) { return open_device_here(s); }
RLCORE_END
