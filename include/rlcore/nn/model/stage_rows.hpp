// Rows of a pass and their gradients on the way between the stages of a pipeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/pipeline_link.hpp"
#include "rlcore/parallel/host_window.hpp"
#include "rlcore/tensor/ragged.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// Hidden states [rows, width] in device memory, of a pass over `sequences`.
struct stage_rows {
  float* x = nullptr;
  extent_t rows = 0, width = 0;
  const ragged<std::int32_t>& sequences;

  std::size_t size() const noexcept { return static_cast<std::size_t>(rows * width); }
  std::size_t row_size() const noexcept { return static_cast<std::size_t>(width); }
};

/// Fills r.x from the stage before.
template <class Device>
void receive_rows(Device& device, pipeline_link& link, const stage_rows& r) {
  parallel::with_host_view(device, r.x, r.size(), link.staged, false,
                           [&](std::span<float> x) { link.receive_forward(x, r.row_size(), r.sequences.offsets); });
}

/// Sends r.x to the next stage.
template <class Device>
void send_rows(Device& device, pipeline_link& link, const stage_rows& r) {
  device.wait();
  const float* x = parallel::host_view(device, r.x, r.size(), link.staged);
  link.send_forward({x, r.size()}, r.row_size(), r.sequences.offsets);
}

/// Sends the gradients r.x of the sequences in `ranges` to the stage before; null: no row of this rank has one.
template <class Device>
void send_gradients(Device& device, pipeline_link& link, const stage_rows& r, std::span<const segment_range> ranges) {
  std::vector<std::uint32_t> numbers;
  for (const segment_range& range : ranges) {
    numbers.push_back(static_cast<std::uint32_t>(range.begin));
    numbers.push_back(static_cast<std::uint32_t>(range.end));
  }
  if (r.x == nullptr) return link.send_backward({}, r.row_size(), numbers, r.sequences.offsets);
  device.wait();
  const float* dx = parallel::host_view(device, r.x, r.size(), link.staged);
  link.send_backward({dx, r.size()}, r.row_size(), numbers, r.sequences.offsets);
}

/// Fills r.x and `ranges` from the next stage. Without rows r.x is 0.
template <class Device>
void receive_gradients(Device& device, pipeline_link& link, const stage_rows& r, std::vector<segment_range>& ranges) {
  std::vector<std::uint32_t> numbers;
  bool filled = false;
  parallel::with_host_view(device, r.x, r.size(), link.staged, false, [&](std::span<float> dx) {
    filled = link.receive_backward(dx, r.row_size(), numbers, r.sequences.offsets);
  });
  if (!filled) device.fill_zero(r.x, r.size() * sizeof(float));
  ranges.clear();
  for (std::size_t i = 0; i < numbers.size(); i += 2) ranges.push_back({numbers[i], numbers[i + 1]});
}

}  // namespace nn
RLCORE_END
