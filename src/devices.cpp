// The devices that programs open by name, the emulated NPU among them (the target rlcore::devices).
#include "rlcore/emulator/every_call.hpp"
#include "rlcore/training/every_device.hpp"
