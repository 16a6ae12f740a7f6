// LoRA: low-rank adapters of linear layers (Hu et al. 2021), merged into the model's weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/nn/vision/vision_config.hpp"
#include "rlcore/parallel/device_memory.hpp"

RLCORE_BEGIN
namespace nn {

/// A and B of every adapted projection, and the head of a score model, in one flat buffer for the optimizer. The
/// model's weights are always W = base + (alpha / rank) B A; after a step merge() recomputes them from a copy of the
/// base, so that no error accumulates. Forward passes, sampling and scoring use the merged weights. Where ranks hold
/// shards of the weights (hold()), each merges its own, and has a copy of the base of that alone.
template <class Device>
class lora {
 public:
  /// One projection, with offsets in the model's weights and in values().
  struct projection {
    std::size_t weight = 0, a = 0, b = 0;
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

  /// Values [first, last) of a shard are the model's weights from number `weights` on.
  struct held_part {
    std::size_t first = 0, last = 0, weights = 0;
  };
  /// The model's weights are in `shard`, this rank's `parts` of them; passes gather the others (causal_lm::units()).
  /// Before attach(); `shard` must outlive this.
  void hold(buffer<float, Device>& shard, std::span<const held_part> parts) {
    shard_ = &shard;
    const std::vector<segment> whole = std::exchange(segments_, {});
    base_size_ = 0;
    for (const segment& s : whole)
      for (const held_part& part : parts) {
        const std::size_t first = std::max(s.at, part.weights),
                          last = std::min(s.at + s.size, part.weights + (part.last - part.first));
        if (first >= last) continue;
        segments_.push_back(
            {s.projection, first - s.at, last - first, part.first + (first - part.weights), base_size_});
        base_size_ += last - first;
      }
  }

  /// Takes the model's loaded weights as the base and its head as the trained head. Then calls merge(). With hold() a
  /// collective call. Throws std::logic_error while weights in shards are gathered.
  void attach(causal_lm<Device>& model) {
    const float* const w = held(model);
    allocate_base();
    for (const segment& s : segments_) copy(base_.data() + s.base, w + s.at, s.size);
    if (score_ < size_ && shard_) {
      const std::size_t top = unit_number::top(model.blocks().size());
      copy(values_.data() + score_, model.units()->enter(top, false).weights + score_weight_, size_ - score_);
      device_->wait();
      model.units()->leave(top);
      model.units()->rest();
    } else if (score_ < size_) {
      copy(values_.data() + score_, w + score_weight_, size_ - score_);
    }
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
  /// inputs for any compute type of the device. Throws std::logic_error while weights in shards are gathered.
  void merge(causal_lm<Device>& model) {
    float* const w = held(model);
    allocate_base();
    for (const segment& s : segments_)
      if (s.projection < projections_.size())
        merge(projections_[s.projection], s, w);
      else
        copy(w + s.at, values_.data() + score_ + s.first, s.size);
    prepare_backward();
    device_->wait();
  }

  /// Runs f() with the base weights, as the reference model of LoRA. Restores the merged weights bit-exactly. Throws
  /// std::logic_error while weights in shards are gathered.
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
        add_segment(projections_.size(), p->size, p->offset);
        projections_.push_back({p->offset, size_, 0, static_cast<extent_t>(p->shape[0]), l.inputs});
        add(module_of(*p) + ".lora_A.weight", {r, p->shape[1]}, {r, p->whole_shape()[1]}, {0, start(*p, 1)});
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
        add(p.name, p.shape);
      }
    if (score_ < size_) add_segment(projections_.size(), size_ - score_, score_weight_);
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

  void copy(float* to, const float* from, std::size_t n) { parallel::copy_values(*device_, to, from, n); }
  /// `size` values of a trained tensor, from its value number `first` on: those of a projection by its number, or of
  /// the head. They are at `at` in the memory of the weights, and at `base` in base_.
  struct segment {
    std::size_t projection, first, size, at, base;
  };
  void add_segment(std::size_t number, std::size_t size, std::size_t at) {
    segments_.push_back({number, 0, size, at, base_size_});
    base_size_ += size;
  }
  /// Its size is known after hold().
  void allocate_base() {
    if (base_.size() != base_size_) base_ = buffer<float, Device>(*device_, base_size_);
  }
  /// The memory of the weights, which are about to change.
  float* held(causal_lm<Device>& model) {
    if (!shard_) return model.weights().data();
    if (std::as_const(model).weights().size() == model.size())
      throw std::logic_error("rlcore: LoRA: weights are gathered: end that before a step or a pass of the base");
    return shard_->data();
  }
  /// w of the segment = base + (alpha / rank) B A.
  void merge(const projection& p, const segment& s, float* w) {
    const extent_t r = rank(), row = static_cast<extent_t>(s.first) / p.inputs;
    const extent_t rows = (static_cast<extent_t>(s.first + s.size) + p.inputs - 1) / p.inputs - row;
    const extent_t n = rows * p.inputs;
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
                                    .x = values_.data() + p.b + static_cast<std::size_t>(row * r),
                                    .packed = packed_scratch_.data(),
                                    .format = weight_format::float32,
                                    .rows = rows,
                                    .outputs = p.inputs,
                                    .inputs = r});
    device_->run(op::scale{.y = product, .factor = static_cast<float>(settings_.scale()), .n = n});
    device_->run(op::add{.y = w + s.at,
                         .a = base_.data() + s.base,
                         .b = product + (static_cast<extent_t>(s.first) - row * p.inputs),
                         .n = static_cast<extent_t>(s.size)});
  }
  void exchange(causal_lm<Device>& model) {
    float* const w = held(model);
    for (const segment& s : segments_) {
      reserve(s.size, 0);
      copy(scratch_.data(), w + s.at, s.size);
      copy(w + s.at, base_.data() + s.base, s.size);
      copy(base_.data() + s.base, scratch_.data(), s.size);
    }
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
  std::size_t size_ = 0, base_size_ = 0, wide_size_ = 0, score_ = 0, score_weight_ = 0;
  std::vector<segment> segments_;
  buffer<float, Device>* shard_ = nullptr;
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
