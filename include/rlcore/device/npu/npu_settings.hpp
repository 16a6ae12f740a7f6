// How an npu device is set up.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/device/compute.hpp"

RLCORE_BEGIN

/// `compute`: in what matrix products and attention take their inputs; all else is float, and so is every sum. With
/// bf16 the result of attention and, before CANN 8.5, of a product is rounded to bf16 once.
struct npu_settings {
  int device = 0;
  rlcore::compute compute = rlcore::compute::bfloat16;
  bool deterministic = true;         ///< operators that add atomically take their ordered variants: same bits each run
  bool sync_each_operation = false;  ///< waits after every operator, so that an error names the one that failed
  bool exact_memory = false;         ///< every allocation is Ascend's own, for finding stray accesses
};

RLCORE_END
