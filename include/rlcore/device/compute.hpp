// Compute data type of matrix products: float32, bfloat16 or hf32.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// The type of the inputs of matrix products; sums, results and master weights are float in all cases. hf32 is Ascend's
/// float with 11 fraction bits, which CPUs do not support.
enum class compute : unsigned char { float32, bfloat16, hf32 };

RLCORE_END
