// The devices that programs open by name (the target rlcore::kernels).
#include "rlcore/training/every_device.hpp"
