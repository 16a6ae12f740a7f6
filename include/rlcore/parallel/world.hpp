// A rank's place among all ranks, and the groups it belongs to.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/settings.hpp"

RLCORE_BEGIN
namespace parallel {

/// The ranks over which a gradient is summed, replicas of groups that share it, and this rank's place among all of
/// them. Each has the leaves of `sources` neighbours of world::sums().
struct sum_place {
  any_communicator *shards = nullptr, *replicas = nullptr;
  std::size_t rank = 0, sources = 1;
};

/// Made by all ranks together, from equal settings. Gradients are summed over sums(), data x context, whatever else the
/// mesh holds; sums() is cut into shards() of neighbours, over which weights are shared, and replicas() of the same
/// place in those. expert() are neighbours in sums(), experts() the ranks with the same experts, cut likewise into
/// those that share them and replicas.
class world {
 public:
  world(any_communicator& all, const parallel_settings& how)
      : all_(&all), how_(how), place_(mesh::of(how, all.rank(), all.size())) {
    const mesh& m = place_;
    const int sum = m.sum();
    data_ = all.split(m.context * m.tensor_size + m.tensor, m.data);
    context_ = all.split(m.data * m.tensor_size + m.tensor, m.context);
    tensor_ = all.split(sum, m.tensor);
    sums_ = all.split(m.tensor, sum);
    const auto parts = [&](int size, auto& inside, auto& across) {
      inside = all.split(sum / size * m.tensor_size + m.tensor, sum % size);
      across = all.split(sum % size * m.tensor_size + m.tensor, sum / size);
    };
    parts(m.shard_size, shards_, replicas_);
    parts(m.expert_size, expert_, experts_);
    if (m.expert_size == 1) return;
    const int place = experts_->rank(), size = m.expert_shard_size();
    expert_shards_ = experts_->split(place / size, place % size);
    expert_replicas_ = experts_->split(place % size, place / size);
  }

  any_communicator& all() noexcept { return *all_; }
  any_communicator& data() noexcept { return *data_; }
  any_communicator& context() noexcept { return *context_; }
  any_communicator& tensor() noexcept { return *tensor_; }
  any_communicator& expert() noexcept { return *expert_; }
  any_communicator& sums() noexcept { return *sums_; }
  any_communicator& shards() noexcept { return *shards_; }
  any_communicator& replicas() noexcept { return *replicas_; }
  any_communicator& experts() noexcept { return *experts_; }

  sum_place place_in_sums() noexcept {
    return {shards_.get(), replicas_.get(), static_cast<std::size_t>(place_.sum()), 1};
  }
  /// For the experts that ranks of expert() divide: there are several.
  sum_place place_in_experts() noexcept {
    return {expert_shards_.get(), expert_replicas_.get(), static_cast<std::size_t>(place_.sum() / place_.expert_size),
            static_cast<std::size_t>(place_.expert_size)};
  }

  const parallel_settings& how() const noexcept { return how_; }
  const mesh& place() const noexcept { return place_; }
  /// Is this the rank that writes and reports?
  bool first() const noexcept { return all_->rank() == 0; }

 private:
  any_communicator* all_;
  parallel_settings how_;
  mesh place_;
  std::unique_ptr<any_communicator> data_, context_, tensor_, sums_, shards_, replicas_, expert_, experts_,
      expert_shards_, expert_replicas_;
};

/// report = the sum of all data ranks' reports, in rank order: with exact sums the bits do not depend on how many ranks
/// there are.
template <class T>
void sum_over_ranks(world& w, T& report) {
  static_assert(std::is_trivially_copyable_v<T>, "rlcore: sum_over_ranks: a report travels as bytes");
  any_communicator& c = w.data();
  if (c.size() == 1) return;
  std::vector<T> all(static_cast<std::size_t>(c.size()), report);
  c.all_gather(std::span<const T>(&report, 1), std::span<T>(all));
  report = all[0];
  for (std::size_t r = 1; r < all.size(); ++r) report += all[r];
}

}  // namespace parallel
RLCORE_END
