// Process groups of a run, as used by trainers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/timeline.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/train/ranks/resources.hpp"

RLCORE_BEGIN
namespace train {

/// The ranks that share the work of a run, with their process groups; many runs have one rank.
class team {
 public:
  /// Uses `ranks`, or this rank alone if null. `opt` sets how they share the work. Throws config_error for bad
  /// settings, and for several ranks in a program without on_ranks().
  team(const options& opt, parallel::any_communicator* ranks)
      : ranks_(ranks != nullptr ? *ranks : alone(opt)), world_(ranks_, read_parallel(opt, ranks_.size())) {
    timeline::name_thread(ranks_.rank(), "main");
    const device_abilities& device = asked_device(opt);
    unit_ = device.unit, idle_ = idle_ranks(opt, world_.place().data_size);
    if (!device.number_key.empty()) first_device_ = opt.get<std::int64_t>(std::string(device.number_key));
  }
  team(const team&) = delete;
  team& operator=(const team&) = delete;

  /// Not const: collectives change the world, but nothing of the team.
  parallel::world& world() const noexcept { return world_; }
  int size() const noexcept { return ranks_.size(); }
  bool first() const noexcept { return ranks_.rank() == 0; }
  int of_this_machine() const { return size() == 1 ? 1 : find_local_place(ranks_).size; }

  /// "; 4 ranks (threads): 4 data, ZeRO stage 3, tree sums over 8 leaves", or nothing for one rank. On NPUs also which,
  /// and "with HCCL".
  std::string describe() const;

  /// "note: ...", a line about data ranks that have no part in updates (idle_ranks()); empty if all have.
  std::string idle_note() const { return idle_.empty() ? "" : "note: " + idle_ + "\n"; }

  /// The smallest `number` of all ranks.
  std::size_t least(std::size_t number) const;
  /// The largest.
  std::size_t most(std::size_t number) const { return ~least(~number); }

  /// Throws file_error on every rank unless all ranks have read the same `number` from `folder`, a shared folder.
  void agree(std::int64_t number, const std::string& name, const std::filesystem::path& folder) const;

 private:
  parallel::any_communicator& alone(const options& opt);

  parallel::any_communicator_of<parallel::alone> self_{parallel::alone{}};
  parallel::any_communicator& ranks_;
  mutable parallel::world world_;
  std::string unit_, idle_;
  std::optional<std::int64_t> first_device_;  ///< of this machine, where it may have several
};

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_RUN)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::string team::describe() const {
  if (size() == 1) return {};
  const parallel::parallel_settings& s = world_.settings();
  std::string text = "; " + std::to_string(size()) + " ranks (" + ranks_.engine() + ")";
  if (const int here = of_this_machine(); first_device_ && here > 1)
    text += " on " + unit_ + "s " + std::to_string(*first_device_) + " to " +
            std::to_string(*first_device_ + here - 1) + (here < size() ? " of each machine" : "");
  if (ranks_.devices_linked()) text += " with HCCL";
  text += ": ";
  const auto axis = [&](int n, const char* name) {
    if (n > 1) text += std::to_string(n) + " " + name + " x ";
  };
  axis(s.pipeline.stages, "pipeline"), axis(s.tensor, "tensor"), axis(s.context, "context");
  text += std::to_string(world_.place().data_size) + " data";
  if (s.expert > 1) text += ", " + std::to_string(s.expert) + " expert";
  text += ", ZeRO stage " + std::to_string(s.zero) + ", ";
  text += parallel::reduction_names[static_cast<int>(s.reduction)];
  text += " sums over " + std::to_string(s.leaves) + " leaves";
  return text;
}

RLCORE_INLINE std::size_t team::least(std::size_t number) const {
  if (size() == 1) return number;
  std::vector<std::size_t> numbers(static_cast<std::size_t>(size()));
  ranks_.all_gather(std::span<const std::size_t>(&number, 1), std::span(numbers));
  return *std::min_element(numbers.begin(), numbers.end());
}

RLCORE_INLINE void team::agree(std::int64_t number, const std::string& name,
                               const std::filesystem::path& folder) const {
  if (size() == 1) return;
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(size()));
  ranks_.all_gather(std::span<const std::int64_t>(&number, 1), std::span(numbers));
  for (std::size_t r = 1; r < numbers.size(); ++r)
    if (numbers[r] != numbers[0])
      throw file_error(folder.string() + ": rank 0 finds " + name + " " + std::to_string(numbers[0]) + ", rank " +
                       std::to_string(r) + " " + std::to_string(numbers[r]) +
                       "; expected a folder that all machines share");
}

RLCORE_INLINE parallel::any_communicator& team::alone(const options& opt) {
  const int started = parallel::ranks_of_environment(), ranks = std::max(started, thread_ranks(opt, started));
  if (ranks > 1)
    throw config_error(std::to_string(ranks) +
                       " ranks: this program has one; train::on_ranks (train/ranks/ranks.hpp) " +
                       "gives a trainer the others");
  return self_;
}

}  // namespace train
RLCORE_END
#endif
