// Ascend NPUs: the device, the CANN of this machine behind it, losses and advantages on its arrays. It takes every
// algorithm along; models, which are written for any device, are included as for a cpu, and the device without hardware
// is emulator/emulated_npu.hpp.
#pragma once

#include "rlcore/device/advantages.hpp"
#include "rlcore/device/losses.hpp"
#include "rlcore/device/npu.hpp"
#include "rlcore/device/npu/provider.hpp"
#include "rlcore/objective/algorithms.hpp"
