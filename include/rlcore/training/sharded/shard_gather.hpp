// The values of a flat vector that ranks have shards of: what is whose, and all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/host_window.hpp"
#include "rlcore/parallel/layout/shard_layout.hpp"

RLCORE_BEGIN
namespace trainer {

/// What rank `rank` owns of a vector: values of its shard, from number `at` on, and where they lie among weights, of
/// which the vector begins with number `first`.
inline std::vector<optim::adamw_piece> pieces_of(const parallel::shard_layout& all, std::size_t rank,
                                                 std::size_t at = 0, std::size_t first = 0) {
  if (all.ranks() == 1) return {{at, at + all.size(), first}};
  std::vector<optim::adamw_piece> pieces;
  for (std::size_t u = 0; u < all.units(); ++u) {
    const std::size_t place = at + all.place(u, rank);
    const parallel::value_range part = all.part(u, rank);
    if (part.size() > 0) pieces.push_back({place, place + part.size(), first + part.first});
  }
  return pieces;
}

/// Brings the shards of `ranks` together.
template <class Device>
class shard_gather {
 public:
  shard_gather(Device& device, parallel::any_communicator& ranks, parallel::shard_layout layout)
      : device_(&device), ranks_(&ranks), layout_(std::move(layout)) {}

  const parallel::shard_layout& layout() const noexcept { return layout_; }
  parallel::any_communicator& ranks() const noexcept { return *ranks_; }
  std::size_t rank() const { return static_cast<std::size_t>(ranks_->rank()); }
  std::size_t shard_size() const { return layout_.shard_size(rank()); }

  /// Every rank's shard of one unit of the vector [layout().unit(u)] to all: of `values`, which has this rank's part in
  /// its place.
  void unit(std::size_t u, float* values) {
    if (layout_.ranks() == 1) return;
    const parallel::value_range own = layout_.part(u, rank()), whole = layout_.unit(u);
    parallel::with_host_view(*device_, values, whole.size(), stage_, true, [&](std::span<float> host) {
      ranks_->all_gather_v(std::span<const float>(host.subspan(own.first - whole.first, own.size())), host,
                           layout_.counts(u));
    });
  }
  /// The whole vector.
  void all(float* values) {
    for (std::size_t u = 0; u < layout_.units(); ++u) unit(u, values + layout_.unit(u).first);
  }

 private:
  Device* device_;
  parallel::any_communicator* ranks_;
  parallel::shard_layout layout_;
  std::vector<float> stage_;
};

}  // namespace trainer
RLCORE_END
