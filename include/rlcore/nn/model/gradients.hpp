// Gradient accumulation buffer: the gradient of every parameter, in the layout of the weights.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/head/head.hpp"
#include "rlcore/nn/layer/linear.hpp"
#include "rlcore/nn/model/head_sums.hpp"
#include "rlcore/nn/model/packed_weights.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/moe/expert_sums.hpp"
#include "rlcore/nn/parallel/partition.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// Accumulates over any number of forward_backward calls since zero(); the sum is complete after each of them, and its
/// bits do not depend on how the sequences were split into calls.
///
/// A tied embedding receives two sums: over target rows (as the head) and over input rows (as the embedding). Each must
/// run over all tokens in order. Both are therefore stored separately for the tokens that occurred as input, and flat()
/// holds head sum + input sum. As inputs, pad_token_id (like padding_idx of PyTorch and transformers) and image tokens
/// add nothing; as targets of a tied head they do.
template <class Device>
class gradients {
 public:
  /// For a causal_lm of the same device. Allocates memory now, or (`lazy`) at the first use. Throws
  /// std::invalid_argument for a model with repeated key heads, whose ranks would have parts of their gradients.
  template <class Model>
  explicit gradients(const Model& model, bool lazy = false)
      : device_(&model.device()),
        size_(model.own_size()),
        width_(static_cast<extent_t>(model.settings().hidden_size)),
        tied_(model.settings().tied()),
        apart_(model.copies_embedding()),
        without_{model.settings().pad_token_id, model.settings().image_token_id},
        vocabulary_(model.vocabulary()),
        partial_(model.part().tensor_size > 1),
        head_sums_(model),
        matrices_(model.matrices().begin(), model.matrices().end()) {
    if (model.part().tensor_size > model.settings().num_key_value_heads)
      throw std::invalid_argument("rlcore: gradients: the model repeats key heads, which is for sampling alone");
    std::sort(matrices_.begin(), matrices_.end(), [](const matrix& a, const matrix& b) { return a.offset < b.offset; });
    if (tied_) place_.assign(static_cast<std::size_t>(vocabulary_.size()), -1);
    if (!lazy) reserve();
    zero();
  }

  buffer<float, Device>& flat() {
    settle();
    return flat_;
  }
  const buffer<float, Device>& flat() const {
    settle();
    return flat_;
  }
  float* data() { return flat().data(); }
  const float* data() const { return flat().data(); }
  std::size_t size() const noexcept { return size_; }
  /// Throws std::invalid_argument unless these gradients match the model.
  template <class Model>
  void check(const Model& model) const {
    if (size() != model.own_size())
      throw std::invalid_argument("rlcore: gradients of " + std::to_string(size()) + " values for a model of " +
                                  std::to_string(model.own_size()));
  }

  /// Sets all gradients to 0, lazily: the next backward overwrites where it can.
  void zero() noexcept {
    zero_ = true;
    for (const std::int32_t id : ids_) place_[static_cast<std::size_t>(id)] = -1;
    ids_.clear();
  }

  /// Swaps flat() with `other`, which has the same size or is empty (memory is then allocated on demand). Sets all
  /// gradients to 0.
  void swap(buffer<float, Device>& other) {
    settle();
    std::swap(flat_, other);
    zero();
  }
  /// After swap(): provides memory of the same size, or empty. It is not written yet.
  void give(buffer<float, Device>&& memory) {
    flat_ = std::move(memory);
    zero();
  }
  /// Does flat() have memory?
  bool has_memory() const noexcept { return flat_.size() == size_; }
  /// Frees all memory, until the next use; all gradients are 0 then.
  void release() {
    flat_ = {}, device_ids_ = {}, input_sum_ = {}, head_sum_ = {};
    for (buffer<float, Device>& unit : unit_memory_) unit = {};
    idle_.clear();
    zero();
  }

  /// Every later backward adds `slopes` [experts] to the gradient of the router probabilities: the gradient of a
  /// load-balancing loss (load_balancing_slopes()), or empty.
  void balance(std::vector<float> slopes) { balance_ = std::move(slopes); }
  const std::vector<float>& balance() const noexcept { return balance_; }

  /// Passes the gradient of every unit (units.hpp) to `to` as soon as the backward has computed it, and reuses its
  /// memory. Units end at `ends`; a null `to` stops this. One forward_backward computes the whole gradient, which is
  /// never in memory at once. Throws std::logic_error if gradients of several layers are completed together (tensor
  /// parallel head norms, expert parallelism).
  void by_units(std::span<const std::size_t> ends, unit_sink* to) {
    if (to && !can_go_by_units()) throw std::logic_error("rlcore: gradients of this model are not made unit by unit");
    ends_ = ends, sink_ = to, unit_memory_.resize(ends.size());
    zero();
  }
  bool goes_by_units() const noexcept { return sink_ != nullptr; }
  bool can_go_by_units() const noexcept { return head_sums_.empty() && !expert_sums_ && !together_; }
  /// Before the backward of a unit: allocates memory for its gradient.
  void enter(pass<Device>& p, std::size_t unit) {
    if (sink_) p.gradients = take_unit(unit);
  }
  /// After the backward of a unit: hands its gradient over.
  void leave(std::size_t unit) {
    if (!sink_) return;
    device_->wait();
    sink_->take(unit, unit_memory_[unit].data());
    idle_.push_back(std::move(unit_memory_[unit]));
  }
  /// Replaces enter() and leave() if the gradient is 0.
  void leave_zero(std::size_t unit) {
    if (!sink_) return;
    const auto [first, last] = range_of(unit);
    const offset_pointer<float> begin = take_unit(unit);
    device_->fill_zero(begin + first, (last - first) * sizeof(float));
    leave(unit);
  }
  /// Before the gradients of the first unit. The memory of a tied embedding exists since begin().
  void enter_embedding(pass<Device>& p) {
    if (!sink_) return;
    if (!tied_) take_unit(unit_number::embedding);
    p.gradients = gradients_of_unit(unit_number::embedding);
  }
  /// The gradients of a unit, between enter() and leave(), addressed by the offsets of the parameters.
  offset_pointer<float> gradients_of_unit(std::size_t unit) {
    if (!sink_) return flat_.data();
    return {unit_memory_[unit].data(), range_of(unit).first};
  }

  /// For passes of a workspace with this group (workspace::experts). If the model has all experts, call
  /// collect_experts() before the gradient is read. `together` is for a model with a part of the experts: their
  /// gradients are then sums over the rows of all ranks, without memory for each rank.
  template <class Model>
  void divide_experts(const Model& model, expert_group& group, bool together = false) {
    experts_begin_ = model.shared_size(), together_ = together;
    if (!together) expert_sums_.emplace(model, &group);
  }
  bool experts_together() const noexcept { return together_; }
  void collect_experts() {
    if (!expert_sums_) return;
    if (zero_) expert_sums_->zero();
    settle();
    expert_sums_->collect(flat_.data());
  }
  /// The sums that this rank made for rank s, see nn::expert_sums.
  const float* experts_of_rank(int s) const { return expert_sums_->data()[s]; }

  /// Before a backward. With p.first the gradients of linear weights are uninitialised and the backward must overwrite
  /// all of them; it adds to everything else. The embedding's part becomes only the head's sum.
  void begin(pass<Device>& p) {
    p.balance = balance_;
    if (sink_) {
      p.first = true;
      if (tied_) take_unit(unit_number::embedding);
      return enter(p, ends_.size() - 1);
    }
    reserve();
    p.gradients = flat_.data(), p.first = std::exchange(zero_, false);
    p.head_gradients = head_sums_.data();
    if (expert_sums_) {
      p.source_gradients = expert_sums_->data();
      if (p.first) expert_sums_->zero();
    }
    p.experts_together = together_;
    if (p.first && together_) zero_range(flat_.data(), experts_begin_, size_);
    if (p.first) head_sums_.zero();
    if (p.first) {
      zero_others(flat_.data(), 0, size_);
    } else if (!ids_.empty() && !apart_) {
      device_->run(op::copy_rows{.y = flat_.data(),
                                 .y_row = width_,
                                 .ids = rows_named(),
                                 .x = head_sum_.data(),
                                 .x_row = width_,
                                 .count = std::ssize(ids_),
                                 .width = width_});
    }
  }
  /// The destination of the head gradient `output` of a score model; the backward adds to the weight's unless the pass
  /// is the first since zero().
  score_gradient score(const linear& output, const pass<Device>& p) {
    return {p.gradients + output.weight, output.bias == no_parameter ? nullptr : p.gradients + output.bias, !p.first};
  }

  /// After a backward and enter_embedding(). Adds rows dx [tokens, hidden] of the input tokens `ids` (host) and
  /// completes flat().
  void complete(const pass<Device>& p, std::span<const std::int32_t> ids, const float* dx) {
    if (!sink_) head_sums_.complete(p.tensor, flat_.data());
    embed(p, ids, dx);
    if (!sink_) return;
    leave(unit_number::embedding);
    zero();
  }

  /// Replaces complete() in a stage without the embedding.
  void complete_layers(const pass<Device>& p) { head_sums_.complete(p.tensor, flat_.data()); }

  /// In the first stage, whose tied embedding belongs to the last: the input tokens since zero() in order of appearance
  /// and their sums [tokens, hidden].
  void take_inputs(std::vector<std::int32_t>& ids, std::vector<float>& sums) const {
    ids = ids_;
    sums.resize(ids.size() * static_cast<std::size_t>(width_));
    device_->download(sums.data(), input_sum_.data(), sums.size() * sizeof(float));
  }

 private:
  void embed(const pass<Device>& p, std::span<const std::int32_t> ids, const float* dx) {
    const bool all = std::find_first_of(ids.begin(), ids.end(), without_.begin(), without_.end()) == ids.end();
    if (!partial_ && all) return add_embedding(p.space, ids.data(), dx, std::ssize(ids));
    std::vector<std::int32_t>&local_ids = p.space.ids_here, &rows = p.space.rows_here;
    choose_tokens(vocabulary_, ids, local_ids, rows, without_);
    const auto n = static_cast<extent_t>(local_ids.size());
    if (n == 0 && ids_.empty()) return;  // nothing to add, no separate sum
    float* local_dx = p.space.template take<float>(n * width_);
    device_->run(op::gather_rows{.y = local_dx,
                                 .x = dx,
                                 .x_rows = std::ssize(ids),
                                 .ids = p.space.take_copy(rows.data(), n),
                                 .count = n,
                                 .width = width_});
    add_embedding(p.space, local_ids.data(), local_dx, n);
  }
  void add_embedding(workspace<Device>& space, const std::int32_t* ids, const float* dx, extent_t tokens) {
    float* sum = gradients_of_unit(unit_number::embedding) + 0;  // the embedding is the first parameter
    if (!tied_) {
      device_->run(op::scatter_add_rows{.y = sum,
                                        .x = dx,
                                        .ids = {space.take_copy(ids, tokens), rows_below(ids, tokens)},
                                        .count = tokens,
                                        .width = width_});
      return;
    }
    const std::size_t before = ids_.size();
    space.index.clear();
    for (extent_t t = 0; t < tokens; ++t) {
      std::int32_t& place = place_[static_cast<std::size_t>(ids[t])];
      if (place < 0) {
        place = static_cast<std::int32_t>(ids_.size());
        ids_.push_back(ids[t]);
      }
      space.index.push_back(place);
    }
    grow(before);
    const auto distinct = static_cast<extent_t>(ids_.size());
    device_->run(op::scatter_add_rows{.y = input_sum_.data(),
                                      .x = dx,
                                      .ids = {space.take_copy(space.index.data(), tokens), distinct},
                                      .count = tokens,
                                      .width = width_});
    if (apart_) return;
    device_->run(op::gather_rows{.y = head_sum_.data(),
                                 .x = sum,
                                 .x_rows = std::ssize(place_),
                                 .ids = device_ids_.data(),
                                 .count = distinct,
                                 .width = width_});
    device_->run(op::scatter_add_rows{
        .y = sum, .x = input_sum_.data(), .ids = rows_named(), .count = distinct, .width = width_});
  }
  /// The number of rows of an array that is indexed by `ids`.
  static extent_t rows_below(const std::int32_t* ids, extent_t n) {
    return n == 0 ? 0 : extent_t{*std::max_element(ids, ids + n)} + 1;
  }
  /// The rows of the tokens that occurred as input.
  row_ids rows_named() const { return {device_ids_.data(), rows_below(ids_.data(), std::ssize(ids_))}; }
  void grow(std::size_t before) {
    const auto w = static_cast<std::size_t>(width_);
    if (device_ids_.size() < ids_.size()) {
      const std::size_t capacity = std::min(std::max(2 * device_ids_.size(), ids_.size()), place_.size());
      buffer<float, Device> sum(*device_, capacity * w);
      device_->run(op::copy_rows{.y = sum.data(),
                                 .y_row = width_,
                                 .x = input_sum_.data(),
                                 .x_row = width_,
                                 .count = static_cast<extent_t>(before),
                                 .width = width_});
      input_sum_ = std::move(sum);
      head_sum_ = buffer<float, Device>(*device_, capacity * w);
      device_ids_ = buffer<std::int32_t, Device>(*device_, capacity);
      device_->upload(device_ids_.data(), ids_.data(), before * sizeof(std::int32_t));
    }
    device_->upload(device_ids_.data() + before, ids_.data() + before, (ids_.size() - before) * sizeof(std::int32_t));
    device_->fill_zero(input_sum_.data() + before * w, (ids_.size() - before) * w * sizeof(float));
  }

  /// Clears [first, last) except the linear weights.
  void zero_others(offset_pointer<float> begin, std::size_t first, std::size_t last) const {
    std::size_t at = first;
    for (const matrix& m : matrices_) {
      if (m.offset < first || m.offset >= last) continue;
      zero_range(begin, at, m.offset);
      at = m.offset + static_cast<std::size_t>(m.outputs * m.inputs);
    }
    zero_range(begin, at, last);
  }
  void zero_range(offset_pointer<float> begin, std::size_t first, std::size_t last) const {
    if (first < last) device_->fill_zero(begin + first, (last - first) * sizeof(float));
  }
  std::pair<std::size_t, std::size_t> range_of(std::size_t unit) const {
    return {unit == 0 ? 0 : ends_[unit - 1], ends_[unit]};
  }
  /// Allocates memory for the gradients of a unit; zeroes all but linear weights.
  offset_pointer<float> take_unit(std::size_t unit) {
    const auto [first, last] = range_of(unit);
    const std::size_t n = last - first;
    const auto fits = [n](const auto& b) { return b.size() >= n && b.size() <= 2 * n; };
    const auto idle = std::find_if(idle_.begin(), idle_.end(), fits);
    unit_memory_[unit] = idle == idle_.end() ? buffer<float, Device>(*device_, n) : std::move(*idle);
    if (idle != idle_.end()) idle_.erase(idle);
    zero_others(gradients_of_unit(unit), first, last);
    return gradients_of_unit(unit);
  }
  void settle() const {
    reserve();
    if (!std::exchange(zero_, false)) return;
    zero_range(flat_.data(), 0, size_);
    head_sums_.zero();
  }
  void reserve() const {
    if (flat_.size() != size_) flat_ = buffer<float, Device>(*device_, size_);
  }

  Device* device_;
  std::size_t size_;
  mutable buffer<float, Device> flat_;
  mutable bool zero_ = false;  // flat_ counts as 0, regardless of its content
  extent_t width_;
  bool tied_, apart_;                    // apart_: the sums over input rows are sent to the stage of the head
  std::array<std::int32_t, 2> without_;  // tokens whose embedding gets no gradient; -1: none
  slice vocabulary_;
  bool partial_;  // this rank has only a part of the vocabulary
  head_sums<Device> head_sums_;
  std::vector<matrix> matrices_;           // linear weights by offset
  std::vector<std::int32_t> ids_, place_;  // distinct input tokens in order of appearance; their index, -1: none
  buffer<std::int32_t, Device> device_ids_;
  buffer<float, Device> input_sum_, head_sum_;
  std::vector<float> balance_;
  unit_sink* sink_ = nullptr;
  std::span<const std::size_t> ends_;
  std::vector<buffer<float, Device>> unit_memory_, idle_;
  std::optional<expert_sums<Device>> expert_sums_;
  bool together_ = false;
  std::size_t experts_begin_ = 0;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class gradients<cpu>;
extern template class gradients<any_device>;
}  // namespace nn
RLCORE_END
#endif
