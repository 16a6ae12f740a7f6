// Transformer backbone of a training pass: embedding and layers up to the last hidden states.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/nn/layer/embedding.hpp"
#include "rlcore/nn/model/active_rows.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/packed_batch.hpp"
#include "rlcore/nn/parallel/pipeline_link.hpp"
#include "rlcore/nn/vision/image_rows.hpp"

RLCORE_BEGIN
namespace nn {

/// One forward pass over packed sequences up to the normed hidden states of selected rows, and the backward pass from
/// their gradient. Uses the device memory of `space` during its lifetime. `recompute` (activation checkpointing) keeps
/// only each layer's input and recomputes the layer in its backward. With a context group, each rank processes its own
/// rows and targets; gather() and find_active() exchange the results. Stages of a pipeline pass hidden states on and
/// their gradients back; only the last has selected rows and a head.
template <class Device>
class backbone {
 public:
  /// Forward. `rows` are rows of the packed batch and must outlive this.
  backbone(const causal_lm<Device>& model, workspace<Device>& space, const input& sequences,
           std::span<const std::int32_t> rows, bool recompute)
      : model_(model),
        space_(space),
        in_(sequences),
        recompute_(recompute),
        width_(static_cast<extent_t>(model.settings().hidden_size)),
        pass_{model.device(), space},
        link_(model.pipeline()),
        units_(model.units() ? model.units() : space.units) {
    space.reset();
    pass_.context = share_sequences(context_, model, space, in_.tokens, rows);
    wanted_ = context_ ? context_->targets().rows() : rows;
    count_ = static_cast<extent_t>(wanted_.size());
    const packed_batch<Device> batch(model, space, in_, rows, pass_.context);
    if (!units_) pass_.weights = model.weights().data(), pass_.packed = model.packed();
    pass_.tokens = batch.tokens, pass_.positions = batch.positions, pass_.choices = batch.choices;
    if (model.settings().has_experts() && space.experts && space.experts->size() > 1) pass_.expert = space.experts;
    share_rows();
    const std::span<const block> blocks = model.blocks();
    inputs_ = space.template take<float>(static_cast<extent_t>(blocks.size() + 1) * own_rows(pass_) * width_);
    space.kept.clear();
    if (recompute) space.kept.push_back(take_for_any(blocks, space, batch.tokens, own_rows(pass_)));
    for (std::size_t l = 0; l < blocks.size() && !recompute; ++l)
      space.kept.push_back(blocks[l].take(space, batch.tokens, own_rows(pass_)));
    if (is_first()) {
      enter(unit_number::embedding, in_.shows_images());
      embed(model, pass_, x(0), host_ids(), batch.ids);
      images_.show(model, pass_, in_, x(0), recompute);
      leave(unit_number::embedding);
    } else {
      receive_rows(pass_.device, *link_, between(x(0)));
    }
    space.routed.reset(static_cast<std::size_t>(model.settings().num_experts));
    pass_.routed = &space.routed, pass_.choices.chosen_ids = batch.take_chosen_experts(space);
    for (std::size_t l = 0; l < blocks.size(); ++l) {
      enter(unit_number::layer(l));
      const block_activations& a = space.kept[recompute ? 0 : l];
      const typename workspace<Device>::scope scope(space_, drops_routed_tokens());
      if (batch.tokens > 0 || !context_)
        blocks[l].forward(pass_, a, x(l + 1), x(l), place_in_rows(space, blocks[l].self_attention));
      else
        context_->forward({}), blocks[l].idle_forward(pass_, a);
      if (units_) units_->pause(unit_number::layer(l));
    }
    if (!is_last()) send_rows(pass_.device, *link_, between(x(blocks.size())));
    if (is_last()) enter_top();
    pass_.routed = nullptr, pass_.choices.chosen_ids = nullptr;
    if (context_ && space.routed.experts() > 0) batch.gather_routes(space, in_, *context_);
    if (!is_last()) return;
    row_ = space.take_copy(wanted_.data(), count_);
    top_ = model.head().gather(pass_, all_rows(pass_, x(blocks.size()), share_.whole, width_), row_, count_);
  }

  /// The pass of the head.
  const nn::pass<Device>& pass() const noexcept { return head_ ? *head_ : pass_; }
  /// The rows, all of them until begin_backward(), then the active ones.
  extent_t count() const noexcept { return count_; }
  const head_activations& top() const noexcept { return top_; }

  /// This rank's part of a host list with one value per selected row.
  std::span<const std::int32_t> local(std::span<const std::int32_t> values) {
    if (!context_) return values;
    context_->targets().choose(values, local_);
    return local_;
  }
  /// The rows of this rank's targets.
  const ragged<std::int32_t>& local(const ragged<std::int32_t>& mask) {
    return !context_ || mask.empty() ? mask : local_mask_.emplace(rows_of(mask, context_->targets().local()));
  }
  /// The inverse: all-gathers the values of each rank's rows into those of all `count` selected rows.
  void gather(std::vector<float>& values, std::size_t count) {
    if (!context_) return;
    std::vector<float> gathered(count);
    context_->gather(std::span<const float>(values), std::span<float>(gathered));
    values.swap(gathered);
  }
  /// Fills space.active with the selected rows that have a gradient, and space.ranges with their sequences. A row has a
  /// gradient if any of `slopes` is nonzero for it. Each of `slopes` has a value for every selected row on entry, and
  /// only this rank's values on return. With `everywhere` all sequences have a gradient (load-balancing loss). Returns
  /// whether any rank has a gradient.
  bool find_active(std::initializer_list<std::vector<float>*> slopes, bool everywhere) {
    everywhere = everywhere || pass_.expert;  // other ranks may have a gradient
    const auto has_gradient = [&](std::size_t i) {
      return std::any_of(slopes.begin(), slopes.end(), [i](const auto* s) { return (*s)[i] != 0; });
    };
    if (!context_) {
      find_active_rows(space_, wanted_, has_gradient);
      if (everywhere) space_.ranges.assign(1, {0, space_.segments.size()});
      return everywhere || !space_.active.empty();
    }
    if (everywhere)
      space_.ranges.assign(1, {0, in_.tokens.rows()});
    else
      context_->targets().find_ranges(space_.ranges, has_gradient);
    std::vector<float> part;
    for (std::vector<float>* s : slopes) {
      context_->targets().choose(std::span<const float>(*s), part);
      s->swap(part);
    }
    space_.active.clear();
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      if (has_gradient(i)) space_.active.push_back(static_cast<std::int32_t>(i));
    return !space_.ranges.empty();
  }

  /// After find_active(). From here on only the active rows count, and the pass adds to `grads`.
  template <class Gradients>
  void begin_backward(Gradients& grads) {
    if (model_.packed_alone())
      throw std::logic_error("rlcore: a model whose weights are packed alone has no gradients");
    const auto m = static_cast<extent_t>(space_.active.size());
    if (context_) context_->begin_backward();
    if (has_active_sequences()) {
      grads.begin(pass_);
      begin_head(grads);
      const linear& top = model_.head().output;
      if (m == 0 && pass_.first)  // no later pass overwrites it
        pass_.device.fill_zero(pass().gradients + top.weight,
                               static_cast<std::size_t>(top.outputs * top.inputs) * sizeof(float));
    }
    if (m == count_) return;
    active_ = space_.take_copy(space_.active.data(), m);
    count_ = m;
    top_ = {chosen(top_.rows, width_), chosen(top_.rstd, 1), chosen(top_.normed, width_)};
    row_ = chosen(wanted_);
  }
  /// The active rows of device memory [all rows, width], or of a host list with one value per row.
  float* chosen(float* from, extent_t width) {
    if (active_ == nullptr) return from;
    float* to = space_.template take<float>(count_ * width);
    pass_.device.run(op::gather_rows{
        .y = to, .x = from, .x_rows = std::ssize(wanted_), .ids = active_, .count = count_, .width = width});
    return to;
  }
  /// Uploads the active rows' entries of a host list with one value per selected row.
  const std::int32_t* chosen(std::span<const std::int32_t> values) {
    space_.index.clear();
    for (const std::int32_t i : space_.active) space_.index.push_back(values[static_cast<std::size_t>(i)]);
    return space_.take_copy(space_.index.data(), count_);
  }

  /// Instead of begin_backward() and backward(), where no row has a gradient.
  template <class Gradients>
  void skip_backward(Gradients& grads) {
    leave_top();
    leave_zero(grads, unit_number::top(model_.blocks().size()));
    for (std::size_t l = model_.blocks().size(); l-- > 0;) {
      enter(unit_number::layer(l), false);
      leave(unit_number::layer(l));
      leave_zero(grads, unit_number::layer(l));
    }
    if (!is_first()) return send_gradients(pass_.device, *link_, between(nullptr), {});
    enter_tower(), leave_tower();
    leave_zero(grads, unit_number::embedding);
  }

  /// The whole backward of a stage that is not the last.
  template <class Gradients>
  void backward_of_stage(Gradients& grads) {
    float* dx = space_.template take<float>(own_rows(pass_) * width_);
    receive_gradients(pass_.device, *link_, between(dx), space_.ranges);
    if (space_.ranges.empty()) return skip_backward(grads);
    if (context_) context_->begin_backward();
    if (!has_active_sequences()) return idle_backward(grads);
    grads.begin(pass_);
    backward_of_layers(grads, dx);
  }

  /// Layers from the last to the first; dnormed [count(), hidden] is used up.
  template <class Gradients>
  void backward(Gradients& grads, float* dnormed) {
    if (!has_active_sequences()) return idle_backward(grads);
    Device& device = pass_.device;
    const extent_t t = pass_.tokens, h = width_;
    model_.head().final_norm.backward(device, pass_.weights, pass_.gradients, dnormed, dnormed, h, top_.rows, h,
                                      top_.rstd, count_, false);
    leave_top();
    if constexpr (by_units<Gradients>) grads.leave(unit_number::top(model_.blocks().size()));
    float* dx = space_.template take<float>(own_rows(pass_) * h);
    float* full_dx = pass_.share ? share_.whole : dx;
    device.fill_zero(full_dx, static_cast<std::size_t>(t * h) * sizeof(float));
    device.run(op::scatter_add_rows{.y = full_dx, .x = dnormed, .ids = {row_, t}, .count = count_, .width = h});
    if (pass_.share)
      device.run(op::copy_rows{
          .y = dx, .y_row = h, .x = full_dx + first_own_row() * h, .x_row = h, .count = own_rows(pass_), .width = h});
    backward_of_layers(grads, dx);
  }

 private:
  bool is_first() const { return !link_ || link_->first(); }
  bool is_last() const { return !link_ || link_->last(); }
  stage_rows between(float* rows) const { return {rows, own_rows(pass_), width_, in_.tokens}; }

  /// backward() in a rank that has no row of a sequence with a gradient.
  template <class Gradients>
  void idle_backward(Gradients& grads) {
    leave_top();
    leave_zero(grads, unit_number::top(model_.blocks().size()));
    for (std::size_t l = model_.blocks().size(); l-- > 0;) {
      enter(unit_number::layer(l));
      for_active_sequences(pass_, [&](const nn::pass<Device>& part, extent_t) { join_collectives_forward(part, l); });
      leave(unit_number::layer(l));
      leave_zero(grads, unit_number::layer(l));
    }
    if (!is_first()) return send_gradients(pass_.device, *link_, between(nullptr), space_.ranges);
    enter_tower(), leave_tower();
    leave_zero(grads, unit_number::embedding);
  }

  /// Layers from the last to the first, then the embedding; dx: of the last hidden states.
  template <class Gradients>
  void backward_of_layers(Gradients& grads, float* dx) {
    const extent_t h = width_;
    const std::span<const block> blocks = model_.blocks();
    const block_scratch scratch = blocks.front().take_scratch(space_, pass_.tokens);
    float* again = recompute_ ? space_.template take<float>(own_rows(pass_) * h) : nullptr;
    for (std::size_t l = blocks.size(); l-- > 0;) {
      const auto differentiate = [&](const nn::pass<Device>& part, extent_t begin) {
        const typename workspace<Device>::scope scope(space_, drops_routed_tokens());
        if (part.tokens == 0 && context_) return join_collectives_forward(part, l);
        const auto place = place_in_rows(space_, blocks[l].self_attention);
        const extent_t local_begin = own_begin(part, begin);
        const float* input = x(l) + local_begin * h;
        if (recompute_) blocks[l].forward(part, space_.kept[0], again, input, place);
        blocks[l].backward(part, recompute_ ? space_.kept[0] : rows_from(blocks[l], space_.kept[l], begin, local_begin),
                           scratch, dx + local_begin * h, input, place,
                           place_gradients_in_rows(space_, blocks[l].self_attention));
      };
      enter(unit_number::layer(l), recompute_);
      if constexpr (by_units<Gradients>) grads.enter(pass_, unit_number::layer(l));
      if (context_)
        for_active_sequences(pass_, differentiate);
      else
        for_active_rows(pass_, differentiate);
      leave(unit_number::layer(l));
      if constexpr (by_units<Gradients>) grads.leave(unit_number::layer(l));
    }
    if (!is_first()) {
      send_gradients(pass_.device, *link_, between(dx), space_.ranges);
      grads.complete_layers(pass_);
      return pass_.device.wait();
    }
    const float* const whole_dx = all_rows(pass_, dx, share_.whole, h);
    if constexpr (by_units<Gradients>) grads.enter_embedding(pass_);
    enter_tower();
    images_.backward(model_, pass_, whole_dx);
    leave_tower();
    grads.complete(pass_, host_ids(), whole_dx);
    pass_.device.wait();
  }

  /// The weights of a unit, gathered if they are sharded, and packed if passes go by units.
  void enter(std::size_t unit, bool packed = true) {
    if (!units_) return;
    const unit_view v = units_->enter(unit, packed);
    pass_.weights = v.weights, pass_.packed = v.packed;
  }
  void leave(std::size_t unit) {
    if (units_) units_->leave(unit);
  }
  void enter_top() {
    if (!units_) return;
    const std::size_t layers = model_.blocks().size();
    const bool tied = model_.settings().tied();
    enter(unit_number::top(layers));
    head_.emplace(pass_);
    if (!tied) return;
    const unit_view v = units_->enter(unit_number::embedding, true);
    head_->weights = v.weights, head_->packed = v.packed;
  }
  /// The tower is in the unit of the embedding.
  void enter_tower() {
    if (model_.trains_tower()) enter(unit_number::embedding, in_.shows_images());
  }
  void leave_tower() {
    if (model_.trains_tower()) leave(unit_number::embedding);
  }
  /// Can a unit's gradient be handed over before the other gradients are computed? Not for adapters.
  template <class Gradients>
  static constexpr bool by_units = requires(Gradients& g) { g.leave_zero(std::size_t{}); };
  template <class Gradients>
  void leave_zero(Gradients& grads, std::size_t unit) {
    if constexpr (by_units<Gradients>) grads.leave_zero(unit);
  }
  /// The gradients of the head, whose unit may differ from that of the final norm.
  template <class Gradients>
  void begin_head(Gradients& grads) {
    if constexpr (by_units<Gradients>)
      if (!head_ && grads.goes_by_units()) head_.emplace(pass_);
    if (!head_) return;
    head_->gradients = pass_.gradients, head_->first = pass_.first;
    if constexpr (by_units<Gradients>)
      head_->gradients = grads.gradients_of_unit(unit_number::output(model_.blocks().size(), model_.settings().tied()));
  }
  void leave_top() {
    if (!is_last()) return;
    leave(unit_number::top(model_.blocks().size()));
    if (model_.settings().tied()) leave(unit_number::embedding);
  }

  /// The input of layer l, or for l = layers the final hidden states.
  float* x(std::size_t l) const { return inputs_ + static_cast<extent_t>(l) * own_rows(pass_) * width_; }

  /// Sequence parallelism: this rank keeps its share of the rows between layers.
  void share_rows() {
    pass_.tensor = model_.tensor();
    if (!pass_.tensor || !pass_.tensor->sequence()) return;
    const extent_t t = pass_.tokens;
    share_ = row_share().of(*pass_.tensor, t, 0, t);
    share_.whole = space_.template take<float>(t * width_), share_.other = space_.template take<float>(t * width_);
    pass_.share = &share_;
  }
  extent_t first_own_row() const { return pass_.tokens * pass_.tensor->rank() / pass_.tensor->size(); }

  /// The tokens of this rank's rows.
  std::span<const std::int32_t> host_ids() const {
    if (context_) return space_.ids;
    return in_.tokens.values;
  }
  /// Does this rank have rows of a sequence with a gradient?
  bool has_active_sequences() { return !context_ || pass_.expert || has_rows_in_ranges(*context_, space_); }
  /// A layer's backward in a rank without rows.
  void join_collectives_forward(const nn::pass<Device>& part, std::size_t l) {
    const block& b = model_.blocks()[l];
    const block_activations& a = space_.kept[recompute_ ? 0 : l];
    if (recompute_) context_->forward({}), b.idle_forward(part, a);
    zero_linears(part, b);
    b.join_collectives_backward(part, a);
    context_->backward({}, nullptr, nullptr);
  }
  /// Does a layer free the memory of rows received from other ranks? It does with recompute.
  bool drops_routed_tokens() const { return recompute_ && pass_.expert; }

  const causal_lm<Device>& model_;
  workspace<Device>& space_;
  const input in_;
  image_rows<Device> images_;
  std::span<const std::int32_t> wanted_;
  bool recompute_;
  extent_t count_ = 0, width_;
  nn::pass<Device> pass_;
  row_share share_;
  std::optional<context_pass<Device>> context_;
  std::vector<std::int32_t> local_;
  std::optional<ragged<std::int32_t>> local_mask_;
  pipeline_link* link_;
  unit_source* units_;
  std::optional<nn::pass<Device>> head_;  // if the head's weights or gradients belong to another unit
  float* inputs_ = nullptr;
  const std::int32_t *row_ = nullptr, *active_ = nullptr;
  head_activations top_;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class backbone<cpu>;
extern template class backbone<any_device>;
}  // namespace nn
RLCORE_END
#endif
