// Gathers a flat vector that is sharded over ranks.
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
    const parallel::value_range part = layout_.part(u, rank()), whole = layout_.unit(u);
    parallel::with_host_view(*device_, values, whole.size(), stage_, true, [&](std::span<float> host) {
      ranks_->all_gather_v(std::span<const float>(host.subspan(part.first - whole.first, part.size())), host,
                           layout_.counts(u));
    });
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

}  // namespace trainer
RLCORE_END
