// Inference forward pass: last hidden states of selected rows, in the memory of one layer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/nn/layer/embedding.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/packed_batch.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/nn/parallel/pipeline_link.hpp"
#include "rlcore/nn/vision/image_rows.hpp"

RLCORE_BEGIN
namespace nn {

/// The normed hidden states [count, hidden] of `rows` of the packed batch, or of this rank's part of them if the
/// workspace has a context group, and the pass that the head belongs to. Sharded weights are gathered unit by unit,
/// those of the head for the lifetime of this object. A rank without rows still takes part in collectives. In a stage
/// that is not the last of a pipeline there is nothing to read: the hidden states go to the next stage.
template <class Device>
struct normed_rows {
  std::optional<context_pass<Device>> context;
  nn::pass<Device> pass;
  extent_t count = 0;
  const float* normed = nullptr;

  /// The forward pass. It resets `space`; `rows` are rows of the packed batch. Throws std::invalid_argument for ids
  /// outside of the vocabulary and rows outside of the batch.
  normed_rows(const causal_lm<Device>& model, workspace<Device>& space, const input& sequences,
              std::span<const std::int32_t> rows)
      : pass{model.device(), space},
        link_(model.pipeline()),
        units_(model.units()),
        layers_(model.blocks().size()),
        tied_(model.settings().tied()) {
    space.reset();
    pass.context = share_sequences(context, model, space, sequences.tokens, rows);
    const packed_batch<Device> batch(model, space, sequences, rows, pass.context);
    if (rows.empty()) {
      if (units_) idle_scoring(*units_, layers_, tied_, embeds(), !passed_on());
      return;
    }
    if (context) rows = context->targets().rows();
    const auto n = count = static_cast<extent_t>(rows.size());
    if (!units_) pass.weights = model.weights().data(), pass.packed = model.packed();
    pass.tokens = batch.tokens, pass.positions = batch.positions, pass.choices = batch.choices;
    const auto h = static_cast<extent_t>(model.settings().hidden_size);
    float *x = space.template take<float>(batch.tokens * h), *y = space.template take<float>(batch.tokens * h);
    pass.tensor = model.tensor();
    if (model.part().expert_size > 1 && !model.part().experts_by_tensor) pass.expert = space.experts;
    const bool has_head = !link_ || link_->last();
    const auto between = [&](float* h_rows) { return stage_rows{h_rows, batch.tokens, h, sequences.tokens}; };
    if (link_ && !link_->first())
      receive_rows(model.device(), *link_, between(x));
    else
      with_unit(unit_number::embedding, sequences.shows_images(), [&] {
        embed(
            model, pass, x,
            context ? std::span<const std::int32_t>(space.ids) : std::span<const std::int32_t>(sequences.tokens.values),
            batch.ids);
        image_rows<Device>().show(model, pass, sequences, x, true, false);
      });
    const extent_t most = std::max(batch.tokens, n);
    const block_activations a = take_for_any(model.blocks(), space, most, most);
    const bool helps = context && batch.tokens == 0;  // this rank has no rows of the sequences
    float* last = helps ? nullptr : space.template take<float>(n * h);
    for (std::size_t l = 0; l < layers_; ++l)
      with_unit(unit_of_layer(l), true, [&] {
        const block& b = model.blocks()[l];
        if (helps) {
          context->forward({}), b.idle_forward(pass, a);
        } else if (l + 1 < layers_ || !has_head) {
          b.forward(pass, a, y, x, place_in_rows(space, b.self_attention));
          std::swap(x, y);
        } else {
          if (pass.choices.ids) pass.choices = choices_of(rows, pass.choices, space.replayed_rows);
          b.forward_rows(pass, a, last, x, place_in_rows(space, b.self_attention), space.take_copy(rows.data(), n), n);
        }
      });
    if (!has_head) {
      send_rows(model.device(), *link_, between(x));
      return;
    }
    enter(unit_of_layer(layers_), true);
    top_ = units_ != nullptr;
    if (!helps) normed = model.head().normed(pass, last, n).normed;
    if (tied_) enter(unit_number::embedding, true);
  }
  normed_rows(const normed_rows&) = delete;
  normed_rows& operator=(const normed_rows&) = delete;
  ~normed_rows() {
    if (!top_) return;
    units_->leave(unit_of_layer(layers_));
    if (tied_) units_->leave(unit_number::embedding);
  }

  /// Has the next stage of a pipeline the hidden states?
  bool passed_on() const noexcept { return link_ && !link_->last(); }

  /// This rank's part of a host list with one value per entry of `rows`.
  std::span<const std::int32_t> local(std::span<const std::int32_t> values) {
    if (!context) return values;
    context->targets().choose(values, local_);
    return local_;
  }
  /// The rows of this rank's targets.
  const ragged<std::int32_t>& local(const ragged<std::int32_t>& mask) {
    return !context || mask.empty() ? mask : local_mask_.emplace(rows_of(mask, context->targets().local()));
  }
  /// Gathers the results of all rows. `computed` [count] are those of this rank.
  void download(std::span<float> results, const float* computed) {
    pass.device.download(results.data(), computed, static_cast<std::size_t>(count) * sizeof(float));
    gather(results);
  }
  /// On entry the first `count` results are those of this rank; on return the results are those of all selected rows.
  template <class T>
  void gather(std::span<T> results) {
    if (!context) return;
    const std::vector<T> mine(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(count));
    context->gather(std::span<const T>(mine), results);
  }

 private:
  /// The choices of these rows.
  static expert_choices choices_of(std::span<const std::int32_t> rows, const expert_choices& all,
                                   std::vector<std::int16_t>& to) {
    to.clear();
    for (const std::int32_t row : rows) to.insert(to.end(), all.from(row).ids, all.from(row).ids + all.per_row);
    return {to.data(), all.per_row, all.before};
  }
  bool embeds() const { return !link_ || link_->first(); }
  /// The unit of layer l of this stage; of the head after the last. Models whose units are gathered in stages are not
  /// tied.
  std::size_t unit_of_layer(std::size_t l) const { return l + (embeds() ? 1 : 0); }
  void enter(std::size_t unit, bool packed) {
    if (!units_) return;
    const unit_view v = units_->enter(unit, packed);
    pass.weights = v.weights, pass.packed = v.packed;
  }
  template <class F>
  void with_unit(std::size_t unit, bool packed, F&& f) {
    enter(unit, packed);
    f();
    if (units_) units_->leave(unit);
  }

  pipeline_link* link_;
  unit_source* units_;
  std::size_t layers_;
  bool tied_, top_ = false;  // has the head been entered?
  std::vector<std::int32_t> local_;
  std::optional<ragged<std::int32_t>> local_mask_;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template struct normed_rows<cpu>;
extern template struct normed_rows<any_device>;
}  // namespace nn
RLCORE_END
#endif
