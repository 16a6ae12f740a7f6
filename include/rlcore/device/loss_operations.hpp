// The operations with which losses and advantages run where their arrays are; see operations.hpp for the conventions.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/arguments.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

struct traced_program;
template <class T>
struct program_arrays;

namespace op {

/// Runs a traced program over whole arrays, see program_executor.
struct run_program {
  const traced_program& program;
  const program_arrays<float>& arrays;
};

/// live[rows, width] = 1 where the mask is not 0, else 0.
struct live_slots {
  float* live = nullptr;
  mask_elements mask = {};
  const std::int32_t* lengths = nullptr;  ///< [rows] or null: slots of row i from lengths[i] on are 0
  const std::int32_t* slots = nullptr;    ///< [rows, width] or null: slot k shows mask element slots[k]
  extent_t rows = 0, width = 0;
};

/// sums[i] = the sum of row i of x[rows, width].
struct row_sums {
  float* sums = nullptr;
  const float* x = nullptr;
  extent_t rows = 0, width = 0;
};

/// y[n] = x, floats that are whole numbers, as int32.
struct to_indices {
  std::int32_t* y = nullptr;
  const float* x = nullptr;
  extent_t n = 0;
};

/// largest[i] = the largest of row i of x[rows, width]; of a row with NaN, NaN or the largest of the others.
struct row_largest {
  float* largest = nullptr;
  const float* x = nullptr;
  extent_t rows = 0, width = 0;
};

/// y[i, t] += factor x[i, t + 1], with 0 after the last slot.
struct add_next_slots {
  float* y = nullptr;
  const float* x = nullptr;
  float factor = 1;
  extent_t rows = 0, width = 0;
};

/// y[i, t] = x[i, t] + decay open[i, t] y[i, t + 1]. y may be x.
struct suffix_sums {
  float* y = nullptr;
  const float* x = nullptr;
  double decay = 1;
  const float* open = nullptr;  ///< 0 and 1; null: always 1
  extent_t rows = 0, width = 0;
};

/// Where the slots that count (live is 1, not 0) come first, each in its order, slot order[i, k] is the k-th of row i,
/// and slot t the place[i, t]-th.
struct live_first {
  std::int64_t *order = nullptr, *place = nullptr;
  const float* live = nullptr;
  extent_t rows = 0, width = 0;
};

/// y[i, t] = x[i, slots[i, t]].
struct pick_slots {
  float* y = nullptr;
  const float* x = nullptr;
  const std::int64_t* slots = nullptr;
  extent_t rows = 0, width = 0;
};

}  // namespace op

RLCORE_END
