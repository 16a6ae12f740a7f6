// Qwen2.5-VL vision tower: patches -> blocks with window or full attention -> one row per token; forward and backward
// pass.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/nn/layer/block.hpp"
#include "rlcore/nn/layer/linear.hpp"
#include "rlcore/nn/layer/norm.hpp"
#include "rlcore/nn/model/active_rows.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/vision/positions.hpp"
#include "rlcore/nn/vision/vision_config.hpp"

RLCORE_BEGIN
namespace nn {

/// The layout of the tower's parameters in the model. Merger: norm, the patches of a token side by side, a linear
/// layer, GELU, a linear layer to the width of the language model.
struct vision_tower {
  vision_config settings;
  linear patch_embed;
  std::vector<block> blocks;
  norm merger_norm;
  linear merger_input, merger_output;

  vision_tower() = default;
  /// add(name, shape) returns where the parameter of Hugging Face's name begins. Throws config_error.
  template <class Add>
  vision_tower(const vision_config& c, Add&& add) : settings(c) {
    check_settings(c);
    const std::int64_t h = c.hidden_size, wide = h * c.merged();
    const auto layer = [&](const std::string& name, std::int64_t outputs, std::int64_t inputs) {
      const std::size_t weight = add(name + ".weight", {outputs, inputs});
      return linear{weight, add(name + ".bias", {outputs}), outputs, inputs};
    };
    patch_embed = {
        add("visual.patch_embed.proj.weight", {h, c.in_channels, c.temporal_patch_size, c.patch_size, c.patch_size}),
        no_parameter, h, c.patch()};
    for (std::int64_t l = 0; l < c.depth; ++l) {
      const std::string name = "visual.blocks." + std::to_string(l) + ".";
      block b;
      b.input_norm = {add(name + "norm1.weight", {h}), h, 1, c.rms_norm_eps};
      b.post_attention_norm = {add(name + "norm2.weight", {h}), h, 1, c.rms_norm_eps};
      b.self_attention.qkv = layer(name + "attn.qkv", 3 * h, h);
      b.self_attention.output = layer(name + "attn.proj", h, h);
      b.self_attention.shape = {c.num_heads, c.num_heads, c.head_dim(),
                                static_cast<float>(1 / std::sqrt(static_cast<double>(c.head_dim()))), false};
      // One product computes gate and up: weights side by side, then biases.
      const std::size_t gate = add(name + "mlp.gate_proj.weight", {c.intermediate_size, h});
      add(name + "mlp.up_proj.weight", {c.intermediate_size, h});
      const std::size_t gate_bias = add(name + "mlp.gate_proj.bias", {c.intermediate_size});
      add(name + "mlp.up_proj.bias", {c.intermediate_size});
      b.feed_forward.gate_up = {gate, gate_bias, 2 * c.intermediate_size, h};
      b.feed_forward.down = layer(name + "mlp.down_proj", h, c.intermediate_size);
      blocks.push_back(std::move(b));
    }
    merger_norm = {add("visual.merger.ln_q.weight", {h}), h, 1, c.rms_norm_eps};
    merger_input = layer("visual.merger.mlp.0", wide, wide);
    merger_output = layer("visual.merger.mlp.2", c.out_hidden_size, wide);
  }

  /// Calls f(linear) for the layers that support LoRA: all but patch_embed, which is a convolution.
  template <class F>
  void for_adaptable(F&& f) const {
    for (const block& b : blocks) b.for_linears(f);
    if (!blocks.empty()) f(merger_input), f(merger_output);
  }
  /// Calls f(linear) for all linear layers, in the order of their weights.
  template <class F>
  void for_linears(F&& f) {
    f(patch_embed);
    for (block& b : blocks) b.for_linears(f);
    f(merger_input), f(merger_output);
  }
};

/// The tower's rows of images. Uses the device memory of `space`, a separate workspace, during its lifetime.
/// `recompute` keeps only each block's input; without `differentiable` it keeps nothing and has no backward. An image's
/// rows do not depend on other images.
template <class Device>
class vision_pass {
 public:
  /// Forward, with the weights of `model`, which the linear layers read packed. Throws std::invalid_argument for a
  /// image whose sides are no multiples of spatial_merge_size or whose patches are of another number.
  vision_pass(const vision_tower& tower, Device& device, workspace<Device>& space, offset_pointer<const float> weights,
              packed_view packed, std::span<const image_patches> images, bool recompute, bool differentiable = true)
      : tower_(tower),
        space_(space),
        recompute_(recompute || !differentiable),
        differentiable_(differentiable),
        pass_{device, space, weights, packed} {
    const vision_config& c = tower.settings;
    space.reset();
    std::vector<patch_grid> grids;
    for (const image_patches& each : images) grids.push_back(each.grid), check(each, c);
    order_ = order_by_windows(grids, c);
    const extent_t t = pass_.tokens = static_cast<extent_t>(order_.row.size()), h = c.hidden_size;
    turn();
    patches_ = upload(images);
    inputs_ = space.template take<float>(static_cast<extent_t>(differentiable ? tower.blocks.size() + 1 : 2) * t * h);
    tower.patch_embed.forward(pass_, x(0), patches_, t);
    space.kept.clear();
    for (std::size_t l = 0; l < (recompute_ ? 1 : tower.blocks.size()); ++l)
      space.kept.push_back(tower.blocks[l].take(space, t));
    for (std::size_t l = 0; l < tower.blocks.size(); ++l) forward(l, x(l + 1));
    merge();
  }

  /// Tokens of all images.
  extent_t tokens() const noexcept { return static_cast<extent_t>(order_.token.size()); }
  /// [tokens(), out_hidden_size], device memory; one image after the other, each in raster order.
  const float* rows() const noexcept { return rows_; }

  /// Sets the address of the weights.
  void move_weights(offset_pointer<const float> weights, packed_view packed) noexcept {
    pass_.weights = weights, pass_.packed = packed;
  }

  /// Adds the gradient of the tower's parameters, given that of rows(), to `gradients`. With `first` the gradients of
  /// linear weights are uninitialised. With LoRA `gradients` is null and `adapter` is set. Throws std::logic_error
  /// unless the pass is differentiable.
  void backward(offset_pointer<float> gradients, bool first, const float* drows,
                const adapter_pass* adapter = nullptr) {
    if (!differentiable_) throw std::logic_error("rlcore: vision_pass: backward of a pass that kept nothing for it");
    const vision_config& c = tower_.settings;
    const extent_t t = pass_.tokens, n = tokens(), wide = c.hidden_size * c.merged();
    Device& device = pass_.device;
    pass_.gradients = gradients, pass_.first = first;
    const adapter_pass in_patches = adapter ? of_patches(*adapter) : adapter_pass{};
    pass_.adapter = adapter ? &in_patches : nullptr;
    float* const slopes = space_.template take<float>(n * c.out_hidden_size);
    device.run(op::gather_rows{.y = slopes,
                               .x = drows,
                               .x_rows = n,
                               .ids = space_.take_copy(order_.token.data(), n),
                               .count = n,
                               .width = c.out_hidden_size});
    tower_.merger_output.backward(pass_, middle_, slopes, activated_, n);
    device.run(op::gelu_backward{.dx = middle_, .dy = middle_, .x = before_, .n = n * wide});
    float* const dx = space_.template take<float>(t * c.hidden_size);
    tower_.merger_input.backward(pass_, dx, middle_, normed_, n);
    tower_.merger_norm.backward(device, pass_.weights, gradients, dx, dx, c.hidden_size, x(tower_.blocks.size()),
                                c.hidden_size, rstd_, t, false);
    const block_scratch scratch = tower_.blocks.front().take_scratch(space_, t);
    float* const again = recompute_ ? space_.template take<float>(t * c.hidden_size) : nullptr;
    for (std::size_t l = tower_.blocks.size(); l-- > 0;) {
      if (recompute_) forward(l, again);
      const block& b = tower_.blocks[l];
      see(l);
      b.backward(pass_, kept(l), scratch, dx, x(l), place_in_rows(space_, b.self_attention),
                 place_gradients_in_rows(space_, b.self_attention));
    }
    tower_.patch_embed.backward(pass_, nullptr, dx, patches_, t);
    device.wait();
    pass_.adapter = nullptr;
  }

 private:
  /// The same adapters with memory for as many rows as there are patches.
  adapter_pass of_patches(adapter_pass adapter) {
    extent_t rank = 0;
    tower_.for_adaptable([&](const linear& l) { rank = std::max(rank, adapter.linears[l.number].rank); });
    adapter.u = space_.template take<float>(pass_.tokens * rank);
    adapter.du = space_.template take<float>(pass_.tokens * rank);
    return adapter;
  }
  static void check(const image_patches& each, const vision_config& c) {
    const patch_grid& g = each.grid;
    if (g.height <= 0 || g.width <= 0 || g.height % c.spatial_merge_size != 0 || g.width % c.spatial_merge_size != 0 ||
        static_cast<std::int64_t>(each.patches.size()) != g.height * g.width * c.patch())
      throw std::invalid_argument("rlcore: an image of " + std::to_string(g.height) + " x " + std::to_string(g.width) +
                                  " patches with " + std::to_string(each.patches.size()) + " floats; a patch has " +
                                  std::to_string(c.patch()) + ", and sides are multiples of " +
                                  std::to_string(c.spatial_merge_size));
  }
  /// A quarter of a head's components turns with the row, the next with the column, and the halves are paired.
  void turn() {
    const vision_config& c = tower_.settings;
    const auto quarter = static_cast<extent_t>(c.head_dim() / 4);
    const auto inverse = make_rope_frequencies(c.rope_theta, quarter, {}).inverse;
    std::vector<float> angles;
    std::vector<std::int32_t> own;
    for (std::size_t i = 0; i < order_.row.size(); ++i) {
      own.push_back(static_cast<std::int32_t>(i));
      for (const std::int32_t at : {order_.row[i], order_.column[i]})
        for (const float f : inverse) angles.push_back(static_cast<float>(at) * f);
    }
    space_.set_rope(angles, 2 * quarter);
    pass_.positions = space_.take_copy(own.data(), pass_.tokens);
  }
  /// The patches in window order.
  const float* upload(std::span<const image_patches> images) {
    const auto patch = static_cast<std::size_t>(tower_.settings.patch() * tower_.settings.merged());
    std::vector<const float*> token;
    for (const image_patches& each : images)
      for (std::size_t at = 0; at < each.patches.size(); at += patch) token.push_back(each.patches.data() + at);
    std::vector<float> ordered;
    ordered.reserve(token.size() * patch);
    for (const std::int32_t number : order_.token) {
      const float* const from = token[static_cast<std::size_t>(number)];
      ordered.insert(ordered.end(), from, from + patch);
    }
    return space_.take_copy(ordered.data(), static_cast<extent_t>(ordered.size()));
  }
  void see(std::size_t l) {
    space_.segments = tower_.settings.full(static_cast<std::int64_t>(l)) ? order_.images : order_.windows;
  }
  const block_activations& kept(std::size_t l) const { return space_.kept[recompute_ ? 0 : l]; }
  float* x(std::size_t l) const {
    return inputs_ + static_cast<extent_t>(differentiable_ ? l : l % 2) * pass_.tokens * tower_.settings.hidden_size;
  }
  void forward(std::size_t l, float* y) {
    const block& b = tower_.blocks[l];
    see(l);
    b.forward(pass_, kept(l), y, x(l), place_in_rows(space_, b.self_attention));
  }
  void merge() {
    const vision_config& c = tower_.settings;
    const extent_t t = pass_.tokens, n = tokens(), h = c.hidden_size, wide = h * c.merged();
    normed_ = space_.template take<float>(t * h);
    rstd_ = space_.template take<float>(t);
    before_ = space_.template take<float>(n * wide);
    activated_ = space_.template take<float>(n * wide);
    middle_ = space_.template take<float>(n * wide);
    float* const merged = space_.template take<float>(n * c.out_hidden_size);
    rows_ = space_.template take<float>(n * c.out_hidden_size);
    tower_.merger_norm.forward(pass_.device, pass_.weights, normed_, h, x(tower_.blocks.size()), h, rstd_, t);
    tower_.merger_input.forward(pass_, before_, normed_, n);
    pass_.device.run(op::gelu_forward{.y = activated_, .x = before_, .n = n * wide});
    tower_.merger_output.forward(pass_, merged, activated_, n);
    pass_.device.run(op::gather_rows{.y = rows_,
                                     .x = merged,
                                     .x_rows = n,
                                     .ids = space_.take_copy(order_.place.data(), n),
                                     .count = n,
                                     .width = c.out_hidden_size});
  }

  const vision_tower& tower_;
  workspace<Device>& space_;
  bool recompute_, differentiable_;
  nn::pass<Device> pass_;
  window_order order_;
  const float* patches_ = nullptr;
  float *inputs_ = nullptr, *normed_ = nullptr, *rstd_ = nullptr, *before_ = nullptr, *activated_ = nullptr,
        *middle_ = nullptr, *rows_ = nullptr;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class vision_pass<cpu>;
extern template class vision_pass<any_device>;
}  // namespace nn
RLCORE_END
#endif
