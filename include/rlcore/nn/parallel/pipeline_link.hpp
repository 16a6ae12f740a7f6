// Messages between the stages of a pipeline: rows of a pass, and their gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// What precedes the rows of a pass on their way to another stage. The receiver knows what must come, and compares.
struct pass_header {
  static constexpr std::uint32_t right_magic = 0x524c5053;
  std::uint32_t magic = right_magic;
  char kind = 'F';  ///< 'F': hidden states; 'B': their gradients
  char unused[3] = {};
  std::uint64_t pass = 0;       ///< number of passes of this kind before, since the link was made
  std::uint64_t rows = 0;       ///< of the payload; B: 0 if no sequence of these rows has a gradient
  std::uint32_t width = 0;      ///< values of a row
  std::uint32_t ranges = 0;     ///< B: the number of ranges of sequences with a gradient
  std::uint64_t sequences = 0;  ///< hash of their begins in the batch

  /// "F of pass 5 (1824 rows of 64)".
  std::string text() const {
    return std::string(1, kind) + " of pass " + std::to_string(pass) + " (" + std::to_string(rows) + " rows of " +
           std::to_string(width) + ")";
  }
};
static_assert(sizeof(pass_header) == 40);

/// One rank's way to the stages before and behind it. All data are in host memory. Sends wait only while stages() + 1
/// passes are under way to that stage; receives throw communication_error, naming the pass, if something else comes.
class pipeline_link {
 public:
  pipeline_link() = default;
  pipeline_link(const pipeline_link&) = delete;
  pipeline_link& operator=(const pipeline_link&) = delete;
  virtual ~pipeline_link() = default;

  /// This virtual stage, of how many.
  virtual int stage() const = 0;
  virtual int stages() const = 0;
  bool first() const { return stage() == 0; }
  bool last() const { return stage() + 1 == stages(); }

  /// Sends hidden states [rows, width] of a pass over sequences with these begins.
  virtual void send_forward(std::span<const float> x, std::size_t width, std::span<const std::int32_t> begins) = 0;
  /// Fills x from the stage before.
  virtual void receive_forward(std::span<float> x, std::size_t width, std::span<const std::int32_t> begins) = 0;
  /// Sends their gradients to the stage before: empty, or as many rows as the hidden states. `ranges` are pairs of
  /// numbers, the sequences that have a gradient.
  virtual void send_backward(std::span<const float> dx, std::size_t width, std::span<const std::uint32_t> ranges,
                             std::span<const std::int32_t> begins) = 0;
  /// Sets `ranges`. Returns whether rows came; then dx is filled.
  virtual bool receive_backward(std::span<float> dx, std::size_t width, std::vector<std::uint32_t>& ranges,
                                std::span<const std::int32_t> begins) = 0;

  std::vector<float> staged;  ///< host memory reused between calls
};

/// Over any engine.
template <parallel::communicator C>
class pipeline_link_of final : public pipeline_link {
 public:
  /// The ranks with this place in each stage, by stage, in a group for forwards and one for backwards: two, since a
  /// stage may send both to the same rank, and the order of each alone is known. A message may take `patience`
  /// timeouts.
  pipeline_link_of(C& forwards, C& backwards, int patience)
      : forwards_(&forwards), backwards_(&backwards), patience_(patience) {}

  int stage() const override { return forwards_->rank(); }
  int stages() const override { return forwards_->size(); }

  void send_forward(std::span<const float> x, std::size_t width, std::span<const std::int32_t> begins) override {
    send(*forwards_, stage() + 1, header_of('F', sent_forwards_++, x.size(), width, begins), {}, x);
  }
  void receive_forward(std::span<float> x, std::size_t width, std::span<const std::int32_t> begins) override {
    const pass_header expected = header_of('F', received_forwards_++, x.size(), width, begins);
    pass_header found;
    const int from = stage() - 1;
    receive(*forwards_, std::span<pass_header>(&found, 1), from, expected);
    check(expected, found, from, found.rows == expected.rows);
    receive(*forwards_, x, from, expected);
  }
  void send_backward(std::span<const float> dx, std::size_t width, std::span<const std::uint32_t> ranges,
                     std::span<const std::int32_t> begins) override {
    pass_header header = header_of('B', sent_backwards_++, dx.size(), width, begins);
    header.ranges = static_cast<std::uint32_t>(ranges.size() / 2);
    send(*backwards_, stage() - 1, header, ranges, dx);
  }
  bool receive_backward(std::span<float> dx, std::size_t width, std::vector<std::uint32_t>& ranges,
                        std::span<const std::int32_t> begins) override {
    const pass_header expected = header_of('B', received_backwards_++, dx.size(), width, begins);
    pass_header found;
    const int from = stage() + 1;
    receive(*backwards_, std::span<pass_header>(&found, 1), from, expected);
    check(expected, found, from, found.rows == expected.rows || found.rows == 0);
    ranges.resize(std::size_t{2} * found.ranges);
    if (!ranges.empty()) receive(*backwards_, std::span<std::uint32_t>(ranges), from, expected);
    if (found.rows == 0) return false;
    receive(*backwards_, dx, from, expected);
    return true;
  }

 private:
  static pass_header header_of(char kind, std::uint64_t pass, std::size_t values, std::size_t width,
                               std::span<const std::int32_t> begins) {
    pass_header h;
    h.kind = kind, h.pass = pass, h.rows = values / width, h.width = static_cast<std::uint32_t>(width);
    h.sequences = 0xcbf29ce484222325;  // as FNV-1a
    for (const std::int32_t n : begins) h.sequences = (h.sequences ^ static_cast<std::uint32_t>(n)) * 0x100000001b3;
    return h;
  }
  /// Not more passes are under way than a schedule of training steps needs, however far ahead this stage could be.
  void send(C& group, int to, const pass_header& header, std::span<const std::uint32_t> ranges,
            std::span<const float> rows) {
    const std::size_t messages = header.kind == 'F' ? 2 : 3, most = messages * static_cast<std::size_t>(stages() + 1);
    group.send(std::span<const pass_header>(&header, 1), to, most, patience_);
    if (!ranges.empty()) group.send(ranges, to, most, patience_);
    if (header.kind == 'F' || header.rows > 0) group.send(rows, to, most, patience_);
  }
  /// Messages of the engine do not know passes: adds what this stage waits for.
  template <class T>
  void receive(C& group, std::span<T> to, int from, const pass_header& expected) {
    try {
      group.receive(to, from, patience_);
    } catch (const communication_error& e) {
      throw communication_error(std::string(e.what()) + "; stage " + std::to_string(stage()) + " waited for " +
                                expected.text() + " from stage " + std::to_string(from));
    }
  }
  void check(const pass_header& expected, const pass_header& found, int from, bool rows) {
    if (found.magic == expected.magic && found.kind == expected.kind && found.pass == expected.pass &&
        found.width == expected.width && found.sequences == expected.sequences && rows)
      return;
    const bool same_text = found.magic == expected.magic && found.text() == expected.text();
    forwards_->abort("stage " + std::to_string(stage()) + " expected " + expected.text() + ", stage " +
                     std::to_string(from) + " sent " +
                     (found.magic != expected.magic ? std::string("no header")
                                                    : found.text() + (same_text ? " of other sequences" : "")));
  }

  C *forwards_, *backwards_;
  int patience_;
  std::uint64_t sent_forwards_ = 0, received_forwards_ = 0, sent_backwards_ = 0, received_backwards_ = 0;
};

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
  parallel::with_host_view(device, r.x, r.size(), link.staged,
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
  parallel::with_host_view(device, r.x, r.size(), link.staged, [&](std::span<float> dx) {
    filled = link.receive_backward(dx, r.row_size(), numbers, r.sequences.offsets);
  });
  if (!filled) device.fill_zero(r.x, r.size() * sizeof(float));
  ranges.clear();
  for (std::size_t i = 0; i < numbers.size(); i += 2) ranges.push_back({numbers[i], numbers[i + 1]});
}

}  // namespace nn
RLCORE_END
