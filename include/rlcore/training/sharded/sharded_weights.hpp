// Sharded weights of a model (ZeRO 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "rlcore/parallel/world.hpp"
#include "rlcore/training/sharded/gathered_layers.hpp"
#include "rlcore/training/sharded/own_weights.hpp"
#include "rlcore/training/sharded/shard_gather.hpp"

RLCORE_BEGIN
namespace trainer {

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

  /// Reads this rank's shard of the weights in a Hugging Face folder.
  void load(const std::filesystem::path& folder, std::uint64_t seed) {
    if (this->gathered()) throw std::logic_error("rlcore: load: weights are gathered");
    const std::vector<owned_run> runs = owned_runs(this->model().parameters(), pieces_of(layout(), gather_.rank()));
    shard_.upload(read_own_weights(this->model(), folder, seed, runs, shard_.size()));
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

}  // namespace trainer
RLCORE_END
