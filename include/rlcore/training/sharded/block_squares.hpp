// The squares of a gradient in shards, added in an order that shows no shards.
#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "rlcore/device/block_sums.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/layout/shard_layout.hpp"

RLCORE_BEGIN
namespace trainer {

/// Blocks of rank r's shard.
inline std::size_t blocks_of_shard(const parallel::shard_layout& all, std::size_t r) {
  std::size_t n = 0;
  for (std::size_t u = 0; u < all.units(); ++u) n += all.blocks_of(u, r);
  return n;
}

/// Sums of squares of the blocks of all shards, in double, shard after shard. All of `shards` together; this rank has
/// `shard`.
template <class Device>
std::vector<double> gathered_squares(Device& device, const parallel::shard_layout& all, std::size_t rank,
                                     const float* shard, parallel::any_communicator& shards) {
  std::vector<double> own;
  for (std::size_t u = 0; u < all.units(); ++u)
    all.for_runs(u, rank, [&](const parallel::value_range& run) {
      const std::size_t before = own.size();
      own.resize(before + all.blocks(run.size()));
      block_sums_of_squares(device, shard + all.place(u, rank) + (run.first - all.part(u, rank).first),
                            static_cast<extent_t>(run.size()), static_cast<extent_t>(all.block), own.data() + before);
    });
  if (all.ranks() == 1) return own;
  std::vector<std::size_t> counts;
  for (std::size_t r = 0; r < all.ranks(); ++r) counts.push_back(blocks_of_shard(all, r));
  std::vector<double> sums(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  shards.all_gather_v(std::span<const double>(own), std::span<double>(sums), std::span<const std::size_t>(counts));
  return sums;
}

/// Adds up gathered_squares(), unit by unit from the first.
class squares_in_order {
 public:
  squares_in_order(const parallel::shard_layout& all, std::span<const double> sums) : all_(&all), sums_(sums) {
    std::size_t at = 0;
    for (std::size_t r = 0; r < all.ranks(); ++r) {
      at_.push_back(at);
      at += blocks_of_shard(all, r);
    }
  }

  void add_unit(std::size_t u, double& total) {
    for (std::size_t r = 0; r < all_->ranks(); ++r)
      for (std::size_t b = all_->blocks_of(u, r); b > 0; --b) total += sums_[at_[r]++];
  }

 private:
  const parallel::shard_layout* all_;
  std::span<const double> sums_;
  std::vector<std::size_t> at_;
};

/// The squares of experts that ranks divide.
class expert_squares {
 public:
  expert_squares() = default;
  expert_squares(const expert_squares&) = delete;
  expert_squares& operator=(const expert_squares&) = delete;
  virtual ~expert_squares() = default;

  /// Of the experts of a unit of the other parameters, in order.
  virtual void add_unit(std::size_t u, double& total) = 0;
  /// Of all, where other sums of squares have no order either.
  virtual void add_all(double& total) = 0;
};

}  // namespace trainer
RLCORE_END
