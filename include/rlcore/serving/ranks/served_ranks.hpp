// The ranks of a server, each with a device.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/partition.hpp"
#include "rlcore/nn/parallel/tensor_group.hpp"
#include "rlcore/parallel/communicator/standing_ranks.hpp"

RLCORE_BEGIN
namespace serving {

/// Threads that share every model of a server, like the ranks of a trainer's sampling group. With one device everything
/// runs in the calling thread.
template <class Device>
class served_ranks {
 public:
  /// One rank per device; devices must outlive it. `deadline` limits how long a rank waits within a pass.
  served_ranks(const std::vector<std::unique_ptr<Device>>& devices, std::chrono::milliseconds deadline)
      : devices_(devices) {
    if (size() > 1) threads_.emplace(size(), deadline);
    for (int rank = 0; rank < size(); ++rank) {
      spaces_.push_back(std::make_unique<nn::workspace<Device>>(device(rank), std::size_t{256} << 20));
      groups_.push_back(threads_ ? std::make_unique<group>((*threads_)[rank]) : nullptr);
    }
  }
  served_ranks(const served_ranks&) = delete;
  served_ranks& operator=(const served_ranks&) = delete;

  int size() const noexcept { return static_cast<int>(devices_.size()); }
  /// Of a rank.
  Device& device(int rank) const { return *devices_[static_cast<std::size_t>(rank)]; }
  /// The workspace of a rank, shared by all models of the server.
  nn::workspace<Device>& space(int rank) const { return *spaces_[static_cast<std::size_t>(rank)]; }
  /// The partition of a rank.
  nn::partition place(int rank) const { return {rank, size(), 0, 1}; }
  /// A rank's handle of the tensor group; null with one rank.
  nn::tensor_group* tensor(int rank) const { return groups_[static_cast<std::size_t>(rank)].get(); }

  /// Calls f(rank) in every rank and returns when all have returned, see parallel::standing_ranks. One thread calls at
  /// a time: the engines' thread, once engines exist.
  void run(const std::function<void(int)>& f) {
    if (threads_) return threads_->run(f);
    f(0);
  }

 private:
  using group = nn::tensor_group_of<parallel::thread_rank>;

  const std::vector<std::unique_ptr<Device>>& devices_;
  std::vector<std::unique_ptr<nn::workspace<Device>>> spaces_;
  std::optional<parallel::standing_ranks> threads_;
  std::vector<std::unique_ptr<group>> groups_;
};

}  // namespace serving
RLCORE_END
