#include "rlcore/parallel/pipeline/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::parallel::pipeline_action;
using rlcore::parallel::pipeline_shape;
using rlcore::parallel::pipeline_times;
using rlcore::parallel::simulate;
using rlcore::parallel::stage_schedule;
using testing::HasSubstr;

std::string text(const pipeline_shape& shape, int stage) {
  std::string all;
  for (const pipeline_action& a : stage_schedule(shape, stage)) all += (all.empty() ? "" : " ") + a.text(shape.chunks);
  return all;
}

/// A stage's forward takes 1, its backward 2, a chunk its share of them.
pipeline_times timed(const pipeline_shape& shape) {
  return simulate(shape, [&](int, const pipeline_action& a) { return (a.forward ? 1.0 : 2.0) / shape.chunks; });
}

TEST(pipeline_schedule, one_forward_one_backward) {
  const pipeline_shape shape{.stages = 4, .passes = 6};
  EXPECT_EQ(text(shape, 0), "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
  EXPECT_EQ(text(shape, 1), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  EXPECT_EQ(text(shape, 2), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5");
  EXPECT_EQ(text(shape, 3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
}

TEST(pipeline_schedule, interleaved) {
  const pipeline_shape shape{.stages = 2, .chunks = 2, .passes = 4};
  EXPECT_EQ(text(shape, 0), "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3");
  EXPECT_EQ(text(shape, 1), "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3");
}

TEST(pipeline_schedule, times_and_passes_alive) {
  struct expected {
    int stages, passes, chunks;
    double time;
    std::vector<int> alive;
  };
  for (const expected& e :
       {expected{2, 4, 1, 15, {2, 1}}, expected{4, 2, 1, 15, {2, 2, 2, 1}}, expected{4, 8, 1, 33, {4, 3, 2, 1}},
        expected{8, 8, 1, 45, {8, 7, 6, 5, 4, 3, 2, 1}}, expected{8, 16, 1, 69, {8, 7, 6, 5, 4, 3, 2, 1}},
        expected{8, 32, 1, 117, {8, 7, 6, 5, 4, 3, 2, 1}}, expected{8, 512, 1, 1557, {8, 7, 6, 5, 4, 3, 2, 1}},
        expected{2, 4, 2, 13.5, {5, 3}}, expected{4, 8, 2, 28.5, {11, 9, 7, 5}},
        expected{8, 32, 2, 106.5, {23, 21, 19, 17, 15, 13, 11, 9}}}) {
    const pipeline_times t = timed({.stages = e.stages, .chunks = e.chunks, .passes = e.passes});
    EXPECT_DOUBLE_EQ(t.time, e.time) << e.stages << " " << e.passes << " " << e.chunks;
    EXPECT_EQ(t.alive, e.alive);
    EXPECT_NEAR(t.idle(), 1 - 3.0 * e.passes / e.time, 1e-12);
  }
}

TEST(pipeline_schedule, every_list_is_a_schedule) {
  int shapes = 0;
  for (int stages = 1; stages <= 8; ++stages)
    for (int passes = 0; passes <= 20; ++passes)
      for (int chunks = 1; chunks <= 4; ++chunks)
        for (const int group : {0, stages + 1}) {
          const pipeline_shape shape{stages, chunks, passes, group};
          const pipeline_times t = timed(shape);  // throws if it is none
          EXPECT_LE(shape.padded_passes() - passes, chunks == 1 ? 0 : shape.passes_in_group() - 1);
          for (int r = 0; chunks == 1 && r < stages; ++r)
            EXPECT_EQ(t.alive[static_cast<std::size_t>(r)], std::min(passes, stages - r));
          ++shapes;
          if (stages == 1 || passes == 0) continue;
          // The last virtual stage goes back at once: its forward and backward can be one call.
          const std::vector<pipeline_action> last = stage_schedule(shape, stages - 1);
          for (std::size_t i = 0; i < last.size(); ++i)
            if (last[i].forward && last[i].chunk == chunks - 1) {
              EXPECT_EQ(last.at(i + 1), (pipeline_action{false, last[i].chunk, last[i].pass}));
            }
        }
  EXPECT_EQ(shapes, 8 * 21 * 4 * 2);
  EXPECT_THROW(stage_schedule({.stages = 4, .chunks = 2, .passes = 4, .group = 3}, 0), rlcore::config_error);
}

std::string refusal(const pipeline_shape& shape, const std::vector<std::vector<pipeline_action>>& lists) {
  try {
    simulate(shape, lists, [](int, const pipeline_action&) { return 1.0; });
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "a schedule";
}

TEST(pipeline_schedule, mistakes_are_found) {
  const pipeline_shape shape{.stages = 2, .passes = 3};
  const std::vector<std::vector<pipeline_action>> right{stage_schedule(shape, 0), stage_schedule(shape, 1)};
  EXPECT_EQ(refusal(shape, right), "a schedule");
  auto lists = right;
  lists[0].pop_back();
  EXPECT_THAT(refusal(shape, lists), HasSubstr("stage 0 has 5 actions, expected 6"));
  lists = right, lists[1][1] = lists[1][0];
  EXPECT_THAT(refusal(shape, lists), HasSubstr("F0 of stage 1"));
  lists = right, std::swap(lists[1][0], lists[1][1]);
  EXPECT_THAT(refusal(shape, lists), HasSubstr("B0 of stage 1"));
  lists = {{{true, 0, 0}, {true, 0, 1}, {false, 0, 1}, {false, 0, 0}},
           {{true, 0, 0}, {true, 0, 1}, {false, 0, 1}, {false, 0, 0}}};
  EXPECT_THAT(refusal({.stages = 2, .passes = 2}, lists), HasSubstr("do not ascend"));
  // Stage 0 wants the backward of the first pass before it has sent the second, stage 1 the other way round.
  lists = {{{true, 0, 0}, {false, 0, 0}, {true, 0, 1}, {false, 0, 1}},
           {{true, 0, 0}, {true, 0, 1}, {false, 0, 0}, {false, 0, 1}}};
  EXPECT_THAT(refusal({.stages = 2, .passes = 2}, lists), HasSubstr("stages wait for each other: B0 of stage 0"));
  // A schedule that is not ours is one as long as its order is possible: all forwards first (GPipe).
  std::vector<pipeline_action> all;
  for (int i = 0; i < 3; ++i) all.push_back({true, 0, i});
  for (int i = 0; i < 3; ++i) all.push_back({false, 0, i});
  EXPECT_EQ(refusal(shape, {all, all}), "a schedule");
}

TEST(pipeline_schedule, unequal_passes) {
  // Two stages, the second twice as slow: it never waits after its first input.
  const pipeline_times t = simulate({.stages = 2, .passes = 5}, [](int stage, const pipeline_action& a) {
    return (a.forward ? 1.0 : 2.0) * (stage + 1);
  });
  EXPECT_DOUBLE_EQ(t.time, 1 + 5 * 6 + 2);
  EXPECT_DOUBLE_EQ(t.busy[0], 15);
  EXPECT_DOUBLE_EQ(t.busy[1], 30);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
