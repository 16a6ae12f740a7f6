// Process groups of a rank: pipeline, data, shard, replica, tensor, context and expert groups.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/settings.hpp"

RLCORE_BEGIN
namespace parallel {

/// The ranks that sum a gradient: `shards` shard it, `replicas` hold the same shard, and `rank` is this rank among all
/// of them. Each rank has the leaves of `sources` consecutive ranks of world::sums().
struct sum_place {
  any_communicator *shards = nullptr, *replicas = nullptr;
  std::size_t rank = 0, sources = 1;
};

/// The process groups of the job. All ranks construct it together with equal settings. Gradients are summed over
/// sums(), the data x context ranks. shards() are consecutive ranks of sums() that shard the weights; replicas() are
/// the ranks with the same shard. expert() are consecutive ranks of sums() that divide the experts; experts() are the
/// ranks with the same experts, also divided into shards and replicas. All of these are ranks of one stage of a
/// pipeline; pipeline() are the ranks with the same place in each stage.
class world {
 public:
  /// Splits `ranks` into the groups; `ranks` must outlive this. Throws config_error as mesh::of().
  world(any_communicator& ranks, const parallel_settings& settings)
      : ranks_(&ranks), settings_(settings), place_(mesh::of(settings, ranks.rank(), ranks.size())) {
    const mesh& m = place_;
    const int sum = m.sum(), stage = m.stage * m.stage_size();
    data_ = ranks.split(stage + m.context * m.tensor_size + m.tensor, m.data);
    context_ = ranks.split(stage + m.data * m.tensor_size + m.tensor, m.context);
    tensor_ = ranks.split(stage + sum, m.tensor);
    sums_ = ranks.split(stage + m.tensor, sum);
    for (auto* group : {&pipeline_, &forwards_, &backwards_})
      if (m.pipeline_size > 1 || group == &pipeline_) *group = ranks.split(m.place_in_stage(), m.stage);
    const auto parts = [&](int size, auto& inside, auto& across) {
      inside = ranks.split(stage + sum / size * m.tensor_size + m.tensor, sum % size);
      across = ranks.split(stage + sum % size * m.tensor_size + m.tensor, sum / size);
    };
    parts(m.shard_size, shards_, replicas_);
    parts(m.expert_size, expert_, experts_);
    if (m.expert_size == 1) return;
    const int place = experts_->rank(), size = m.expert_shard_size();
    expert_shards_ = experts_->split(place / size, place % size);
    expert_replicas_ = experts_->split(place % size, place / size);
  }

  any_communicator& all() noexcept { return *ranks_; }
  any_communicator& data() noexcept { return *data_; }
  any_communicator& context() noexcept { return *context_; }
  any_communicator& tensor() noexcept { return *tensor_; }
  any_communicator& expert() noexcept { return *expert_; }
  any_communicator& pipeline() noexcept { return *pipeline_; }
  /// The same ranks, for the messages of forward and of backward passes; only if there are several.
  any_communicator& forwards() noexcept { return *forwards_; }
  any_communicator& backwards() noexcept { return *backwards_; }
  any_communicator& sums() noexcept { return *sums_; }
  any_communicator& shards() noexcept { return *shards_; }
  any_communicator& replicas() noexcept { return *replicas_; }
  any_communicator& experts() noexcept { return *experts_; }

  sum_place place_in_sums() noexcept {
    return {shards_.get(), replicas_.get(), static_cast<std::size_t>(place_.sum()), 1};
  }
  /// The same for the experts; only if expert() has several ranks.
  sum_place place_in_experts() noexcept {
    return {expert_shards_.get(), expert_replicas_.get(), static_cast<std::size_t>(place_.sum() / place_.expert_size),
            static_cast<std::size_t>(place_.expert_size)};
  }

  const parallel_settings& settings() const noexcept { return settings_; }
  const mesh& place() const noexcept { return place_; }
  /// Does this rank write files and report?
  bool first() const noexcept { return ranks_->rank() == 0; }

 private:
  any_communicator* ranks_;
  parallel_settings settings_;
  mesh place_;
  std::unique_ptr<any_communicator> data_, context_, tensor_, pipeline_, forwards_, backwards_, sums_, shards_,
      replicas_, expert_, experts_, expert_shards_, expert_replicas_;
};

/// Returns when all ranks of the group, one for each stage, have called it. Ranks of p stages can be p * p + p - 1
/// passes apart: p + 1 between neighbours (nn::pipeline_link), and a stage's own.
template <communicator C>
void meet_stages(C& stages) {
  const int size = stages.size(), patience = size * (size + 1);
  char token = 0;
  const std::span<char> in(&token, 1);
  const std::span<const char> out(&token, 1);
  if (stages.rank() > 0) {
    stages.send(out, 0);
    stages.receive(in, 0, patience);
    return;
  }
  for (int r = 1; r < size; ++r) stages.receive(in, r, patience);
  for (int r = 1; r < size; ++r) stages.send(out, r);
}

/// Precedes collectives of world::pipeline(), which have the time of one pass. The messages go with the forwards, of
/// which each stage has received all by then; those of a tied embedding may still wait in pipeline().
inline void meet_stages(world& w) {
  if (w.pipeline().size() > 1) meet_stages(w.forwards());
}

/// Sends `data` of the last stage, which alone computes losses and log-probs, to all stages.
template <wire T>
void broadcast_from_last_stage(world& w, std::span<T> data) {
  if (w.pipeline().size() == 1) return;
  meet_stages(w);
  w.pipeline().broadcast(data, w.pipeline().size() - 1);
}

/// Sums the reports of all data ranks into `report`, in rank order; of several stages those of the last. With exact
/// sums the bits do not depend on the number of ranks. Names in a report are addresses, invalid in another process:
/// keep_names(local) restores the local ones.
template <class T>
void sum_over_ranks(world& w, T& report) {
  static_assert(std::is_trivially_copyable_v<T>, "rlcore: sum_over_ranks: a report travels as bytes");
  any_communicator& c = w.data();
  if (c.size() == 1 && w.pipeline().size() == 1) return;
  std::vector<T> reports(static_cast<std::size_t>(c.size()), report);
  c.all_gather(std::span<const T>(&report, 1), std::span<T>(reports));
  const T local = report;
  report = reports[0];
  for (std::size_t r = 1; r < reports.size(); ++r) report += reports[r];
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &report, sizeof(T));
  broadcast_from_last_stage(w, std::span(bytes));
  std::memcpy(&report, bytes.data(), sizeof(T));
  if constexpr (requires { report.keep_names(local); }) report.keep_names(local);
}

}  // namespace parallel
RLCORE_END
