// Losses on a device: evaluate(device, algorithm, batch, counts, gradients) with token_batch<float, Device>.
#pragma once

#include "rlcore/device/arrays.hpp"
#include "rlcore/device/losses/evaluate.hpp"
#include "rlcore/device/losses/evaluate_sequences.hpp"
#include "rlcore/device/losses/host_fallback.hpp"
#include "rlcore/objective/loop/device_batch.hpp"
#include "rlcore/objective/traced/run.hpp"
#include "rlcore/objective/traced/source.hpp"
#include "rlcore/objective/traced/trace.hpp"
