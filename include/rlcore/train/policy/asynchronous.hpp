// Asynchronous training (verl's async_training.*): which groups a step begins, leaves unfinished, and trains on; and
// rounds that are drawn one step ahead. All of it counts tokens and prompts, and never time: a run has the same bits on
// any machine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rlcore/config/settings/async_options.hpp"
#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/policy/state.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// Counts of groups of a run. Weights are copied to sampling before the steps 1, 1 + k, 1 + 2k ...; only then are
/// responses drawn, as many groups as the k steps until the next copy take. staleness_threshold more are in play
/// beside them, and unfinished ones go on after the next copy.
class async_schedule {
 public:
  /// Of the run that `plan` counts.
  async_schedule(const async_settings& settings, const batch_plan& plan)
      : settings_(settings),
        per_step_(plan.prompts_per_step),
        per_round_(plan.prompts_per_round),
        samples_(plan.samples_per_prompt),
        steps_(plan.total_steps) {
    if (plan.total_rounds > 0)
      prompts_ = plan.total_rounds * plan.prompts_per_round;
    else if (!plan.dynamic_sampling)
      prompts_ = steps_ * per_step_;
  }

  /// Responses of a group.
  std::int64_t samples() const noexcept { return samples_; }
  /// Whether unfinished responses wait for the next weights.
  bool pauses() const noexcept { return settings_.partial_rollout && settings_.staleness_threshold > 0; }
  /// Rounds of the data that so many begun prompts are.
  std::int64_t rounds(std::int64_t begun) const { return detail::ceil_div(begun, per_round_); }
  /// Groups that have to be complete before step `step` begins.
  std::int64_t wanted(std::int64_t step) const {
    const bool copies = (step - 1) % settings_.steps_per_copy == 0;
    return per_step_ * (copies ? std::min(settings_.steps_per_copy, steps_ - step + 1) : 1);
  }
  /// Prompts to begin, where so many groups are unfinished, complete and begun in the whole run.
  std::int64_t to_begin(std::int64_t step, std::int64_t open, std::int64_t ready, std::int64_t begun) const {
    return std::clamp<std::int64_t>(settings_.in_play(wanted(step)) - open - ready, 0, left(begun));
  }
  /// Prompts that the run may still begin.
  std::int64_t left(std::int64_t begun) const { return std::max<std::int64_t>(0, prompts_ - begun); }
  /// Whether step `step` has to finish a group that `sampled_step` began.
  bool must_finish(std::int64_t sampled_step, std::int64_t step) const {
    const auto copy = [&](std::int64_t s) { return (s - 1) / settings_.steps_per_copy; };
    // What is complete waits for as many copies as there are prompts of further ones in play.
    const auto waits = static_cast<std::int64_t>(std::ceil(settings_.staleness_threshold)) - 1;
    const std::int64_t most = settings_.max_staleness - std::max<std::int64_t>(0, waits);
    return settings_.max_staleness > 0 && copy(step) - copy(sampled_step) >= most;
  }
  /// Whether step `step` may pause its responses: enough of the groups of `open` are complete beside the `ready` ones.
  bool may_pause(std::span<const trajectory> open, std::span<const char> complete, std::int64_t step,
                 std::int64_t ready) const {
    std::int64_t count = ready;
    for (std::size_t i = 0; i < open.size(); i += static_cast<std::size_t>(samples_)) {
      const auto rows = complete.subspan(i, static_cast<std::size_t>(samples_));
      const bool all = std::ranges::all_of(rows, [](char c) { return c != 0; });
      count += all;
      if (!all && open[i].response_length() > 0 && must_finish(open[i].sampled_step, step)) return false;
    }
    return count >= wanted(step);
  }

 private:
  async_settings settings_;
  std::int64_t per_step_ = 0, per_round_ = 0, samples_ = 0, steps_ = 0;
  std::int64_t prompts_ = std::numeric_limits<std::int64_t>::max();  ///< of the run
};

/// Moves the complete groups of `open` into the result: first those of the oldest weights, then those that were
/// complete after fewer of the tokens that this step has added (`drawn`, for each row; replies count), then in the
/// order of the data.
inline std::vector<trajectory> take_complete(std::vector<trajectory>& open, std::span<const std::int64_t> drawn,
                                             std::int64_t samples) {
  const auto n = static_cast<std::size_t>(samples);
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::size_t>> order;
  std::vector<trajectory> rest, complete;
  for (std::size_t i = 0; i < open.size(); i += n) {
    const auto group = std::span(open).subspan(i, n);
    if (std::ranges::any_of(group, &trajectory::paused))
      std::ranges::move(group, std::back_inserter(rest));
    else
      order.emplace_back(group[0].sampled_step, std::ranges::max(drawn.subspan(i, n)), group[0].position, i);
  }
  std::ranges::sort(order);
  for (const auto& [step, tokens, position, first] : order)
    std::ranges::move(std::span(open).subspan(first, n), std::back_inserter(complete));
  open = std::move(rest);
  return complete;
}

/// Windows of ranks that sample rows together: each row grows by as many tokens, then all ranks compare which rows are
/// complete. A window is 32 tokens, and later half of what the rows have grown by.
class common_windows final : public rollout::pause_points {
 public:
  /// With a flag for each row: may the rest pause?
  using condition = std::function<bool(std::span<const char> complete)>;

  /// `mine` are the rows that this rank draws, in the order of its requests. All must outlive this object.
  common_windows(parallel::any_communicator& ranks, std::span<const std::size_t> mine, std::span<char> complete,
                 const condition& may_pause)
      : ranks_(ranks), mine_(mine), complete_(complete), may_pause_(may_pause) {}

  std::int64_t next(std::span<const rollout::response> so_far) override {
    std::vector<std::uint32_t> ended;
    for (std::size_t i = 0; drawn_ > 0 && i < so_far.size(); ++i)
      if (so_far[i].reason != rollout::finish::paused) ended.push_back(static_cast<std::uint32_t>(mine_[i]));
    if (drawn_ > 0) {
      for (const std::uint32_t row : gather_parts(ranks_, std::span<const std::uint32_t>(ended))) complete_[row] = 1;
      if (std::ranges::all_of(complete_, [](char c) { return c != 0; }) || may_pause_(complete_)) return 0;
    }
    const std::int64_t window = std::max<std::int64_t>(32, drawn_ / 2);
    drawn_ += window;
    return window;
  }

 private:
  parallel::any_communicator& ranks_;
  std::span<const std::size_t> mine_;
  std::span<char> complete_;
  const condition& may_pause_;
  std::int64_t drawn_ = 0;
};

/// Sets async/staleness and fully_async/* of a step that trains `batch`, groups of `samples`.
inline void report_staleness(std::span<const trajectory> batch, std::int64_t samples, std::int64_t step, metrics& out) {
  std::int64_t oldest = step, stale = 0, partial = 0, span = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const trajectory& t = batch[i];
    oldest = std::min(oldest, t.sampled_step);
    stale += i % static_cast<std::size_t>(samples) == 0 && t.sampled_step < step;
    partial += !t.sampled_by.empty();
    if (!t.sampled_by.empty()) span = std::max(span, t.sampled_by.back().step - t.sampled_by.front().step);
  }
  out.set("async/staleness", step - oldest);
  out.set("fully_async/count/stale_samples_processed", stale);
  out.set("fully_async/partial/total_partial_num", partial);
  out.set("fully_async/partial/partial_ratio", static_cast<double>(partial) / static_cast<double>(batch.size()));
  out.set("fully_async/partial/max_partial_span", span);
}

/// rlcore.async_depth=1: the round that was begun ahead of this step, or the first one; then the next one begins.
template <class Sampler>
std::vector<trajectory> round_ahead(Sampler& sampler, run_state& state, const batch_plan& plan, metrics& numbers,
                                    stages& time) {
  std::vector<trajectory> round;
  if (!state.surplus.empty())
    round = std::exchange(state.surplus, {});  // of a checkpoint
  else
    round = sampler.has_ahead() ? sampler.take_ahead(time) : sampler.sample_round(state.step, state.rounds, time);
  numbers.set("async/staleness", state.step - round.front().sampled_step);
  const bool more = plan.total_rounds == 0 || state.rounds < plan.total_rounds;
  if (state.step < plan.total_steps && more) sampler.begin_ahead(state.step, state.rounds + 1, time);
  return round;
}

/// async_training.*: begins groups, draws until enough of them are complete, and returns these with their scores. The
/// others stay in state.open. `sampler` is a response_sampler.
template <class Sampler>
std::vector<trajectory> complete_groups(Sampler& sampler, const async_schedule& schedule, run_state& state,
                                        stages& time) {
  const std::int64_t samples = schedule.samples(), ready = std::ssize(state.surplus) / samples;
  std::vector<trajectory> rows = std::move(state.open);
  const std::int64_t more = schedule.to_begin(state.step, std::ssize(rows) / samples, ready, state.prompts);
  sampler.begin_groups(state.prompts, more, rows);
  state.prompts += more;
  state.rounds = schedule.rounds(state.prompts);
  std::vector<std::int64_t> drawn;
  for (const trajectory& t : rows) drawn.push_back(t.response_length());
  if (rows.empty())
    throw config_error("async_training: all " + std::to_string(state.prompts) +
                       " prompts of the run are sampled, and step " + std::to_string(state.step) +
                       " has too few; a resumed run needs the batch sizes that it began with, and no fewer steps");
  common_windows::condition may_pause;
  if (schedule.pauses())
    may_pause = [&](std::span<const char> complete) { return schedule.may_pause(rows, complete, state.step, ready); };
  sampler.draw_on(rows, state.step, may_pause, time);
  for (std::size_t i = 0; i < rows.size(); ++i) drawn[i] = rows[i].response_length() - drawn[i];
  std::vector<trajectory> complete = take_complete(rows, drawn, samples);
  state.open = std::move(rows);
  sampler.score_groups(complete, time);
  return complete;
}

}  // namespace train
RLCORE_END
