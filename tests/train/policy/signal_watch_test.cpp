// A run without a signal is told so once, with what the scores suggest.
#include "rlcore/train/policy/step_metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;
using testing::HasSubstr;
using testing::Not;

struct answer {
  double score;
  bool cut = false;
  verify::reason why = verify::reason::wrong;
  double penalty = 0;
};
std::vector<trajectory> batch(std::initializer_list<answer> answers) {
  std::vector<trajectory> all;
  for (const answer& a : answers) {
    trajectory t;
    t.tokens = {1, 2, 3}, t.prompt_length = 1;
    t.reason = a.cut ? rollout::finish::length : rollout::finish::eos;
    t.verdict.score = a.score, t.verdict.why = a.why, t.length_penalty = a.penalty;
    all.push_back(t);
  }
  return all;
}
policy_settings settings(std::int64_t samples) {
  policy_settings s;
  s.samples = samples, s.max_response_length = 2;
  return s;
}
metrics gradient(double norm) {
  metrics m;
  m.set("actor/grad_norm", norm);
  return m;
}

TEST(signal_watch, groups_that_differ_need_no_word) {
  signal_watch watch;
  for (int step = 0; step < 9; ++step) EXPECT_EQ(watch(batch({{0}, {0}, {1}, {0}}), gradient(0.5), settings(2)), "");
  EXPECT_EQ(watch(batch({{0}, {0, false, {}, -0.5}, {1}, {1}}), gradient(0.5), settings(2)), "");  // a length penalty
}

TEST(signal_watch, equal_groups_are_said_once_with_the_likely_reason) {
  const std::vector<trajectory> wrong = batch({{0, true, verify::reason::no_match}, {0, true}, {0}, {0}});
  signal_watch watch;
  const std::string text = watch(wrong, gradient(0), settings(2));
  EXPECT_THAT(text, HasSubstr("all responses to a prompt score alike, in every group"));
  EXPECT_THAT(text, HasSubstr("No response was rewarded"));
  EXPECT_THAT(text, HasSubstr("the form that the reward function looks for (1 of 4)"));
  EXPECT_THAT(text, HasSubstr("cut at data.max_response_length=2 (2 of 4)"));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  for (int step = 0; step < 5; ++step) EXPECT_EQ(watch(wrong, gradient(0), settings(2)), "");

  const std::string right = signal_watch()(batch({{1}, {1}, {1}, {1}}), gradient(0), settings(2));
  EXPECT_THAT(right, HasSubstr("too easy"));
  EXPECT_THAT(right, Not(HasSubstr("max_response_length")));
  EXPECT_THAT(signal_watch()(batch({{1}, {1}, {0}, {0}}), gradient(0), settings(2)), HasSubstr("2 of 4 are right"));
}

TEST(signal_watch, without_groups_several_steps_count) {
  signal_watch watch;
  const std::vector<trajectory> wrong = batch({{0}, {0}});
  for (int step = 1; step < signal_watch::patience; ++step) EXPECT_EQ(watch(wrong, gradient(0.5), settings(1)), "");
  EXPECT_EQ(watch(batch({{0}, {1}}), gradient(0.5), settings(1)), "");  // begins anew
  for (int step = 1; step < signal_watch::patience; ++step) EXPECT_EQ(watch(wrong, gradient(0.5), settings(1)), "");
  EXPECT_THAT(watch(wrong, gradient(0.5), settings(1)), HasSubstr("all responses of a step score alike"));
}

TEST(signal_watch, no_gradient_though_scores_differ) {
  signal_watch watch;
  const std::vector<trajectory> differ = batch({{0}, {1}});
  for (int step = 1; step < signal_watch::patience; ++step) EXPECT_EQ(watch(differ, gradient(0), settings(2)), "");
  EXPECT_THAT(watch(differ, gradient(0), settings(2)), HasSubstr("actor/grad_norm is 0 in 3 steps"));
  signal_watch warm_up;  // of the critic: no gradient is no gradient of 0
  for (int step = 0; step < 9; ++step) EXPECT_EQ(warm_up(differ, {}, settings(2)), "");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
