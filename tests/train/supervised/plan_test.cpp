// How many steps, and which rows in which.
#include "rlcore/train/supervised/plan.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;

supervised_settings settings(std::int64_t batch, std::int64_t epochs, epoch_end end = epoch_end::drop) {
  supervised_settings s;
  s.rows_per_step = batch, s.epochs = epochs, s.at_epoch_end = end;
  return s;
}

TEST(supervised_plan, steps_of_verl) {
  supervised_settings s = settings(512, 1);
  s.rows_per_pass = 4;
  s.schedule.warmup_ratio = 0.1;
  const supervised_plan plan = make_supervised_plan(s, 7473, 1319);
  EXPECT_EQ(plan.steps_per_epoch, 14);  // 7473 // 512
  EXPECT_EQ(plan.total_steps, 14);
  EXPECT_EQ(plan.warmup_steps, 1);  // int(1.4)
  EXPECT_EQ(s.schedule.total_steps, 14);
  const std::string text = plan.table().text();
  EXPECT_NE(text.find("  rows per step     512  in 128 passes through the model, of 4 rows each, which saves memory\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("305 rows are left out of each epoch"), std::string::npos) << text;
  s.rows_per_pass = 512;
  EXPECT_NE(make_supervised_plan(s, 7473, 0).table().text().find("512  in one pass through the model\n"),
            std::string::npos);
  s.rows_per_pass = 500;
  EXPECT_NE(
      make_supervised_plan(s, 7473, 0).table().text().find("2 passes through the model, of at most 500 rows each"),
      std::string::npos);
}

TEST(supervised_plan, an_early_end_keeps_the_schedule_and_a_late_one_adds_epochs) {
  supervised_settings s = settings(8, 4);
  s.total_steps = 5;
  EXPECT_EQ(make_supervised_plan(s, 20, 0).total_steps, 5);
  EXPECT_EQ(s.schedule.total_steps, 8);
  s.total_steps = 11;
  const supervised_plan plan = make_supervised_plan(s, 20, 0);
  EXPECT_EQ(plan.epochs, 6);
  EXPECT_EQ(s.schedule.total_steps, 11);
}

TEST(supervised_plan, steps_that_run_on) {
  supervised_settings s = settings(8, 3, epoch_end::run_on);
  s.warmup_round_up = 0.03;
  const supervised_plan plan = make_supervised_plan(s, 20, 0);
  EXPECT_EQ(plan.steps_per_epoch, 2);
  EXPECT_EQ(plan.total_steps, 7);  // 60 rows in steps of 8
  EXPECT_EQ(plan.warmup_steps, 1);
  s.epochs = 1;
  EXPECT_EQ(make_supervised_plan(s, 20, 0).total_steps, 2);
}

TEST(supervised_plan, refuses_products_of_more_than_64_bits) {
  for (const epoch_end end : {epoch_end::drop, epoch_end::run_on}) {
    supervised_settings s = settings(8, INT64_MAX, end);
    scratch::error_of<config_error>([&] { make_supervised_plan(s, 20, 0); }, {"epochs=9223372036854775807: ", " x "});
    s.epochs = 1, s.total_steps = INT64_MAX;
    scratch::error_of<config_error>([&] { make_supervised_plan(s, 20, 0); }, {"total steps=9223372036854775807: "});
  }
}

TEST(supervised_plan, refuses_a_set_that_fills_no_step) {
  supervised_settings s = settings(8, 2);
  scratch::error_of<config_error>([&] { make_supervised_plan(s, 7, 0); }, {"only 7 rows", "step of 8"});
  s = settings(8, 1, epoch_end::run_on);
  scratch::error_of<config_error>([&] { make_supervised_plan(s, 7, 0); }, {"7 rows; 1 epoch does not fill one step"});
  s.epochs = 2;
  EXPECT_EQ(make_supervised_plan(s, 7, 0).total_steps, 1);
}

TEST(step_rows, an_epoch_visits_every_row_once_and_each_epoch_in_another_order) {
  supervised_settings s = settings(3, 4);
  const supervised_plan plan = make_supervised_plan(s, 10, 0);
  step_rows rows(plan, 5, true), late(plan, 5, true);
  std::vector<std::vector<std::uint32_t>> epochs;
  for (std::int64_t step = 1; step <= 12; ++step) {
    const auto now = rows(step);
    if ((step - 1) % 3 == 0) epochs.emplace_back();
    epochs.back().insert(epochs.back().end(), now.begin(), now.end());
    EXPECT_EQ(rows.epoch_of(step), (step - 1) / 3);
    EXPECT_EQ(rows.ends_epoch(step), step % 3 == 0);
  }
  for (const auto& epoch : epochs) EXPECT_EQ(std::set<std::uint32_t>(epoch.begin(), epoch.end()).size(), 9u);
  EXPECT_NE(epochs[0], epochs[1]);
  for (const std::int64_t step : {11, 2, 7})
    EXPECT_EQ(late(step), std::vector<std::uint32_t>(
                              epochs[static_cast<std::size_t>((step - 1) / 3)].begin() + (step - 1) % 3 * 3,
                              epochs[static_cast<std::size_t>((step - 1) / 3)].begin() + (step - 1) % 3 * 3 + 3));
  step_rows in_order(plan, 5, false);
  EXPECT_EQ(in_order(5), (std::vector<std::uint32_t>{3, 4, 5}));
}

TEST(step_rows, steps_that_run_on_are_the_epochs_one_after_another) {
  supervised_settings s = settings(4, 3, epoch_end::run_on);
  const supervised_plan plan = make_supervised_plan(s, 6, 0);
  step_rows rows(plan, 5, true);
  std::vector<std::uint32_t> stream, expected;
  for (std::int64_t step = 1; step <= plan.total_steps; ++step)
    for (const std::uint32_t i : rows(step)) stream.push_back(i);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch)
    for (const std::uint32_t i : data::epoch_order(6, 5, epoch, true)) expected.push_back(i);
  expected.resize(stream.size());
  EXPECT_EQ(stream.size(), 16u);
  EXPECT_EQ(stream, expected);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
