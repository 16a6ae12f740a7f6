// In what a device multiplies.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// In what the inputs of matrix products are held; sums, results and master weights are float in each. hf32 is Ascend's
/// float with 11 bits of fraction, which no processor has.
enum class compute : unsigned char { float32, bfloat16, hf32 };

RLCORE_END
