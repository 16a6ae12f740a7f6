// Tensor parallel generation: the ranks of a session, driven by rank 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/rollout/schedule.hpp"
#include "rlcore/rollout/session_memory.hpp"

RLCORE_BEGIN
namespace rollout {

/// Threads of one process, each with its own device, shard of the weights (nn::partition) and workspace. One session
/// schedules and samples for all of them.
template <rlcore::device Device>
struct rank_group {
  /// A rank's shard of the model; its tensor group is set.
  struct member {
    const nn::causal_lm<Device>& model;
    nn::workspace<Device>& space;
  };
  std::vector<member> others;  ///< ranks 1 and following
  /// Calls f(r) in all ranks r concurrently, rank 0 in the calling thread, and returns when all have returned. Throws
  /// the first exception.
  std::function<void(const std::function<void(int)>& f)> run;
};

/// The ranks of a session and the session memory of each: one rank, or those of a group.
template <rlcore::device Device>
class session_ranks {
 public:
  /// `group` is null for a model on one rank. All arguments must outlive this.
  session_ranks(const nn::causal_lm<Device>& model, nn::workspace<Device>& space, session_memory<Device>& memory,
                const rank_group<Device>* group)
      : model_(model), space_(space), memory_(memory), group_(group), memories_(group ? group->others.size() : 0) {}
  session_ranks(const session_ranks&) = delete;
  session_ranks& operator=(const session_ranks&) = delete;

  /// Resets, with memory for this many image rows.
  void start(std::int64_t rows) {
    run([&](const auto& model, auto&, auto& memory) { memory.pictures.start(model, rows); });
  }
  /// Allocates KV pages, logits rows and memory for sequences of `longest` tokens.
  void prepare(std::int64_t pages, std::int64_t rows, extent_t longest) {
    run([&](const auto& model, auto& space, auto& memory) {
      memory.prepare(model, pages, pages, rows);
      space.prepare_rope(model.settings(), longest);
    });
  }
  /// session_memory::feed() in all ranks; every rank gets the logits.
  void feed(const schedule& plan, std::optional<weight_format> format) {
    run([&](const auto& model, auto& space, auto& memory) { memory.feed(model, space, plan, format); });
  }
  /// Calls f(memory) for every rank in turn.
  template <class F>
  void each(const F& f) {
    f(memory_);
    for (session_memory<Device>& m : memories_) f(m);
  }

 private:
  /// Calls f(model, space, memory) in every rank.
  template <class F>
  void run(const F& f) {
    if (group_ == nullptr) return f(model_, space_, memory_);
    group_->run([&](int rank) {
      if (rank == 0) return f(model_, space_, memory_);
      const auto i = static_cast<std::size_t>(rank - 1);
      f(group_->others[i].model, group_->others[i].space, memories_[i]);
    });
  }

  const nn::causal_lm<Device>& model_;
  nn::workspace<Device>& space_;
  session_memory<Device>& memory_;
  const rank_group<Device>* group_;
  std::vector<session_memory<Device>> memories_;  ///< of ranks 1 and following
};

}  // namespace rollout
RLCORE_END
