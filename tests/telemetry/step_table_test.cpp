// The table of steps: widths, units, headings, and which metrics it shows.
#include "rlcore/telemetry/step_table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

metrics policy_step(double scale = 1) {
  metrics m;
  m.set("actor/entropy", 0.5234 * scale);
  m.set("actor/pg_loss", -0.01234 * scale);
  m.set("actor/kl_loss", 0.00012 * scale);
  m.set("actor/ppo_kl", 7.0);
  m.set("actor/grad_norm", 0.412 * scale);
  m.set("critic/rewards/mean", 0.125 * scale);
  m.set("response_length/mean", 212.4 * scale);
  m.set("timing_s/step", 12.34 * scale);
  m.set("perf/total_num_tokens", 15000);
  return m;
}

TEST(step_table, numbers_fit_their_columns) {
  EXPECT_EQ(column_number(0.125, 3, 7), "0.125");
  EXPECT_EQ(column_number(0, 4, 8), "0.0000");
  EXPECT_EQ(column_number(-12.3456, 4, 8), "-12.3456");
  EXPECT_EQ(column_number(-123.456, 4, 8), "-123.456");
  EXPECT_EQ(column_number(0.000012, 4, 8), "1.2e-05");
  EXPECT_EQ(column_number(-0.000012, 4, 8), "-1.2e-05");
  EXPECT_EQ(column_number(-0.000012, 4, 7), "-1e-05");
  EXPECT_EQ(column_number(1.5e9, 3, 7), "1.5e+09");
  EXPECT_EQ(column_number(std::nan(""), 3, 7), "nan");
  EXPECT_EQ(column_number(-std::numeric_limits<double>::infinity(), 3, 7), "-inf");
  for (const double x : {1e-300, 0.000049, 0.00051, 0.9996, 9.9999, 99999.5, 1e20, 1e300})
    for (const double sign : {1.0, -1.0})
      EXPECT_LE(column_number(sign * x, 3, 7).size(), 7u) << column_number(sign * x, 3, 7);
}

TEST(step_table, units_are_readable) {
  EXPECT_EQ(column_seconds(0.421), "0.42s");
  EXPECT_EQ(column_seconds(12.34), "12.3s");
  EXPECT_EQ(column_seconds(59.96), "1m00s");
  EXPECT_EQ(column_seconds(307), "5m07s");
  EXPECT_EQ(column_seconds(3 * 3600 + 1200), "3h20m");
  EXPECT_EQ(column_seconds(4 * 86400 + 3 * 3600), "99h00m");
  EXPECT_EQ(column_seconds(5 * 86400 + 3 * 3600), "5d03h");
  EXPECT_EQ(column_seconds(120 * 86400), "120d");
  EXPECT_EQ(column_seconds(-1), "-");
  EXPECT_EQ(column_count(0), "0");
  EXPECT_EQ(column_count(987), "987");
  EXPECT_EQ(column_count(999.7), "1.00k");
  EXPECT_EQ(column_count(1234), "1.23k");
  EXPECT_EQ(column_count(45'600), "45.6k");
  EXPECT_EQ(column_count(999'600), "1.00M");
  EXPECT_EQ(column_count(std::nan("")), "-");
  for (const double x : {0.0, 0.4, 9.994, 9.9951, 59.94, 3599.6, 359'999.0, 86'400.0 * 999})
    EXPECT_LE(column_seconds(x).size(), 6u) << column_seconds(x);
}

TEST(step_table, of_a_policy_run) {
  step_table table;
  EXPECT_EQ(table.lines(1, policy_step(), {435, 307}),
            "   step  reward length     loss       KL entropy    grad   time  tok/s   left\n"
            "  1/435   0.125    212  -0.0123  0.00012   0.523   0.412  12.3s  1.22k  5m07s\n");
  EXPECT_EQ(table.lines(2, policy_step(), {435, -1}),
            "  2/435   0.125    212  -0.0123  0.00012   0.523   0.412  12.3s  1.22k      -\n");
}

TEST(step_table, of_supervised_runs) {
  metrics m;
  m.set("train/loss", 2.345678);
  m.set("train/grad_norm", 1.25);
  m.set("timing_s/step", 0.5);
  m.set("perf/total_num_tokens", 100);
  EXPECT_EQ(step_table().lines(10, m, {1200, 60}),
            "   step     loss    grad   time  tok/s   left\n"
            "10/1200   2.3457   1.250  0.50s    200  1m00s\n");
  m.set("train/acc", 0.75);
  EXPECT_EQ(step_table().lines(10000, m, {99999, 60}),
            "   step     loss    acc    grad   time  tok/s   left\n"
            "  10000   2.3457  0.750   1.250  0.50s    200  1m00s\n");
}

TEST(step_table, every_line_fits_80_columns) {
  step_table table;
  for (const double scale : {1.0, -1.0, 1e-9, 1e9, -1e30, 0.0, std::nan("")})
    for (const std::int64_t step : {std::int64_t{1}, std::int64_t{999}, std::int64_t{123'456}})
      for (const std::string& line : split(table.lines(step, policy_step(scale), {999'999, 86'400.0 * 300})))
        EXPECT_LT(line.size(), 80u) << line;
}

TEST(step_table, headings_come_again) {
  step_table table;
  int headings = 0;
  for (int step = 1; step <= 41; ++step)
    headings += table.lines(step, policy_step(), {50, 1}).starts_with("   step") ? 1 : 0;
  EXPECT_EQ(headings, 3);  // above steps 1, 21 and 41
}

// A critic warms up: the policy's numbers come later, and what is missing later leaves its place empty.
TEST(step_table, a_column_that_comes_later) {
  metrics warm;
  warm.set("critic/rewards/mean", 0.5);
  warm.set("timing_s/step", 1);
  warm.set("perf/total_num_tokens", 10);
  step_table table;
  EXPECT_EQ(split(table.lines(1, warm, {9, 8})).at(0), "   step  reward   time  tok/s   left");
  EXPECT_EQ(split(table.lines(2, policy_step(), {9, 8})).size(), 2u);
  EXPECT_EQ(table.lines(3, warm, {9, 8}),
            "    3/9   0.500      -        -        -       -       -  1.00s     10  8.00s\n");
}

TEST(step_table, the_kl_to_the_sampling_policy_where_there_is_no_other) {
  metrics m = policy_step();
  metrics without;
  for (const auto& [name, x] : m)
    if (name != "actor/kl_loss") without.set(name, x);
  EXPECT_NE(step_table().lines(1, without, {}).find("old KL"), std::string::npos);
  without.set("actor/reward_kl_penalty", 0.25);
  EXPECT_EQ(step_table().lines(1, without, {}).find("old KL"), std::string::npos);
}

TEST(step_table, what_was_validated) {
  metrics m;
  m.set("val-core/openai/gsm8k/reward/mean@1", 0.3125);
  m.set("val-aux/openai/gsm8k/score/mean@1", 0.5);
  m.set("timing_s/testing", 2.0);
  step_table table;
  EXPECT_EQ(table.lines(0, m, {}), "        validation: openai/gsm8k/reward/mean@1 0.3125\n");
  m.set("val-core/math_dapo/acc/mean@32", 0.125);
  m.set("eval/eval_loss", 0.6931);
  const auto lines = split(table.lines(0, m, {}));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "        validation: openai/gsm8k/reward/mean@1 0.3125");
  EXPECT_EQ(lines[1], "        validation: math_dapo/acc/mean@32 0.1250, eval_loss 0.6931");
  m.merge(policy_step());
  EXPECT_EQ(split(table.lines(1, m, {})).size(), 4u);
  EXPECT_EQ(table.lines(1, metrics(), {}), "");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
