// A model served by several ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/partition.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/parallel/layout/held_pieces.hpp"
#include "rlcore/rollout/session_memory.hpp"

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

/// Each rank has its part of every matrix; a single rank has the whole. Weights exist only in packed form
/// (nn::weights_in::packed).
template <class Device>
class ranked_model {
 public:
  /// A model without weights. The ranks must outlive it. Throws config_error if it cannot be partitioned this way.
  ranked_model(served_ranks<Device>& ranks, const nn::config& settings) : ranks_(ranks) {
    parts_.resize(static_cast<std::size_t>(ranks.size()));
    ranks.run([&](int rank) {
      auto made = std::make_unique<nn::causal_lm<Device>>(
          ranks.device(rank), settings, nn::sampling_part(settings, rank, ranks.size()), nn::weights_in::packed);
      made->set_tensor_group(ranks.tensor(rank));
      parts_[static_cast<std::size_t>(rank)] = std::move(made);
    });
    for (int rank = 1; rank < ranks.size(); ++rank) group_.others.push_back({part(rank), ranks.space(rank)});
    group_.run = [&ranks](const std::function<void(int)>& f) { ranks.run(f); };
  }
  ranked_model(const ranked_model&) = delete;
  ranked_model& operator=(const ranked_model&) = delete;

  served_ranks<Device>& ranks() const noexcept { return ranks_; }
  /// The part of a rank.
  nn::causal_lm<Device>& part(int rank) const { return *parts_[static_cast<std::size_t>(rank)]; }
  const nn::config& settings() const { return part(0).settings(); }
  /// For sessions of rank 0; null with a single rank.
  const rollout::rank_group<Device>* group() const noexcept { return parts_.size() > 1 ? &group_ : nullptr; }

  /// Weights of all ranks, one after the other.
  std::size_t size() const { return begin(ranks_.size()); }
  /// Where those of a rank begin.
  std::size_t begin(int rank) const {
    std::size_t at = 0;
    for (int r = 0; r < rank; ++r) at += part(r).size();
    return at;
  }
  /// A rank's weights within the weights of all ranks.
  std::span<float> of(int rank, std::span<float> all) const { return all.subspan(begin(rank), part(rank).size()); }
  /// The number of the model's parameters; copies on several ranks count once.
  std::size_t parameters() const {
    std::size_t all = 0;
    std::set<std::string_view> counted;
    for (const auto& part : parts_)
      for (const nn::parameter& p : part->parameters())
        if (counted.insert(p.name).second) all += parallel::elements_of(p.whole_shape());
    return all;
  }
  /// Bytes of the largest rank.
  std::size_t bytes() const {
    std::size_t most = 0;
    for (const auto& p : parts_) most = std::max(most, p->bytes());
    return most;
  }

  /// In every rank causal_lm::fill(). read(first, values) counts as size() does, and many threads call it.
  template <class Read>
  void fill(weight_format format, nn::bf16_weights rounded, const Read& read) {
    ranks_.run([&](int rank) {
      part(rank).fill(format, rounded, [&, from = begin(rank)](std::size_t first, std::span<float> values) {
        read(from + first, values);
      });
    });
  }
  /// Frees the memory of the weights.
  void free_weights() {
    for (const auto& p : parts_) p->free_weights();
  }

 private:
  served_ranks<Device>& ranks_;
  std::vector<std::unique_ptr<nn::causal_lm<Device>>> parts_;
  rollout::rank_group<Device> group_;
};

}  // namespace serving
RLCORE_END
