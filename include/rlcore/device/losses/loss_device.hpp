// Device concept for losses: the functions that losses need in addition to the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "rlcore/device/row_ids.hpp"
#include "rlcore/objective/traced/program.hpp"
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

/// Requirements of losses: device memory, four of the kernels, and four functions for losses only. All enqueue; none
/// reads device memory on the host.
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

/// The base of any_device for losses, so that a loss can be compiled without the other kernels; models `loss_device`.
/// The concepts describe the members.
class any_loss_device {
 public:
  static constexpr bool host_readable = false;

  any_loss_device() = default;
  any_loss_device(const any_loss_device&) = delete;
  any_loss_device& operator=(const any_loss_device&) = delete;
  virtual ~any_loss_device() = default;

  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* p) noexcept = 0;
  virtual void upload(void* device, const void* host, std::size_t bytes) = 0;
  virtual void download(void* host, const void* device, std::size_t bytes) = 0;
  virtual void fill_zero(void* p, std::size_t bytes) = 0;
  virtual void wait() = 0;

  virtual void gather_rows(float* y, const float* x, extent_t rows, const std::int32_t* ids, extent_t count,
                           extent_t w) = 0;
  virtual void copy_rows(float* y, extent_t y_row, row_ids ids, const float* x, extent_t x_row, extent_t count,
                         extent_t w) = 0;
  virtual void scale_rows(float* y, const float* x, const float* factor, extent_t t, extent_t w) = 0;
  virtual void add(float* y, const float* a, const float* b, extent_t n) = 0;

  /// Whether losses run on the device. If not, the host reads or downloads the fields, and the four functions below
  /// throw std::logic_error.
  virtual bool runs_losses() const { return false; }
  virtual void run_program(const traced_program&, const program_arrays<float>&) { runs_none(); }
  virtual void live_slots(float*, const mask_elements&, const std::int32_t*, const std::int32_t*, extent_t, extent_t) {
    runs_none();
  }
  virtual void row_sums(float*, const float*, extent_t, extent_t) { runs_none(); }
  virtual void to_indices(std::int32_t*, const float*, extent_t) { runs_none(); }

 private:
  [[noreturn]] static void runs_none() { throw std::logic_error("rlcore: this device runs no losses"); }
};
static_assert(loss_device<any_loss_device>);

RLCORE_END
