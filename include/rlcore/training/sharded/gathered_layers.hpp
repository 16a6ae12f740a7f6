// Sharded weights, gathered unit by unit in a pass; gather_full_params() gathers all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/layout/shard_layout.hpp"

RLCORE_BEGIN
namespace trainer {

/// Holds the currently gathered units of a model: at most two layers and the embedding, unless layers stay from forward
/// to backward. A derived class holds the ranks' parts.
template <class Device>
class gathered_layers : public nn::unit_source {
 public:
  gathered_layers(const gathered_layers&) = delete;
  gathered_layers& operator=(const gathered_layers&) = delete;

  /// Gathers the unit from the ranks and packs its matrices, unless already done.
  nn::unit_view enter(std::size_t u, bool packed) override {
    place& p = places_[u];
    Device& device = model_->device();
    if (!p.whole) {
      device.wait();
      p.values = take(floats_, p.range.size());
      collect(u, p.values.data());
      p.whole = true;
    }
    const offset_pointer<const float> weights{std::as_const(p.values).data(), p.range.first};
    const weight_format f = device.compute_format();
    if (packed && !p.is_packed) {
      p.packed = take(bytes_, p.packed_bytes);
      const std::span<const nn::matrix> matrices = model_->matrices();
      for (std::size_t n = 0; n < matrices.size(); ++n)
        if (packed_of_[n] == u)
          nn::pack_matrix(device, p.packed.data() + offsets_[n], f, matrices[n], weights, columns_);
      p.is_packed = true;
    }
    return {weights, {f, p.packed.data(), offsets_.data()}};
  }
  /// Releases the unit; its memory is reused by later units.
  void leave(std::size_t u) override {
    place& p = places_[u];
    if (std::exchange(p.whole, false)) floats_.push_back(std::move(p.values));
    if (std::exchange(p.is_packed, false)) bytes_.push_back(std::move(p.packed));
  }
  /// Leaves the unit, unless layers stay from forward to backward.
  void pause(std::size_t u) override {
    if (!keep_) leave(u);
  }
  /// The maximum over the ranks of the gather group.
  std::size_t most_passes(std::size_t passes) override {
    std::vector<std::size_t> counts(static_cast<std::size_t>(ranks().size()));
    ranks().all_gather(std::span<const std::size_t>(&passes, 1), std::span(counts));
    return *std::max_element(counts.begin(), counts.end());
  }
  void rest() override {
    if (floats_.empty() && bytes_.empty()) return;
    model_->device().wait();
    floats_.clear(), bytes_.clear(), columns_ = {};
  }

  bool gathered() const noexcept { return full_params_ > 0; }
  /// The first begin gathers all weights into the model. After the last end this rank keeps only its
  /// part.
  void begin_full_params() {
    if (full_params_++ > 0) return;
    rest();
    model_->gain_weights();
    float* weights = model_->weights().data();
    for (std::size_t u = 0; u < places_.size(); ++u) collect(u, weights + places_[u].range.first);
  }
  void end_full_params() {
    if (--full_params_ > 0) return;
    const float* weights = std::as_const(*model_).weights().data();
    for (std::size_t u = 0; u < places_.size(); ++u) keep(u, weights + places_[u].range.first);
    model_->drop_weights();
  }

 protected:
  /// `keep`: units collected for a forward stay for the backward.
  gathered_layers(nn::causal_lm<Device>& model, bool keep) : model_(&model), keep_(keep) {
    for (const std::size_t end : nn::unit_ends(model.parameters())) {
      places_.emplace_back();
      places_.back().range = {places_.size() == 1 ? 0 : places_[places_.size() - 2].range.last, end};
    }
    for (const nn::matrix& m : model.matrices()) {
      std::size_t u = 0;
      while (places_[u].range.last <= m.offset) ++u;
      packed_of_.push_back(u);
      offsets_.push_back(places_[u].packed_bytes);
      places_[u].packed_bytes += nn::packed_bytes_of(model.device(), model.device().compute_format(), m);
    }
    model.set_units(this);
  }

  /// The ranks of the gather group.
  virtual parallel::any_communicator& ranks() = 0;
  /// Fills the memory of a unit.
  virtual void collect(std::size_t u, float* unit) = 0;
  /// Stores this rank's part of a unit filled by collect().
  virtual void keep(std::size_t u, const float* unit) = 0;

  nn::causal_lm<Device>& model() const noexcept { return *model_; }
  void copy(float* to, const float* from, std::size_t n) {
    const auto width = static_cast<extent_t>(n);
    if (n > 0)
      model_->device().run(
          op::copy_rows{.y = to, .y_row = width, .x = from, .x_row = width, .count = 1, .width = width});
  }

 private:
  struct place {
    parallel::value_range range;  // of the model's weights
    buffer<float, Device> values;
    buffer<std::byte, Device> packed;
    std::size_t packed_bytes = 0;
    bool whole = false, is_packed = false;
  };

  /// Memory for n values: the smallest idle buffer that holds them, unless it is more than twice too large.
  template <class T>
  buffer<T, Device> take(std::vector<buffer<T, Device>>& idle, std::size_t n) {
    auto best = idle.end();
    for (auto b = idle.begin(); b != idle.end(); ++b)
      if (b->size() >= n && b->size() <= 2 * n && (best == idle.end() || b->size() < best->size())) best = b;
    if (best == idle.end()) return buffer<T, Device>(model_->device(), n);
    buffer<T, Device> found = std::move(*best);
    idle.erase(best);
    return found;
  }

  nn::causal_lm<Device>* model_;
  bool keep_;
  int full_params_ = 0;
  std::vector<place> places_;
  std::vector<std::size_t> packed_of_, offsets_;
  std::vector<buffer<float, Device>> floats_;
  std::vector<buffer<std::byte, Device>> bytes_;
  buffer<float, Device> columns_;  // of a chunk of a matrix
};

/// While an object lives, the model of `units` has its full weights. Ranks may change them if all make the same change.
/// Null: the model always has its weights.
template <class Device>
class full_params {
 public:
  /// Gathers all weights, unless a live object has already done so.
  explicit full_params(gathered_layers<Device>* units) : units_(units) {
    if (units_) units_->begin_full_params();
  }
  ~full_params() {
    if (units_) units_->end_full_params();
  }
  full_params(const full_params&) = delete;
  full_params& operator=(const full_params&) = delete;

 private:
  gathered_layers<Device>* units_;
};

}  // namespace trainer
RLCORE_END
