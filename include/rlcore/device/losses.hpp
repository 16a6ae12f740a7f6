// Losses where their arrays are: evaluate(device, algorithm, batch, counts, gradients) with token_batch<float, Device>.
#pragma once

#include "rlcore/device/arrays.hpp"
#include "rlcore/device/losses/evaluate.hpp"
#include "rlcore/device/losses/evaluate_host.hpp"
#include "rlcore/device/losses/evaluate_sequences.hpp"
#include "rlcore/device/losses/host_fallback.hpp"
#include "rlcore/objective/loop/device_batch.hpp"
#include "rlcore/objective/traced/executor.hpp"
#include "rlcore/objective/traced/expand.hpp"
#include "rlcore/objective/traced/explain.hpp"
#include "rlcore/objective/traced/objective_program.hpp"
#include "rlcore/objective/traced/source.hpp"
