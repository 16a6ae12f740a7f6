// What a device needs besides its kernels so that losses run where their arrays are.
#pragma once

#include <cstdint>

#include "rlcore/device/row_ids.hpp"
#include "rlcore/objective/traced/run.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// A mask in the memory of a device, without gaps: `size` elements of 1, 4 or 8 bytes, integers or floats.
struct mask_elements {
  const void* data = nullptr;  ///< null: every slot counts
  extent_t size = 0;
  std::uint8_t bytes = 0;
  bool floating = false;
};

/// What losses need of a device: its memory, four of its kernels, and four functions of their own. All enqueue; none
/// reads memory of the device on the host.
///   run_program(p, arrays): a traced program over whole arrays, see program_executor
///   live_slots(live, mask, lengths, slots, rows, width): live[rows, width] = 1 where the mask is not 0, else 0. With
///     `slots` [rows, width] (device memory), slot k shows mask element slots[k]; with `lengths` [rows] (device
///     memory), slots from lengths[i] on are 0
///   row_sums(sums, x, rows, width): sums[i] = the sum of row i
///   to_indices(y, x, n): y = x, floats that are whole numbers, as int32
template <class D>
concept loss_device = memory_device<D> && program_executor<D, float> &&
    requires(D& d, float* y, const float* x, std::int32_t* i, const std::int32_t* ids, const mask_elements& mask,
             extent_t n) {
  d.gather_rows(y, x, n, ids, n, n);
  d.copy_rows(y, n, row_ids(), x, n, n, n);
  d.scale_rows(y, x, x, n, n);
  d.add(y, x, x, n);
  d.live_slots(y, mask, ids, ids, n, n);
  d.row_sums(y, x, n, n);
  d.to_indices(i, x, n);
};

RLCORE_END
