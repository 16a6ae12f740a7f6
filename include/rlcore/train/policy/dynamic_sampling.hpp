// Dynamic sampling (DAPO, Yu et al. 2025, section 3.2): train on groups whose answers differ, sample until there are
// enough.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/objective/filter.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// The metric by which the answers of a group may differ: algorithm.filter_groups.metric.
enum class group_metric {
  acc,              ///< accuracy; the score where the reward function reports none
  score,            ///< score of the reward function
  seq_reward,       ///< with the penalty of the reward manager
  seq_final_reward  ///< and with the KL in the reward
};

/// algorithm.filter_groups.* of verl.
struct dynamic_sampling_settings {
  bool enabled = false;
  group_metric metric = group_metric::acc;
  std::int64_t max_rounds = 0;  ///< in one step; <= 0: no limit
  bool keep_surplus = true;     ///< groups beyond a step's need wait for the next one; verl throws them away
};

/// The registry has refused every other word.
group_metric group_metric_of(const std::string& name);

/// The number by which a group's answers are compared.
double value_of(const trajectory& t, group_metric metric) noexcept;

/// Counts of sampled groups. A group of one counts as neither.
struct group_counts {
  std::int64_t groups = 0, kept = 0;
  std::int64_t all_right = 0, all_wrong = 0;  ///< the same accuracy throughout, above 0 or not

  /// Adds the counts of another round.
  group_counts& operator+=(const group_counts& more) noexcept {
    groups += more.groups, kept += more.kept, all_right += more.all_right, all_wrong += more.all_wrong;
    return *this;
  }
  /// Sets the shares of groups whose answers are all right, or all wrong; nothing without groups.
  void write(metrics& out) const {
    if (groups == 0) return;
    out.set("train/groups_all_right", static_cast<double>(all_right) / static_cast<double>(groups));
    out.set("train/groups_all_wrong", static_cast<double>(all_wrong) / static_cast<double>(groups));
  }
};

/// Counts groups of `samples` neighbours; kept = groups.
group_counts count_groups(std::span<const trajectory> batch, std::int64_t samples);

/// Moves the groups of `round` whose values differ, and groups of one, to the end of `ready`. Equal values are dropped
/// also where NumPy's rounding, hence verl, would see a deviation.
group_counts keep_differing_groups(std::vector<trajectory>&& round, std::int64_t samples, group_metric metric,
                                   std::vector<trajectory>& ready);

/// The first `count` of `ready`; the rest stays there.
std::vector<trajectory> take_first(std::vector<trajectory>& ready, std::int64_t count);

/// The reason why a step with `rounds` rounds and `ready` groups gets no further round, or empty.
std::string limit_of_rounds(const dynamic_sampling_settings& filter, const batch_plan& plan, std::int64_t rounds,
                            std::int64_t ready);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE group_metric group_metric_of(const std::string& name) {
  if (name == "acc") return group_metric::acc;
  if (name == "score") return group_metric::score;
  if (name == "seq_reward") return group_metric::seq_reward;
  if (name == "seq_final_reward") return group_metric::seq_final_reward;
  throw config_error("'" + name + "' is not a metric of groups; expected acc, score, seq_reward or seq_final_reward");
}

RLCORE_INLINE double value_of(const trajectory& t, group_metric metric) noexcept {
  switch (metric) {
    case group_metric::acc:
      return t.accuracy.value_or(t.verdict.score);
    case group_metric::score:
      return t.verdict.score;
    case group_metric::seq_reward:
      return t.score();
    case group_metric::seq_final_reward:
      break;
  }
  return static_cast<double>(t.reward);
}

RLCORE_INLINE group_counts count_groups(std::span<const trajectory> batch, std::int64_t samples) {
  group_counts counts;
  const auto n = static_cast<std::size_t>(samples);
  for (std::size_t first = 0; first + n <= batch.size(); first += n) {
    ++counts.groups;
    const double value = value_of(batch[first], group_metric::acc);
    const auto group = batch.subspan(first, n);
    if (n < 2 ||
        !std::all_of(
            group.begin(), group.end(), [&](const trajectory& t) { return value_of(t, group_metric::acc) == value; }))
      continue;
    ++(value > 0 ? counts.all_right : counts.all_wrong);
  }
  counts.kept = counts.groups;
  return counts;
}

RLCORE_INLINE group_counts keep_differing_groups(std::vector<trajectory>&& round, std::int64_t samples,
                                                 group_metric metric, std::vector<trajectory>& ready) {
  group_counts counts = count_groups(round, samples);
  std::vector<double> values;
  for (const trajectory& t : round) values.push_back(value_of(t, metric));
  const kept_groups kept = keep_groups(rewards_differ{.keep_single = true})(values, samples);
  counts.kept = kept.kept;
  for (const std::int64_t row : kept.rows) ready.push_back(std::move(round[static_cast<std::size_t>(row)]));
  return counts;
}

RLCORE_INLINE std::vector<trajectory> take_first(std::vector<trajectory>& ready, std::int64_t count) {
  const auto end = ready.begin() + count;
  std::vector<trajectory> batch(std::make_move_iterator(ready.begin()), std::make_move_iterator(end));
  ready.erase(ready.begin(), end);
  return batch;
}

RLCORE_INLINE std::string limit_of_rounds(const dynamic_sampling_settings& filter, const batch_plan& plan,
                                          std::int64_t rounds, std::int64_t ready) {
  // With asynchronous training a step may sample what several take.
  const std::int64_t limit =
      filter.max_rounds * std::max<std::int64_t>(1, detail::ceil_div(plan.prompts_in_play, plan.prompts_per_round));
  const std::string had = std::to_string(rounds) + (rounds == 1 ? " round of " : " rounds of ") +
                          std::to_string(plan.prompts_per_round) + " prompts";
  if (limit > 0 && rounds >= limit)
    return had +
           " are the limit (raise algorithm.filter_groups.max_num_gen_batches, 0 for none, or take easier or "
           "harder prompts)";
  if (rounds >= plan.steps_per_epoch && ready == 0) return had + " were a whole pass over the data";
  return {};
}

}  // namespace train
RLCORE_END
#endif
