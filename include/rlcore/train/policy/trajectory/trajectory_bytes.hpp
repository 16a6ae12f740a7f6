// Serializes trajectories for transfer between ranks of the same build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"
#include "rlcore/train/ranks/byte_stream.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

/// visit(field) for every field of a trajectory.
template <class Trajectory, class Visit>
void each_field(Trajectory& t, Visit&& visit) {
  visit(t.tokens), visit(t.prompt_length), visit(t.row), visit(t.sample), visit(t.sampled_step), visit(t.sampled_ids);
  visit(t.old_logp), visit(t.entropy), visit(t.ref_logp), visit(t.rollout_logp), visit(t.reason);
  visit(t.sampling_mask.values), visit(t.sampling_mask.offsets), visit(t.routed_experts);
  visit(t.verdict.score), visit(t.verdict.why), visit(t.verdict.acc), visit(t.verdict.pred),
      visit(t.verdict.has_reason);
  visit(t.accuracy), visit(t.length_penalty), visit(t.reward), visit(t.token_reward), visit(t.weight),
      visit(t.advantage);
  visit(t.selected), visit(t.token_advantage), visit(t.value), visit(t.token_return);
  visit(t.sum_squared_probs), visit(t.greedy_score), visit(t.context), visit(t.talk), visit(t.turn_rewards),
      visit(t.agent_logs), visit(t.rewarded_by_turn), visit(t.sampled_by), visit(t.position), visit(t.replies);
}

}  // namespace detail

/// Every field of every trajectory.
inline std::vector<std::byte> to_bytes(std::span<const trajectory> rows) {
  byte_writer to;
  for (const trajectory& t : rows) detail::each_field(t, to);
  return std::move(to.bytes);
}
/// The inverse. Throws std::logic_error where the bytes end too early.
inline std::vector<trajectory> trajectories_of(std::span<const std::byte> bytes) {
  std::vector<trajectory> rows;
  byte_reader from(bytes);
  while (!from.done()) detail::each_field(rows.emplace_back(), from);
  return rows;
}

/// Gives every rank of `group` the trajectories of all ranks, in rank order.
inline std::vector<trajectory> gather_trajectories(parallel::any_communicator& group, std::vector<trajectory> mine) {
  if (group.size() == 1) return mine;
  const std::vector<std::byte> bytes = to_bytes(mine);
  return trajectories_of(gather_parts(group, std::span<const std::byte>(bytes)));
}

/// Calls compute() with this rank's shard of `rows`; the shards have about equally many tokens, and may be empty.
/// compute() sets `fields` of its trajectories, one number per token of the policy. All ranks then receive all of them,
/// if `stages` are those of a pipeline from its last stage.
template <class Compute>
void compute_own_rows(parallel::any_communicator& group, std::span<trajectory> rows,
                      std::span<std::vector<float> trajectory::* const> fields, Compute&& compute,
                      parallel::world* stages = nullptr) {
  const auto ranks = static_cast<std::size_t>(group.size());
  if (ranks == 1 && (stages == nullptr || stages->pipeline().size() == 1)) return compute(rows);
  std::vector<std::int64_t> tokens;
  for (const trajectory& t : rows) tokens.push_back(std::ssize(t.tokens));
  const row_range shard = share_by_cost(tokens, ranks, static_cast<std::size_t>(group.rank()));
  compute(rows.subspan(shard.first, shard.size()));
  std::vector<float> mine, gathered;
  std::vector<std::size_t> counts(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const row_range range = share_by_cost(tokens, ranks, r);
    for (std::size_t i = range.first; i < range.last; ++i)
      counts[r] += static_cast<std::size_t>(rows[i].policy_length()) * fields.size();
  }
  for (std::size_t i = shard.first; i < shard.last; ++i)
    for (const auto field : fields) mine.insert(mine.end(), (rows[i].*field).begin(), (rows[i].*field).end());
  std::size_t total = 0;
  for (const std::size_t n : counts) total += n;
  gathered.resize(total);
  group.all_gather_v(std::span<const float>(mine), std::span(gathered), std::span<const std::size_t>(counts));
  if (stages != nullptr) parallel::broadcast_from_last_stage(*stages, std::span(gathered));
  auto from = gathered.begin();
  for (trajectory& t : rows)
    for (const auto field : fields) {
      (t.*field).assign(from, from + t.policy_length());
      from += t.policy_length();
    }
}

}  // namespace train
RLCORE_END
