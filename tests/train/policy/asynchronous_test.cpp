// Random schedules of asynchronous training, with a sampler whose responses have random lengths.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/train/policy/asynchronous.hpp"
#include "rlcore/train/policy/collect.hpp"
#include "rlcore/train/policy/dynamic_sampling.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;

struct setting {
  async_settings async;
  batch_plan plan;
  std::int64_t longest = 0;
};

setting random_setting(std::uint32_t number) {
  const random_key key{41};
  const auto draw = [&](std::uint32_t what, std::uint32_t below) {
    return std::int64_t{key.below(below, number, what)};
  };
  setting s;
  s.async = {.enabled = true,
             .staleness_threshold = static_cast<double>(draw(0, 3) == 0 ? draw(8, 13) : draw(8, 5)) / 4,
             .steps_per_copy = 1 + draw(1, 4),
             .partial_rollout = draw(2, 4) > 0,
             .max_staleness = draw(3, 4)};
  if (static_cast<double>(s.async.max_staleness) < s.async.staleness_threshold) s.async.max_staleness = 0;  // refused
  batch_plan& p = s.plan;
  p.prompts_per_step = p.prompts_per_round = 1 + draw(4, 6);
  p.samples_per_prompt = 1 + draw(5, 4);
  p.trajectories_per_step = p.prompts_per_step * p.samples_per_prompt;
  p.total_steps = 1 + draw(6, 12);
  p.steps_per_copy = s.async.steps_per_copy;
  p.prompts_in_play = static_cast<std::int64_t>(static_cast<double>(p.prompts_per_step * p.steps_per_copy) *
                                                (1 + s.async.staleness_threshold));
  s.longest = 1 + draw(7, 150);
  return s;
}

/// Responses end after a number of tokens that only (position, sample) determines.
struct fake_sampler {
  const setting& s;
  parallel::any_communicator_of<parallel::alone> ranks{parallel::alone()};

  std::int64_t length(const trajectory& t) const {
    const auto row = static_cast<std::uint32_t>(t.position);
    const std::int64_t any = 1 + random_key{43}.below(static_cast<std::uint32_t>(s.longest), row, t.sample, 0);
    return random_key{43}.below(4, row, t.sample, 1) == 0 ? any : 1 + any / 8;  // a long tail
  }
  void begin_groups(std::int64_t first, std::int64_t count, std::vector<trajectory>& rows) const {
    for (std::int64_t at = first; at < first + count; ++at)
      for (std::int64_t i = 0; i < s.plan.samples_per_prompt; ++i) {
        trajectory& t = rows.emplace_back();
        t.position = at, t.sample = static_cast<std::uint32_t>(i), t.row = static_cast<std::uint32_t>(at);
        t.tokens = {1}, t.prompt_length = 1, t.reason = rollout::finish::paused;
      }
  }
  void draw_on(std::vector<trajectory>& rows, std::int64_t step, const common_windows::condition& enough, stages&) {
    std::vector<char> complete;
    std::vector<std::size_t> mine;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      complete.push_back(!rows[i].paused());
      if (rows[i].paused()) mine.push_back(i);
    }
    std::vector<rollout::response> drawn(mine.size());
    const auto draw = [&](std::int64_t window) {
      for (std::size_t i = 0; i < mine.size(); ++i) {
        rollout::response& r = drawn[i];
        const trajectory& t = rows[mine[i]];
        const std::int64_t left = length(t) - t.response_length() - std::ssize(r.tokens);
        for (std::int64_t n = std::min(window, left); n > 0; --n)
          r.tokens.push_back(2), r.logp.push_back(static_cast<float>(step)), r.entropy.push_back(0);
        r.reason = left <= window ? rollout::finish::eos : rollout::finish::paused;
      }
    };
    if (enough) {
      common_windows windows(ranks, mine, complete, enough);
      while (const std::int64_t window = windows.next(drawn)) draw(window);
    } else {
      draw(s.longest);
    }
    for (std::size_t i = 0; i < mine.size(); ++i) append_response(rows[mine[i]], drawn[i], step);
  }
  void score_groups(std::vector<trajectory>&, stages&) const {}
};

/// What a run trains, as (step, position, sample, steps that drew it). `stops`: after that step it goes on from a
/// checkpoint.
using trained = std::vector<std::tuple<std::int64_t, std::int64_t, std::uint32_t, std::vector<float>>>;

trained run(const setting& s, std::optional<std::int64_t> stops, const std::filesystem::path& folder) {
  const async_schedule schedule(s.async, s.plan);
  fake_sampler sampler{s};
  run_state state;
  stages time;
  trained all;
  const std::int64_t n = s.plan.samples_per_prompt;
  for (state.step = 1; state.step <= s.plan.total_steps; ++state.step) {
    while (std::ssize(state.surplus) / n < schedule.wanted(state.step)) {
      std::vector<trajectory> more = complete_groups(sampler, schedule, state, time);
      EXPECT_FALSE(more.empty());
      state.surplus.insert(state.surplus.end(), more.begin(), more.end());
      EXPECT_LE((std::ssize(state.surplus) + std::ssize(state.open)) / n,
                std::max(s.plan.prompts_in_play, schedule.wanted(state.step)));
      if (!s.async.partial_rollout) {
        EXPECT_TRUE(state.open.empty());
      }
    }
    for (const trajectory& t : take_first(state.surplus, s.plan.trajectories_per_step)) {
      EXPECT_EQ(t.response_length(), sampler.length(t));
      std::vector<step_run> runs = t.sampled_by;
      if (runs.empty()) runs.push_back({t.sampled_step, t.response_length()});
      std::vector<float> by;
      for (const step_run& r : runs) by.insert(by.end(), static_cast<std::size_t>(r.count), static_cast<float>(r.step));
      EXPECT_EQ(by, t.old_logp) << "each token has the step that drew it";
      const auto copy = [&](std::int64_t step) { return (step - 1) / s.async.steps_per_copy; };
      if (s.async.max_staleness > 0) {
        EXPECT_LE(copy(state.step) - copy(t.sampled_step), s.async.max_staleness);
      }
      if (s.async.staleness_threshold == 0) {
        EXPECT_EQ(copy(state.step), copy(t.sampled_step));
      }
      all.emplace_back(state.step, t.position, t.sample, by);
    }
    if (stops == state.step) {
      std::vector<trajectory> kept = state.surplus;
      kept.insert(kept.end(), state.open.begin(), state.open.end());
      std::filesystem::remove(folder / surplus_file_name);
      write_surplus(folder, kept);
      run_state next;
      next.step = state.step, next.prompts = state.prompts;
      divide_surplus(read_surplus(folder), next);
      state = std::move(next);
    }
  }
  EXPECT_TRUE(state.open.empty() && state.surplus.empty()) << "nothing is begun that is not trained on";
  return all;
}

TEST(async_schedule, loses_and_doubles_no_response_and_keeps_its_bounds) {
  const scratch::folder folder;
  std::size_t stale = 0, partial = 0;
  for (std::uint32_t number = 0; number < 10000 && !testing::Test::HasFailure(); ++number) {
    SCOPED_TRACE(number);
    const setting s = random_setting(number);
    const trained all = run(s, {}, folder.path());
    std::set<std::pair<std::int64_t, std::uint32_t>> seen;
    for (const auto& [step, position, sample, by] : all) {
      seen.insert({position, sample});
      stale += by.front() < static_cast<float>(step);
      partial += by.front() < by.back();
    }
    EXPECT_EQ(seen.size(), all.size());
    EXPECT_EQ(std::ssize(all), s.plan.total_steps * s.plan.trajectories_per_step);
    EXPECT_EQ(std::prev(seen.end())->first, s.plan.total_steps * s.plan.prompts_per_step - 1);
    if (number % 100 != 0) continue;
    for (std::int64_t stop = 1; stop < s.plan.total_steps; ++stop)
      EXPECT_EQ(run(s, stop, folder.path()), all) << "stopped after step " << stop;
  }
  EXPECT_GT(stale, 10000u);
  EXPECT_GT(partial, 1000u);
}

TEST(async_schedule, groups_are_trained_by_age_then_by_length) {
  std::vector<trajectory> open;
  std::vector<std::int64_t> drawn;
  const auto add = [&](std::int64_t position, std::int64_t step, std::int64_t tokens, bool paused = false) {
    for (int i = 0; i < 2; ++i) {
      trajectory& t = open.emplace_back();
      t.position = position, t.sampled_step = step;
      t.reason = paused && i == 0 ? rollout::finish::paused : rollout::finish::eos;
      drawn.push_back(tokens - i);
    }
  };
  add(0, 1, 40), add(1, 1, 3, true), add(2, 2, 9), add(3, 2, 5), add(4, 2, 9), add(5, 1, 30);
  const std::vector<trajectory> complete = take_complete(open, drawn, 2);
  std::vector<std::int64_t> order, left;
  for (const trajectory& t : complete) order.push_back(t.position);
  for (const trajectory& t : open) left.push_back(t.position);
  EXPECT_EQ(order, (std::vector<std::int64_t>{5, 5, 0, 0, 3, 3, 2, 2, 4, 4}));
  EXPECT_EQ(left, (std::vector<std::int64_t>{1, 1}));
}

TEST(async_schedule, staleness_is_reported) {
  std::vector<trajectory> batch(4);
  for (trajectory& t : batch) t.sampled_step = 7;
  batch[2].sampled_step = batch[3].sampled_step = 5;
  batch[3].sampled_by = {{5, 16}, {6, 18}, {7, 2}};
  metrics numbers;
  report_staleness(batch, 2, 7, numbers);
  EXPECT_EQ(numbers.get("async/staleness"), 2);
  EXPECT_EQ(numbers.get("fully_async/count/stale_samples_processed"), 1);
  EXPECT_EQ(numbers.get("fully_async/partial/total_partial_num"), 1);
  EXPECT_EQ(numbers.get("fully_async/partial/partial_ratio"), 0.25);
  EXPECT_EQ(numbers.get("fully_async/partial/max_partial_span"), 2);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
