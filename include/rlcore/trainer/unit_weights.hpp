// The weights of a model in shards (zero 3): collected unit by unit in passes, all of them where everything is needed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/nn/causal_lm.hpp"
#include "rlcore/nn/unit_source.hpp"
#include "rlcore/nn/units.hpp"
#include "rlcore/trainer/own_weights.hpp"
#include "rlcore/trainer/shard_gather.hpp"

RLCORE_BEGIN
namespace trainer {

/// This rank's shard, which its optimizer steps, and the memory of those units that are whole at the moment: two
/// layers' and the embedding's at most, unless layers are kept from forward to backward.
template <class Device>
class unit_weights final : public nn::unit_source {
 public:
  /// `model` is in units. `keep`: what has been collected for a forward stays for the backward.
  unit_weights(nn::causal_lm<Device>& model, parallel::world& w, bool keep)
      : model_(&model),
        gather_(model.device(), w, {nn::unit_ends(model.parameters()), w.place().shard_size}),
        keep_(keep),
        shard_(model.device(), gather_.shard_size()),
        places_(layout().units()) {
    for (const nn::matrix& m : model.matrices()) {
      std::size_t u = 0;
      while (layout().unit(u).last <= m.offset) ++u;
      packed_of_.push_back(u);
      offsets_.push_back(places_[u].packed_bytes);
      places_[u].packed_bytes += nn::packed_bytes_of(model.device(), model.device().compute_format(), m);
    }
    model.set_units(this);
  }
  unit_weights(const unit_weights&) = delete;
  unit_weights& operator=(const unit_weights&) = delete;

  const parallel::shard_layout& layout() const noexcept { return gather_.layout(); }
  buffer<float, Device>& shard() noexcept { return shard_; }
  const buffer<float, Device>& shard() const noexcept { return shard_; }

  /// The weights of a Hugging Face folder, of which this rank reads its shard.
  void load(const std::filesystem::path& folder, std::uint64_t seed) {
    const std::vector<owned_run> runs = owned_runs(model_->parameters(), pieces_of(layout(), gather_.rank()));
    shard_.upload(read_own_weights(*model_, folder, seed, runs, shard_.size()));
  }

  nn::unit_view enter(std::size_t u, bool packed) override {
    place& p = places_[u];
    Device& device = model_->device();
    const parallel::value_range range = layout().unit(u);
    if (!p.whole) {
      device.wait();
      p.values = take(floats_, range.size());
      copy_own(u, p.values.data());
      gather_.unit(u, p.values.data());
      p.whole = true;
    }
    const weight_format f = device.compute_format();
    if (packed && !p.is_packed) {
      p.packed = take(bytes_, p.packed_bytes);
      const std::span<const nn::matrix> all = model_->matrices();
      const float* weights = nn::begin_of(std::as_const(p.values).data(), range.first);
      for (std::size_t n = 0; n < all.size(); ++n)
        if (packed_of_[n] == u) nn::pack_matrix(device, p.packed.data() + offsets_[n], f, all[n], weights, columns_);
      p.is_packed = true;
    }
    return {nn::begin_of(std::as_const(p.values).data(), range.first), {f, p.packed.data(), offsets_.data()}};
  }
  void leave(std::size_t u) override {
    place& p = places_[u];
    if (std::exchange(p.whole, false)) floats_.push_back(std::move(p.values));
    if (std::exchange(p.is_packed, false)) bytes_.push_back(std::move(p.packed));
  }
  void pause(std::size_t u) override {
    if (!keep_) leave(u);
  }
  std::size_t most_passes(std::size_t passes) override {
    std::vector<std::size_t> all(layout().ranks());
    gather_.ranks().all_gather(std::span<const std::size_t>(&passes, 1), std::span(all));
    return *std::max_element(all.begin(), all.end());
  }
  void rest() override {
    if (floats_.empty() && bytes_.empty()) return;
    model_->device().wait();
    floats_.clear(), bytes_.clear(), columns_ = {};
  }

  bool summoned() const noexcept { return summons_ > 0; }
  /// The first summons gathers; after the last one this rank keeps what is its own.
  void begin_summons() {
    if (summons_++ == 0) gather();
  }
  void end_summons() {
    if (--summons_ > 0) return;
    keep_own();
    model_->drop_weights();
  }

 private:
  /// The whole model into its own weights.
  void gather() {
    rest();
    model_->gain_weights();
    float* weights = model_->weights().data();
    for (std::size_t u = 0; u < layout().units(); ++u) copy_own(u, weights + layout().unit(u).first);
    gather_.all(weights);
  }
  /// This rank's part of the model's weights, which are whole now.
  void keep_own() {
    const float* weights = std::as_const(*model_).weights().data();
    for (std::size_t u = 0; u < layout().units(); ++u) copy_from(u, weights + layout().unit(u).first);
  }
  void copy_from(std::size_t u, const float* unit) {
    const parallel::value_range own = layout().part(u, gather_.rank());
    copy(shard_.data() + layout().place(u, gather_.rank()), unit + (own.first - layout().unit(u).first), own.size());
  }

  struct place {
    buffer<float, Device> values;
    buffer<std::byte, Device> packed;
    std::size_t packed_bytes = 0;
    bool whole = false, is_packed = false;
  };

  void copy(float* to, const float* from, std::size_t n) {
    const auto width = static_cast<extent_t>(n);
    if (n > 0) model_->device().copy_rows(to, width, nullptr, from, width, 1, width);
  }
  void copy_own(std::size_t u, float* unit) {
    const parallel::value_range own = layout().part(u, gather_.rank());
    copy(unit + (own.first - layout().unit(u).first), shard_.data() + layout().place(u, gather_.rank()), own.size());
  }
  /// Memory for n values: the smallest idle piece that holds them, unless it would be twice too large.
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
  shard_gather<Device> gather_;
  bool keep_;
  int summons_ = 0;
  buffer<float, Device> shard_;
  std::vector<place> places_;
  std::vector<std::size_t> packed_of_, offsets_;
  std::vector<buffer<float, Device>> floats_;
  std::vector<buffer<std::byte, Device>> bytes_;
  buffer<float, Device> columns_;  // of a chunk of a matrix
};

/// While one of these lives, the model of `units` has weights, which may be changed by all ranks alike. Null: it has
/// them anyway.
template <class Device>
class summoned_weights {
 public:
  explicit summoned_weights(unit_weights<Device>* units) : units_(units) {
    if (units_) units_->begin_summons();
  }
  ~summoned_weights() {
    if (units_) units_->end_summons();
  }
  summoned_weights(const summoned_weights&) = delete;
  summoned_weights& operator=(const summoned_weights&) = delete;

 private:
  unit_weights<Device>* units_;
};

}  // namespace trainer
RLCORE_END
