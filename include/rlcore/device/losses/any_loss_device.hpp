// What losses need of a device chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "rlcore/device/losses/loss_device.hpp"
#include "rlcore/device/row_ids.hpp"
#include "rlcore/objective/traced/program.hpp"
#include "rlcore/objective/traced/run.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// The part of any_device that losses see, so that a loss can be compiled without the other kernels; models
/// `loss_device`. The concepts describe the members.
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

  /// Whether losses run where their arrays are. If not, the host reads the memory, or fetches the fields, and the four
  /// functions below throw std::logic_error.
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
