// LoRA: low-rank adapters of linear layers (Hu et al. 2021), merged into the model's weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/vision/vision_config.hpp"

RLCORE_BEGIN
namespace nn {

/// A and B of every adapted projection, and the head of a score model, in one flat buffer for the optimizer. The
/// model's weights are always W = base + (alpha / rank) B A; after a step merge() recomputes them from a copy of the
/// base, so that no error accumulates. Forward passes, sampling and scoring use the merged weights.
template <class Device>
class lora {
 public:
  /// One projection, with offsets in the model's weights and in values().
  struct projection {
    std::size_t weight = 0, base = 0, a = 0, b = 0;
    extent_t outputs = 0, inputs = 0;
  };
  /// The adapters of one linear: [begin, end) of projections(), their A from `a`, and the offset of B in wide_b().
  struct group {
    std::size_t number = 0, begin = 0, end = 0, a = 0, wide = 0, packed = 0;
    std::size_t weight = 0;  ///< of the linear in the model's weights
    extent_t outputs = 0, inputs = 0, rank = 0, chunks = 1;

    /// All A [rank, inputs], packed in the chunks that the linear's sums have.
    matrix stacked_a() const noexcept { return {a, rank, inputs, chunks}; }
  };

  /// Throws as check_lora(), and for a module that the model does not have. With "all-linear" a vision tower has
  /// adapters too, except for its convolution. A is Kaiming uniform with a = sqrt(5), that is uniform in +-1 /
  /// sqrt(inputs); value i of parameter k of the whole model depends only on (seed, k, i). B is 0. A tensor parallel
  /// rank has the columns of A, or the rows of B, that belong to its part of a weight, a stage of a pipeline the
  /// adapters of its layers, which may be none. Call attach() next.
  lora(const causal_lm<Device>& model, lora_settings settings) : lora(std::move(settings), model) {
    values_ = buffer<float, Device>(*device_, size_);
    base_ = buffer<float, Device>(*device_, base_size_);
    const auto f = device_->compute_format();
    std::size_t bytes = 0;
    for (group& g : groups_) {
      g.packed = bytes;
      bytes += packed_bytes_of(*device_, f, g.stacked_a());
    }
    packed_ = buffer<std::byte, Device>(*device_, bytes);
    wide_b_ = buffer<float, Device>(*device_, wide_size_);
    initialize();
  }

  const lora_settings& settings() const noexcept { return settings_; }
  const std::vector<std::string>& modules() const noexcept { return modules_; }
  /// "model.layers.0.self_attn.q_proj.lora_A.weight" [rank, inputs], then ...lora_B.weight [outputs, rank], and
  /// score.weight: in values().
  std::span<const parameter> parameters() const noexcept { return parameters_; }
  std::size_t size() const noexcept { return size_; }
  /// Those of all stages of a pipeline: whole tensors, which are not in values(). Otherwise parameters().
  std::span<const parameter> all_parameters() const noexcept {
    return of_stages_.empty() ? parameters() : std::span<const parameter>(of_stages_);
  }
  /// A, B and the head; call merge() after changes.
  buffer<float, Device>& values() noexcept { return values_; }
  const buffer<float, Device>& values() const noexcept { return values_; }

  /// Does the vision tower have adapters?
  bool adapts_tower() const noexcept {
    return std::ranges::any_of(parameters_, [](const parameter& p) { return p.name.starts_with("visual."); });
  }

  std::span<const projection> projections() const noexcept { return projections_; }
  std::span<const group> groups() const noexcept { return groups_; }
  extent_t rank() const noexcept { return static_cast<extent_t>(settings_.rank); }
  /// The offset of the head in values(); size() if the model has no trained head.
  std::size_t score() const noexcept { return score_; }
  /// The number of floats of all block-diagonal B.
  std::size_t wide_size() const noexcept { return wide_size_; }
  /// The block-diagonal B [outputs, rank] of a group in device memory, as the backward reads it.
  const float* wide_b(const group& g) const noexcept { return wide_b_.data() + g.wide; }
  /// group::stacked_a(), packed in the device's compute format.
  const std::byte* packed_a(const group& g) const noexcept { return packed_.data() + g.packed; }
  /// The offset of projection i's block in the group's matrix [outputs, rank].
  std::size_t wide_offset(const group& g, std::size_t i) const noexcept {
    const auto row = static_cast<extent_t>((projections_[i].weight - g.weight)) / g.inputs;
    return static_cast<std::size_t>(row * g.rank + static_cast<extent_t>(i - g.begin) * rank());
  }

  /// Takes the model's loaded weights as the base and its head as the trained head. Then calls merge().
  void attach(causal_lm<Device>& model) {
    const float* w = std::as_const(model).weights().data();
    for_tensors([&](std::size_t weight, std::size_t base, std::size_t n) { copy(base_.data() + base, w + weight, n); });
    if (score_ < size_) copy(values_.data() + score_, w + score_weight_, size_ - score_);
    merge(model);
  }

  /// Initialises A and B.
  void initialize() {
    const random_key key = random_key{settings_.seed}.child(0x6c6f7261u);
    std::vector<float> host;
    std::size_t k = 0;  // among all_parameters()
    for (const parameter& p : parameters_) {
      while (all_parameters()[k].name != p.name) ++k;
      if (p.offset >= score_) continue;
      host.assign(p.size, 0.0f);
      const double bound = 1 / std::sqrt(static_cast<double>(p.whole_shape()[1]));
      if (p.name.ends_with("lora_A.weight"))
        p.for_runs([&](std::size_t at, std::uint64_t i, std::size_t count) {
          for (; count > 0; --count, ++at, ++i)
            host[at] = static_cast<float>(
                bound * (2 * key.uniform(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                                         static_cast<std::uint32_t>(k)) -
                         1));
        });
      device_->upload(values_.data() + p.offset, host.data(), p.size * sizeof(float));
    }
  }

  /// Computes the model's weights and the matrices of the backward from base and values(). The products have float
  /// inputs for any compute type of the device.
  void merge(causal_lm<Device>& model) {
    float* w = model.weights().data();
    const extent_t r = rank();
    for (const projection& p : projections_) {
      const extent_t n = p.outputs * p.inputs;
      reserve(static_cast<std::size_t>(n + p.inputs * r), device_->packed_bytes(weight_format::float32, p.inputs, r));
      float *product = scratch_.data(), *transposed = product + n;
      for (extent_t k = 0; k < r; ++k)
        device_->run(op::copy_rows{.y = transposed + k,
                                   .y_row = r,
                                   .x = values_.data() + p.a + static_cast<std::size_t>(k * p.inputs),
                                   .x_row = 1,
                                   .count = p.inputs,
                                   .width = 1});
      device_->run(op::pack_weight{.packed = packed_scratch_.data(),
                                   .format = weight_format::float32,
                                   .weight = transposed,
                                   .outputs = p.inputs,
                                   .inputs = r});
      device_->run(op::linear_forward{.y = product,
                                      .x = values_.data() + p.b,
                                      .packed = packed_scratch_.data(),
                                      .format = weight_format::float32,
                                      .rows = p.outputs,
                                      .outputs = p.inputs,
                                      .inputs = r});
      device_->run(op::scale{.y = product, .factor = static_cast<float>(settings_.scale()), .n = n});
      device_->run(op::add{.y = w + p.weight, .a = base_.data() + p.base, .b = product, .n = n});
    }
    if (score_ < size_) copy(w + score_weight_, values_.data() + score_, size_ - score_);
    prepare_backward();
    device_->wait();
  }

  /// Runs f() with the base weights, as the reference model of LoRA. Restores the merged weights bit-exactly.
  template <class F>
  void with_base(causal_lm<Device>& model, F&& f) {
    struct exchanged {
      lora& self;
      causal_lm<Device>& model;
      exchanged(lora& l, causal_lm<Device>& m) : self(l), model(m) { self.exchange(model); }
      exchanged(const exchanged&) = delete;
      exchanged& operator=(const exchanged&) = delete;
      ~exchanged() { self.exchange(model); }
    };
    const exchanged off(*this, model);
    f();
  }

 private:
  /// The layout without memory for values.
  lora(lora_settings settings, const causal_lm<Device>& model)
      : device_(&model.device()), settings_(std::move(settings)), modules_(check_lora(settings_)) {
    lay_out(model);
    if (!model.part().stage.split()) return;
    const causal_lm<Device> whole(model.device(), model.settings(), {}, weights_in::units);
    of_stages_ = lora(settings_, whole).parameters_;
  }
  /// `whole` and `start` as of parameter.
  void add(const std::string& name, std::vector<std::int64_t> shape, std::vector<std::int64_t> whole = {},
           std::vector<std::int64_t> start = {}) {
    const std::size_t n = parallel::elements_of(shape);
    if (whole == shape) whole.clear(), start.clear();
    parameters_.push_back({name, std::move(shape), size_, n, std::move(whole), std::move(start)});
    size_ += n;
  }

  void lay_out(const causal_lm<Device>& model) {
    const std::int64_t r = settings_.rank;
    std::vector<bool> found(modules_.size());
    const auto adapt = [&](const linear& l) {
      std::vector<const parameter*> parts;
      for (const parameter& p : model.parameters())
        if (p.offset >= l.weight && p.offset < l.weight + static_cast<std::size_t>(l.outputs * l.inputs) &&
            chosen(model, module_of(p), found))
          parts.push_back(&p);
      if (parts.empty()) return;
      group g{l.number,
              projections_.size(),
              projections_.size() + parts.size(),
              size_,
              wide_size_,
              0,
              l.weight,
              l.outputs,
              l.inputs,
              static_cast<extent_t>(r) * std::ssize(parts),
              l.row_parallel ? l.chunks : 1};
      const auto start = [](const parameter& p, std::size_t d) { return p.split() ? p.start[d] : 0; };
      for (const parameter* p : parts) {
        projections_.push_back({p->offset, base_size_, size_, 0, static_cast<extent_t>(p->shape[0]), l.inputs});
        add(module_of(*p) + ".lora_A.weight", {r, p->shape[1]}, {r, p->whole_shape()[1]}, {0, start(*p, 1)});
        base_size_ += p->size;
      }
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const parameter& p = *parts[i];
        projections_[g.begin + i].b = size_;
        add(module_of(p) + ".lora_B.weight", {p.shape[0], r}, {p.whole_shape()[0], r}, {start(p, 0), 0});
      }
      wide_size_ += static_cast<std::size_t>(g.outputs * g.rank);
      groups_.push_back(g);
    };
    for (const block& b : model.blocks()) b.for_linears(adapt);
    model.tower().for_adaptable(adapt);
    if (!model.part().stage.split()) check_found(found);  // for a stage the layout of the whole model does
    score_ = size_;
    for (const parameter& p : model.parameters())
      if (p.name.starts_with("score.")) {
        if (size_ == score_) score_weight_ = p.offset;
        score_base_ = base_size_;
        add(p.name, p.shape);
      }
    score_base_ = base_size_;
    base_size_ += size_ - score_;
  }
  static std::string module_of(const parameter& p) { return p.name.substr(0, p.name.size() - 7); }  // ".weight"
  /// Does a projection get an adapter? Marks the names of modules_ that match.
  bool chosen(const causal_lm<Device>& model, const std::string& module, std::vector<bool>& found) const {
    const auto has = [&](const std::string& name) { return is_module(module, name_on_disk(name)); };
    bool named = settings_.modules[0] == "all-linear" && module.starts_with("visual.");  // a router is not in modules_
    for (std::size_t i = 0; i < modules_.size(); ++i)
      if (has(modules_[i])) named = found[i] = true;
    if (!named || std::any_of(settings_.exclude.begin(), settings_.exclude.end(), has)) return false;
    const auto& excluded = settings_.excluded;
    return !excluded || !(excluded(module) || (model.settings().vision && excluded(name_in_memory(module))));
  }
  void check_found(const std::vector<bool>& found) const {
    for (std::size_t i = 0; i < modules_.size(); ++i)
      if (!found[i] && !is_linear_module(modules_[i]))
        throw config_error("LoRA: target module '" + modules_[i] + "' is not part of the model");
    if (projections_.empty()) throw config_error("LoRA: exclude_modules leaves no target module");
  }

  void copy(float* to, const float* from, std::size_t n) {
    device_->run(op::copy_rows{.y = to,
                               .y_row = static_cast<extent_t>(n),
                               .x = from,
                               .x_row = static_cast<extent_t>(n),
                               .count = 1,
                               .width = static_cast<extent_t>(n)});
  }
  /// Calls f(offset in the model's weights, offset in base_, number of floats) for all trained tensors.
  template <class F>
  void for_tensors(F&& f) const {
    for (const projection& p : projections_) f(p.weight, p.base, static_cast<std::size_t>(p.outputs * p.inputs));
    if (score_ < size_) f(score_weight_, score_base_, size_ - score_);
  }
  void exchange(causal_lm<Device>& model) {
    float* w = model.weights().data();
    for_tensors([&](std::size_t weight, std::size_t base, std::size_t n) {
      reserve(n, 0);
      copy(scratch_.data(), w + weight, n);
      copy(w + weight, base_.data() + base, n);
      copy(base_.data() + base, scratch_.data(), n);
    });
    device_->wait();
  }
  void reserve(std::size_t floats, std::size_t bytes) {
    if (scratch_.size() < floats) scratch_ = buffer<float, Device>(*device_, floats);
    if (packed_scratch_.size() < bytes) packed_scratch_ = buffer<std::byte, Device>(*device_, bytes);
  }

  void prepare_backward() {
    if (wide_size_ > 0) wide_b_.fill_zero();
    for (const group& g : groups_) {
      pack_matrix(*device_, packed_.data() + g.packed, device_->compute_format(), g.stacked_a(),
                  std::as_const(values_).data(), columns_);
      for (std::size_t i = g.begin; i < g.end; ++i) {
        const projection& p = projections_[i];
        device_->run(op::copy_rows{.y = wide_b_.data() + g.wide + wide_offset(g, i),
                                   .y_row = g.rank,
                                   .x = values_.data() + p.b,
                                   .x_row = rank(),
                                   .count = p.outputs,
                                   .width = rank()});
      }
    }
  }

  Device* device_;
  lora_settings settings_;
  std::vector<std::string> modules_;
  std::vector<parameter> parameters_;
  std::vector<parameter> of_stages_;  ///< of a model in stages: those of the whole
  std::vector<projection> projections_;
  std::vector<group> groups_;
  std::size_t size_ = 0, base_size_ = 0, wide_size_ = 0, score_ = 0, score_weight_ = 0, score_base_ = 0;
  buffer<float, Device> values_, base_, wide_b_, scratch_, columns_;
  buffer<std::byte, Device> packed_, packed_scratch_;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class lora<cpu>;
extern template class lora<any_device>;
}  // namespace nn
RLCORE_END
#endif
