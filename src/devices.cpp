// The devices that programs open by name (the target rlcore::devices).
#include "rlcore/training/every_device.hpp"
