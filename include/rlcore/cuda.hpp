// NVIDIA GPUs: the device, losses and advantages on its arrays. It takes every algorithm along; the device without
// hardware is emulator/emulated_cuda.hpp.
#pragma once

#include "rlcore/device/advantages.hpp"
#include "rlcore/device/cuda.hpp"
#include "rlcore/device/losses.hpp"
#include "rlcore/objective/algorithms.hpp"
