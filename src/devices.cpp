// The devices that programs open by name (the target rlcore::devices).
#include "rlcore/train/run/every_device.hpp"
