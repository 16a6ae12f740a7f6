// The estimators with one reward per row against verl's own functions.
#include "objective/advantage/golden_advantage.hpp"
#include "rlcore/objective/advantage/gdpo.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/pf_ppo.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"
#include "rlcore/objective/advantage/rloo.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

const double nan_ = std::nan("");

struct verl_rows {
  const nlohmann::json& all = advantages_of_systems().at("rows");
  std::vector<double> reward = numbers(all.at("rewards")), out = std::vector<double>(reward.size(), -9);
  std::vector<std::int64_t> group = integers(all.at("groups")), length = integers(all.at("lengths"));
};

TEST(outcomes, are_verls) {
  verl_rows v;
  const auto& cases = v.all["cases"];
  group_relative{}(v.reward, v.group, v.out);
  expect_near(v.out, cases["grpo"], 1e-7);             // its 1 + epsilon for groups of one is a float
  expect_near(v.out, cases["grpo_vectorized"], 1e-6);  // in float
  group_relative{.normalize_by_std = false}(v.reward, v.group, v.out);
  expect_near(v.out, cases["dr_grpo"]);
  rloo{.singleton = singleton_group::reward}(v.reward, v.group, v.out);
  expect_near(v.out, cases["rloo"]);
  rloo{}(v.reward, v.group, v.out);
  expect_near(v.out, cases["rloo_vectorized"]);
  opo{}(v.reward, v.group, v.length, v.out);
  expect_near(v.out, cases["opo"]);
  gpg{.count = gpg_count::nonzero_rewards}(v.reward, v.group, v.out);
  expect_near(v.out, cases["gpg"], 1e-7);  // its alpha is a float
  reinforce_plus_plus_baseline{}(v.reward, v.group, v.length, v.out);
  expect_near(v.out, cases["reinforce_plus_plus_baseline"], 1e-9);
  const auto pairs = integers(v.all["pairs"]);
  pass_at_k{}(v.reward, pairs, v.out);
  expect_near(v.out, cases["pass_at_k"]);
  pass_at_k{.normalize_by_std = false}(v.reward, pairs, v.out);
  expect_near(v.out, cases["pass_at_k_plain"]);
}
TEST(gdpo, over_tokens_is_verls) {
  verl_rows v;
  const auto second = numbers(v.all["second"]);
  std::vector<double> both;
  for (std::size_t i = 0; i < second.size(); ++i) both.push_back(v.reward[i]), both.push_back(second[i]);
  const gdpo verls{.each = {}, .last = {whitening{}}};
  verls(matrix(both, 12, 2), numbers(v.all["weights"]), v.group, v.length, v.out);
  expect_near(v.out, v.all["cases"]["gdpo"], 1e-6);  // in float
}
TEST(pf_ppo, has_verls_weights) {
  verl_rows v;
  const auto& expected = v.all["pf_ppo"];
  expect_near(pf_ppo{}.weights(v.reward), expected["pow"]);
  expect_near(pf_ppo{.kind = pf_ppo_weight::max_min}.weights(v.reward), expected["max_min"], 1e-6);  // in float
  expect_near(pf_ppo{.kind = pf_ppo_weight::max_random}.weights(v.reward), expected["max_random"], 1e-6);
}
TEST(pf_ppo, draws_in_proportion_and_from_the_key_alone) {
  std::vector<double> reward(4000, 0.0);
  for (std::size_t i = 0; i < reward.size(); ++i) reward[i] = i % 4 == 0 ? -2 : i % 4 == 1 ? 1 : i % 4 == 2 ? nan_ : 0;
  const auto rows = pf_ppo{}(reward, random_key{7});
  EXPECT_EQ(rows, (pf_ppo{}(reward, random_key{7})));
  EXPECT_NE(rows, (pf_ppo{}(reward, random_key{8})));
  double kind[4] = {};
  for (const auto row : rows) ++kind[row % 4];
  EXPECT_NEAR(kind[0] / 4000, 0.8, 5 * std::sqrt(0.8 * 0.2 / 4000));
  EXPECT_NEAR(kind[1] / 4000, 0.2, 5 * std::sqrt(0.8 * 0.2 / 4000));
  EXPECT_EQ(kind[2], 0);
  EXPECT_THROW(pf_ppo{}(std::vector<double>{nan_, nan_}, random_key{}), std::invalid_argument);
  EXPECT_TRUE(pf_ppo{}(std::vector<double>{}, random_key{}).empty());
}

// Section "reference values" of the specification.
TEST(rloo, reference_values) {
  std::vector<double> a(5);
  rloo{}(std::vector<double>{1, 0, 0, 1, 1}, 5, a);
  expect_near(a, std::vector<double>{0.5, -0.75, -0.75, 0.5, 0.5});
}
TEST(gpg, counts_the_rows_of_informative_groups) {  // the paper; verl counts rewards that are not 0
  std::vector<double> a(6);
  gpg{}(std::vector<double>{1, -1, 1, 1, -1, -1}, 2, a);
  expect_near(a, std::vector<double>{3, -3, 0, 0, 0, 0});
  gpg{.count = gpg_count::nonzero_rewards}(std::vector<double>{1, -1, 1, 1, -1, -1}, 2, a);
  expect_near(a, std::vector<double>{1, -1, 0, 0, 0, 0});
  gpg{}(std::vector<double>{1, 1, 1, 1, 1, 1}, 2, a);
  EXPECT_EQ(a, std::vector<double>(6, 0.0));
}

/// Every estimator under one syntax, with equal lengths where they are asked for.
template <class F>
void each_estimator(F f) {
  const auto plain = [&](const char* name, const auto& estimator) {
    f(name, [&](const auto& r, auto group, auto& out) { estimator(r, group, out); });
  };
  const auto weighted = [&](const char* name, const auto& estimator) {
    f(name, [&](const auto& r, auto group, auto& out) { estimator(r, group, std::vector<int>(r.size(), 3), out); });
  };
  plain("group_relative", group_relative{.epsilon = 1e-12, .singleton = singleton_group::zero});
  plain("dr_grpo", group_relative{.normalize_by_std = false, .singleton = singleton_group::zero});
  plain("rloo", rloo{});
  plain("group_median", group_median{.normalize_by_deviation = true, .epsilon = 1e-12});
  plain("pass_at_k", pass_at_k{});
  plain("gpg", gpg{.singleton = singleton_group::zero});
  weighted("opo", opo{.singleton = singleton_group::zero});
  weighted("reinforce_plus_plus_baseline", reinforce_plus_plus_baseline{.singleton = singleton_group::zero});
}

// huggingface/trl#7068, #6365, #3857; NVIDIA-NeMo/RL#4158; OpenRLHF#1270, #1272; verl-project/verl#7792, #2791: a group
// of equal rewards is told by comparing them. In float the mean of three 0.85 is not 0.85.
TEST(outcomes, equal_rewards_give_exactly_zero) {
  each_estimator([](const char* name, auto estimate) {
    for (const std::size_t n : {2u, 3u, 6u, 7u, 8u, 12u, 24u})
      for (const float r : {0.1f, 0.85f, -1.0f}) {
        const std::vector<float> reward(n, r);
        std::vector<float> out(n, -9);
        estimate(reward, static_cast<std::int64_t>(n), out);
        EXPECT_EQ(out, std::vector<float>(n, 0.0f)) << name << " " << n << " " << r;
      }
  });
}
// The policy for groups of one is a setting of every estimator that verl gives another default.
TEST(outcomes, groups_of_one_follow_the_documented_policy) {
  each_estimator([](const char* name, auto estimate) {
    std::vector<double> out(2, -9);
    estimate(std::vector<double>{0.7, -0.3}, 1, out);
    EXPECT_EQ(out, std::vector<double>(2, 0.0)) << name;
  });
  std::vector<double> out(1, -9);
  const std::vector<double> one{0.7};
  rloo{.singleton = singleton_group::reward}(one, 1, out);
  EXPECT_EQ(out[0], 0.7);
  opo{}(one, 1, std::vector<int>{3}, out);
  EXPECT_EQ(out[0], 0.7);
  gpg{}(one, 1, out);
  EXPECT_EQ(out[0], 0.7);
}
// verl-project/verl#6375, #6452, #6362: a row that is not scored must not shape the baseline of the others
TEST(outcomes, unscored_rows_are_left_out_and_get_zero) {
  each_estimator([](const char* name, auto estimate) {
    const std::vector<double> reward{1, nan_, 0, 3, nan_, nan_, nan_, nan_};
    std::vector<double> out(8, -9), alone(3);
    estimate(reward, 4, out);
    estimate(std::vector<double>{1, 0, 3}, 3, alone);
    EXPECT_EQ(std::vector<double>({out[0], out[2], out[3]}), alone) << name;
    for (const std::size_t i : {1u, 4u, 5u, 6u, 7u}) EXPECT_EQ(out[i], 0) << name << i;
  });
}
// One pass over squares cancels here (verl's grpo_vectorized before 0.7).
TEST(outcomes, statistics_survive_a_large_mean) {
  std::vector<double> out(2);
  group_relative{.epsilon = 0}(std::vector<double>{1e9 + 1, 1e9 - 1}, 2, out);
  EXPECT_NEAR(out[0], std::sqrt(0.5), 1e-12);
}
TEST(outcomes, may_be_written_over_the_rewards) {
  each_estimator([](const char* name, auto estimate) {
    std::vector<double> reward{1, 0, 4, 0.5}, out(4);
    estimate(reward, 2, out);
    estimate(reward, 2, reward);
    EXPECT_EQ(reward, out) << name;
  });
}
TEST(outcomes, refuse_what_does_not_fit) {
  each_estimator([](const char* name, auto estimate) {
    std::vector<double> three(3), four(4);
    EXPECT_THROW(estimate(three, 2, three), std::invalid_argument) << name;
    EXPECT_THROW(estimate(four, 2, three), std::invalid_argument) << name;
    EXPECT_THROW(estimate(std::vector<double>{1, INFINITY}, 2, four), std::invalid_argument) << name;
    EXPECT_THROW(estimate(four, std::vector<std::int64_t>{1, 2, 3}, four), std::invalid_argument) << name;
  });
  std::vector<double> four(4);
  EXPECT_THROW(opo{}(four, 2, std::vector<int>{1, 2, 3}, four), std::invalid_argument);
  EXPECT_THROW(opo{}(four, 2, std::vector<int>{1, 2, 3, -4}, four), std::invalid_argument);
}
TEST(opo, rows_without_tokens_are_no_division_by_zero) {
  std::vector<double> out(2, -9);
  opo{}(std::vector<double>{1, 2}, 2, std::vector<int>{0, 0}, out);
  EXPECT_EQ(out, std::vector<double>(2, 0.0));
}
TEST(group_median, is_not_moved_by_an_outlier) {
  std::vector<double> out(5);
  group_median{}(std::vector<double>{100, 0, 1, 2, 1}, 5, out);
  EXPECT_EQ(out, (std::vector<double>{99, -1, 0, 1, 0}));
  out.resize(4);
  group_median{.normalize_by_deviation = true, .epsilon = 0}(std::vector<double>{0, 4, 1, 3}, 4, out);
  expect_near(out, std::vector<double>{-2 / 1.5, 2 / 1.5, -1 / 1.5, 1 / 1.5});
}
TEST(pass_at_k, equally_good_rows_get_nothing) {
  std::vector<double> out(3, -9);
  pass_at_k{}(std::vector<double>{1, 1, 0}, 3, out);
  EXPECT_EQ(out, std::vector<double>(3, 0.0));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
