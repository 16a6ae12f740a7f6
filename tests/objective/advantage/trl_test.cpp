// Estimators against the statements of TRL's trainers, with rows that no reward function scored.
#include "objective/advantage/golden_advantage.hpp"
#include "rlcore/objective/advantage/gdpo.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/optimal_token_baseline.hpp"
#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/advantage/token_rewards.hpp"
#include "rlcore/objective/advantage/whitening.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

constexpr double trl_digits = 1e-7;  // its n / (n - 1) is a float

struct trl_rows {
  const nlohmann::json& all = advantages_of_systems().at("trl");
  const nlohmann::json& cases = all.at("cases");
  std::vector<double> reward = numbers(all.at("summed")), out = std::vector<double>(reward.size(), -9);
  std::int64_t group = all.at("group");
};

TEST(trl_advantages, of_grpo) {
  trl_rows t;
  group_relative{.epsilon = 1e-4, .singleton = singleton_group::zero}(t.reward, t.group, t.out);
  expect_near(t.out, t.cases["scale_group"], trl_digits);
  group_relative{.normalize_by_std = false}(t.reward, t.group, t.out);
  expect_near(t.out, t.cases["scale_none"]);
  group_mean_batch_std{}(t.reward, t.group, t.out);
  expect_near(t.out, t.cases["scale_batch"], trl_digits);
}
TEST(gdpo, over_rows_is_trls) {
  trl_rows t;
  const auto both = numbers(t.all["rewards"]);
  gdpo{}(matrix(both, 12, 2), numbers(t.all["weights"]), t.group, t.out);
  expect_near(t.out, t.cases["gdpo"], trl_digits);
}
// TRL: a single answer under a reward has nothing to be compared with, so the reward adds nothing to it.
TEST(gdpo, a_reward_that_was_given_once_adds_nothing) {
  const double none = std::nan("");
  std::vector<double> both{1, none, 0, 5, 2, none, 1, none}, first{1, 0, 2, 1}, out(4, -9), alone(4, -9);
  const std::vector<double> two{1, 1}, one{1};
  gdpo{}(matrix(both, 4, 2), two, 4, out);
  gdpo{}(matrix(first, 4, 1), one, 4, alone);
  EXPECT_EQ(out, alone);
}
TEST(gdpo, refuses_other_numbers_of_weights) {
  std::vector<double> both(8), out(4);
  EXPECT_THROW(gdpo{}(matrix(both, 4, 2), std::vector<double>{1}, 2, out), std::invalid_argument);
}
TEST(group_mean_batch_std, of_equal_rewards_is_zero) {
  std::vector<float> out(4, -9);
  group_mean_batch_std{.epsilon = 0}(std::vector<float>(4, 0.85f), 2, out);
  EXPECT_EQ(out, std::vector<float>(4, 0.0f));
  group_mean_batch_std{}(std::vector<float>{1, 1, 0, 0}, 2, out);  // flat groups, a batch that is not
  EXPECT_EQ(out, std::vector<float>(4, 0.0f));
}
TEST(group_mean_batch_std, of_a_flat_batch_is_zero_for_groups_of_one_too) {  // not R / epsilon
  std::vector<double> out(4, -9);
  const group_mean_batch_std keeps{.singleton = singleton_group::reward};
  keeps(std::vector<double>(4, 0.3), std::vector<int>{0, 0, 1, 2}, out);
  EXPECT_EQ(out, std::vector<double>(4, 0.0));
  keeps(std::vector<double>{0.3, std::nan(""), 0.3, std::nan("")}, 1, out);
  EXPECT_EQ(out, std::vector<double>(4, 0.0));
  keeps(std::vector<double>{1, 0}, 1, out = std::vector<double>(2));
  expect_near(out, std::vector<double>{1 / (std::sqrt(0.5) + 1e-4), 0});
}
TEST(trl_advantages, of_rloo) {
  trl_rows t;
  rloo{}(t.reward, t.group, t.out);
  expect_near(t.out, t.cases["rloo"]);
  in_order(rloo{}, row_normalization{})(t.reward, t.group, t.out);
  expect_near(t.out, t.cases["rloo_normalized"], trl_digits);
}
// OpenRLHF clips after the group normalisation, TRL's RLOO before the baseline: the order is that of the types.
TEST(in_order, applies_its_stages_in_their_order) {
  trl_rows t;
  const reward_clip clip{-0.25, 0.875};
  in_order(clip, rloo{})(t.reward, t.group, t.out);
  expect_near(t.out, t.cases["rloo_clipped"]);
  std::vector<double> other(t.out.size());
  in_order(rloo{}, clip)(t.reward, t.group, other);
  EXPECT_NE(other, t.out);
  for (std::size_t i = 0; i < other.size(); ++i)
    EXPECT_NEAR(other[i], std::clamp(numbers(t.cases["rloo"])[i], -0.25, 0.875), 1e-12);
  EXPECT_THROW((reward_clip{1, -1}(other)), std::invalid_argument);
}
TEST(in_order, unscored_rows_stay_unscored) {
  std::vector<double> reward{1, std::nan(""), 0, 4}, out(4, -9), alone(3);
  in_order(rloo{}, row_normalization{})(reward, 4, out);
  in_order(rloo{}, row_normalization{})(std::vector<double>{1, 0, 4}, 3, alone);
  EXPECT_EQ(out, (std::vector<double>{alone[0], 0, alone[1], alone[2]}));
}
TEST(optimal_value, is_trls_a2po) {
  const auto& all = advantages_of_systems()["trl"]["a2po"];
  std::vector<double> value(12);
  optimal_value{}(numbers(all["rewards"]), 4, value);
  const auto expected = numbers(all["values"]);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(value[i], expected[i / 4], 1e-12);
  optimal_value{.temperature = 1e-3}(std::vector<double>(12, 0.85), 4, value);
  EXPECT_EQ(value, std::vector<double>(12, 0.85));
  optimal_value{.temperature = 1e-3}(std::vector<double>{5, 0, 0, 0}, 4, value = std::vector<double>(4));
  EXPECT_NEAR(value[0], 5 - 1e-3 * std::log(4.0), 1e-12);  // no overflow
}
TEST(optimal_value, refuses_a_temperature_that_is_none) {
  std::vector<double> value(2);
  for (const double temperature : {0.0, -1.0, std::nan("")})
    EXPECT_THROW(optimal_value{.temperature = temperature}(std::vector<double>{1, 0}, 2, value), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
