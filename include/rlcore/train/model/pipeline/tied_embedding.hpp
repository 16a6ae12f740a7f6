// A tied embedding whose two uses are in different stages of a pipeline.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/parallel/reduction/gradient_sums.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/train/model/strategy/step_gradient.hpp"

RLCORE_BEGIN
namespace train {

/// Takes the gradients of leaves for a stage. The last stage owns a tied embedding: it adds the sums over input rows,
/// which the first stage sends per leaf, to its sums over target rows, as one rank does, before it hands the leaf over.
/// It keeps leaves for as many passes as there are other stages, so that it need not wait for the first stage. The
/// first stage gets the updated values. Other stages, and models without a tied embedding, end leaves at once.
template <class Device>
class tied_embedding {
 public:
  /// `model` is a stage's part; both must outlive this object. Without `trained` the embedding is frozen.
  tied_embedding(nn::causal_lm<Device>& model, parallel::world& w, bool trained)
      : model_(&model),
        stages_(&w.pipeline()),
        sends_(trained && model.copies_embedding()),
        receives_(trained && model.settings().tied() && model.part().stage.has_head()) {}

  /// Does the model have such an embedding, trained, at this end of the pipeline?
  explicit operator bool() const noexcept { return sends_ || receives_; }
  /// The gradient of a leaf is complete; it is 0 afterwards.
  void take(std::size_t round, step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums) {
    if (sends_) send_inputs(gradient);
    if (!receives_) return gradient.hand_over(sums, round);
    waiting& leaf = waiting_.emplace_back();
    leaf.round = round;
    gradient.take(leaf.gradient.emplace(), sums.spare());
  }
  /// A pass has ended: hands over the leaves that the first stage has ended by now, its passes being one for each stage
  /// between later.
  void end_pass(parallel::gradient_sums<Device>& sums) {
    for (waiting& leaf : waiting_) ++leaf.passes;
    while (!waiting_.empty() && waiting_.front().passes >= stages_->size()) complete_first(sums);
  }
  /// A round in which this rank has no rows.
  void skip(std::size_t round, parallel::gradient_sums<Device>& sums) {
    if (waiting_.empty()) return sums.skip(round);
    waiting_.emplace_back().round = round;
  }
  /// After all rounds.
  void complete(parallel::gradient_sums<Device>& sums) {
    while (!waiting_.empty()) complete_first(sums);
  }
  /// After an update of all stages.
  void copy_weights() {
    if (!sends_ && !receives_) return;
    const std::size_t size = sends_ ? model_->parameters().back().size : model_->parameters().front().size;
    float* const values = model_->weights().data() + model_->embedding_offset();
    for (std::size_t at = 0; at < size; at += bucket) {
      const std::size_t n = std::min(bucket, size - at);
      if (receives_) {
        const float* from = parallel::host_view(model_->device(), static_cast<const float*>(values) + at, n, staged_);
        stages_->send(std::span<const float>(from, n), 0);
      } else {
        parallel::with_host_view(model_->device(), values + at, n, staged_, [&](std::span<float> to) {
          stages_->receive(to, stages_->size() - 1, stages_->size());
        });
      }
    }
  }

 private:
  static constexpr std::size_t bucket = std::size_t{1} << 22;
  struct waiting {
    std::size_t round = 0;
    int passes = 0;                                   // ended since, its last one included
    std::optional<buffer<float, Device>> gradient{};  // empty: no rows
  };

  void send_inputs(step_gradient<Device>& gradient) {
    gradient.of_weights().take_inputs(ids_, sums_);
    const std::uint64_t count = ids_.size();
    const int last = stages_->size() - 1;
    stages_->send(std::span<const std::uint64_t>(&count, 1), last);
    stages_->send(std::span<const std::int32_t>(ids_), last);
    stages_->send(std::span<const float>(sums_), last);
  }
  /// Adds the received sums to the gradient of the embedding, the first parameter of the last stage.
  void add_inputs(float* gradient) {
    if (ids_.empty()) return;
    Device& device = model_->device();
    buffer<std::int32_t, Device> ids(device, ids_.size());
    buffer<float, Device> sums(device, sums_.size());
    device.upload(ids.data(), ids_.data(), ids_.size() * sizeof(std::int32_t));
    device.upload(sums.data(), sums_.data(), sums_.size() * sizeof(float));
    device.run(op::scatter_add_rows{.y = gradient,
                                    .x = sums.data(),
                                    .ids = {ids.data(), extent_t{*std::ranges::max_element(ids_)} + 1},
                                    .count = static_cast<extent_t>(ids_.size()),
                                    .width = static_cast<extent_t>(model_->settings().hidden_size)});
    device.wait();
  }
  void complete_first(parallel::gradient_sums<Device>& sums) {
    waiting leaf = std::move(waiting_.front());
    waiting_.pop_front();
    if (!leaf.gradient) return sums.skip(leaf.round);
    std::uint64_t count = 0;
    const int patience = 2 * stages_->size();
    stages_->receive(std::span<std::uint64_t>(&count, 1), 0, patience);
    ids_.resize(count);
    sums_.resize(count * static_cast<std::size_t>(model_->settings().hidden_size));
    stages_->receive(std::span<std::int32_t>(ids_), 0, patience);
    stages_->receive(std::span<float>(sums_), 0, patience);
    add_inputs(leaf.gradient->data());
    sums.take(leaf.round, *leaf.gradient);
    sums.give_back(std::move(*leaf.gradient));
  }

  nn::causal_lm<Device>* model_;
  parallel::any_communicator* stages_;
  bool sends_, receives_;
  std::deque<waiting> waiting_;
  std::vector<std::int32_t> ids_;
  std::vector<float> sums_, staged_;
};

}  // namespace train
RLCORE_END
