// Sharded weights (ZeRO 3): a rank's shard, and layers gathered unit by unit in a pass.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/packed_units.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/parallel/layout/shard_layout.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/train/model/owned_runs.hpp"

RLCORE_BEGIN
namespace train {

/// The pieces of a vector that rank `rank` owns. Its shard begins at `at` among the optimizer's values, the vector at
/// `first` among the weights.
inline std::vector<optim::adamw_piece> pieces_of(const parallel::shard_layout& layout, std::size_t rank,
                                                 std::size_t at = 0, std::size_t first = 0) {
  if (layout.ranks() == 1) return {{at, at + layout.size(), first}};
  std::vector<optim::adamw_piece> pieces;
  for (std::size_t u = 0; u < layout.units(); ++u) {
    const std::size_t place = at + layout.place(u, rank);
    const parallel::value_range part = layout.part(u, rank);
    if (part.size() > 0) pieces.push_back({place, place + part.size(), first + part.first});
  }
  return pieces;
}

/// Gathers the shards of `ranks`.
template <class Device>
class shard_gather {
 public:
  /// For shards of this layout; device and ranks must outlive this object.
  shard_gather(Device& device, parallel::any_communicator& ranks, parallel::shard_layout layout)
      : device_(&device), ranks_(&ranks), layout_(std::move(layout)) {}

  const parallel::shard_layout& layout() const noexcept { return layout_; }
  parallel::any_communicator& ranks() const noexcept { return *ranks_; }
  std::size_t rank() const { return static_cast<std::size_t>(ranks_->rank()); }
  std::size_t shard_size() const { return layout_.shard_size(rank()); }

  /// Gathers unit u, layout().unit(u), into `values` on every rank. `values` already holds this rank's part in its
  /// place.
  void unit(std::size_t u, float* values) {
    if (layout_.ranks() == 1) return;
    parallel::gather_in_place(*device_, *ranks_, values, layout_.counts(u), stage_);
  }
  /// Gathers the whole vector.
  void every_unit(float* values) {
    for (std::size_t u = 0; u < layout_.units(); ++u) unit(u, values + layout_.unit(u).first);
  }

 private:
  Device* device_;
  parallel::any_communicator* ranks_;
  parallel::shard_layout layout_;
  std::vector<float> stage_;
};

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
    if (!p.whole) {
      model_->device().wait();
      p.values = floats_.take(p.range.size());
      collect(u, p.values.data());
      p.whole = true;
    }
    const offset_pointer<const float> weights{std::as_const(p.values).data(), p.range.first};
    return {weights, packed ? packed_.enter(u, weights) : packed_.view(u)};
  }
  /// Releases the unit; its memory is reused by later units.
  void leave(std::size_t u) override {
    place& p = places_[u];
    if (std::exchange(p.whole, false)) floats_.give(std::move(p.values));
    packed_.leave(u);
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
    model_->device().wait();
    floats_.clear(), packed_.rest();
  }

  bool gathered() const noexcept { return full_params_ > 0; }
  /// The first begin gathers all weights into the model. After the last end this rank keeps only its
  /// part.
  void begin_full_params() {
    if (full_params_++ > 0) return;
    rest();
    model_->allocate_weights();
    float* weights = model_->weights().data();
    for (std::size_t u = 0; u < places_.size(); ++u) collect(u, weights + places_[u].range.first);
  }
  void end_full_params() {
    if (--full_params_ > 0) return;
    const float* weights = std::as_const(*model_).weights().data();
    for (std::size_t u = 0; u < places_.size(); ++u) keep(u, weights + places_[u].range.first);
    model_->free_weights();
  }

 protected:
  /// `keep`: units collected for a forward stay for the backward.
  gathered_layers(nn::causal_lm<Device>& model, bool keep)
      : model_(&model),
        keep_(keep),
        floats_(model.device()),
        packed_(model.device(), model.parameters(), model.matrices()) {
    for (const std::size_t end : nn::unit_ends(model.parameters())) {
      places_.emplace_back();
      places_.back().range = {places_.size() == 1 ? 0 : places_[places_.size() - 2].range.last, end};
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
  void copy(float* to, const float* from, std::size_t n) { parallel::copy_values(model_->device(), to, from, n); }

 private:
  struct place {
    parallel::value_range range;  // of the model's weights
    buffer<float, Device> values;
    bool whole = false;
  };

  nn::causal_lm<Device>* model_;
  bool keep_;
  int full_params_ = 0;
  std::vector<place> places_;
  nn::buffer_pool<float, Device> floats_;
  nn::packed_units<Device> packed_;
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

/// This rank's shard, which its optimizer steps.
template <class Device>
class sharded_weights final : public gathered_layers<Device> {
 public:
  /// `model` is in units. `keep`: units collected for a forward stay for the backward.
  sharded_weights(nn::causal_lm<Device>& model, parallel::world& w, bool keep)
      : gathered_layers<Device>(model, keep),
        gather_(model.device(), w.shards(),
                {nn::unit_ends(model.parameters()), w.place().shard_size, nn::expert_begins(model.parameters())}),
        shard_(model.device(), gather_.shard_size()) {}

  buffer<float, Device>& shard() noexcept { return shard_; }
  const buffer<float, Device>& shard() const noexcept { return shard_; }
  /// The shard's values [first, last), and where they lie in the model's weights.
  std::vector<optim::adamw_piece> pieces() const { return pieces_of(layout(), gather_.rank()); }
  /// The shard's pieces of tensors, at the places of the moments.
  std::vector<owned_run> runs() const { return owned_runs(this->model().parameters(), pieces()); }

  /// The same with their values.
  std::vector<held_weights> held() const {
    std::vector<held_weights> all;
    for (const owned_run& r : runs()) all.push_back({r.piece, shard_.data() + r.moments});
    return all;
  }

  /// The same for reading and writing. Throws std::logic_error while weights are gathered.
  resident_weights<Device> resident() {
    if (this->gathered()) throw std::logic_error("rlcore: resident: weights are gathered");
    return {shard_, runs()};
  }

 private:
  const parallel::shard_layout& layout() const noexcept { return gather_.layout(); }
  parallel::any_communicator& ranks() override { return gather_.ranks(); }
  void collect(std::size_t u, float* unit) override {
    const parallel::value_range part = layout().part(u, gather_.rank());
    this->copy(unit + (part.first - layout().unit(u).first), shard_.data() + layout().place(u, gather_.rank()),
               part.size());
    gather_.unit(u, unit);
  }
  void keep(std::size_t u, const float* unit) override {
    const parallel::value_range part = layout().part(u, gather_.rank());
    this->copy(shard_.data() + layout().place(u, gather_.rank()), unit + (part.first - layout().unit(u).first),
               part.size());
  }

  shard_gather<Device> gather_;
  buffer<float, Device> shard_;
};

}  // namespace train

RLCORE_END
