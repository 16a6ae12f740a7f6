// Advantages from one reward per row on emulated NPUs and GPUs against the host in double.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <type_traits>
#include <utility>

#include "device/advantage_batch.hpp"
#include "rlcore/objective/algorithms.hpp"
#include "support/thrown.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

constexpr float unscored = std::numeric_limits<float>::quiet_NaN();

/// Rewards with the group of each row.
struct reward_case {
  std::string name;
  floats reward;
  std::vector<std::int64_t> group;
};

/// Random groups, and every edge: one row, equal rewards, unscored rows, groups nobody scored.
std::vector<reward_case> cases() {
  std::vector<reward_case> all;
  all.push_back({"random", normal(24, 1, 3), {}});
  all.push_back({"far from 0", normal(24, 2, 0.1), {}});
  for (float& r : all.back().reward) r += 5;
  all.push_back({"equal", {0.1f, 0.1f, 0.1f, 0.1f, 1, 0, 0, 1}, {}});
  all.push_back(
      {"unscored", {1, unscored, 3, 4, unscored, unscored, 7, unscored, unscored, unscored, unscored, unscored}, {}});
  for (reward_case& c : all)
    for (std::size_t i = 0; i < c.reward.size(); ++i) c.group.push_back(static_cast<std::int64_t>(i / 4));
  all.push_back({"scattered", normal(13, 3), {7, 7, 2, 7, 2, 9, -4, 7, 7, 2, 9, 9, 100}});
  all.push_back({"scattered, some unscored", {1, unscored, 2, 3, 2, 2, unscored, 5}, {1, 2, 3, 1, 3, 3, 2, 9}});
  all.push_back({"nothing", {}, {}});
  return all;
}

/// (|R| + the mean |R| of the group) times what differences of this group are multiplied by.
doubles group_terms(const reward_case& c, const std::function<double(const doubles&)>& factor) {
  std::map<std::int64_t, doubles> of;
  for (std::size_t i = 0; i < c.reward.size(); ++i)
    if (!std::isnan(c.reward[i])) of[c.group[i]].push_back(static_cast<double>(c.reward[i]));
  doubles terms;
  for (std::size_t i = 0; i < c.reward.size(); ++i) {
    const doubles& r = of[c.group[i]];
    double sum = 0;
    for (const double x : r) sum += std::abs(x);
    const double own = std::isnan(c.reward[i]) ? 0 : std::abs(static_cast<double>(c.reward[i]));
    terms.push_back(r.empty() ? 0 : (own + sum / static_cast<double>(r.size())) * factor(r));
  }
  return terms;
}
double one_over_deviation(const doubles& r, double epsilon) {
  if (r.size() < 2) return 1;
  double mean = 0, squares = 0;
  for (const double x : r) mean += x / static_cast<double>(r.size());
  for (const double x : r) squares += (x - mean) * (x - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(r.size() - 1));
  return deviation < 1e-12 ? 1 : 1 / (deviation + epsilon);
}

/// The advantages of both, by named groups and, where they are of one size, by that size.
template <class Device, class Estimator, class... Lengths>
void check(Device& d, const Estimator& e, const reward_case& c, const doubles& terms, const Lengths&... lengths) {
  const auto rows = static_cast<extent_t>(c.reward.size());
  const doubles reward(c.reward.begin(), c.reward.end());
  doubles want(reward.size());
  e(reward, c.group, lengths..., want);
  tensor<float, 1, Device> rewards(d, {rows}), advantages(d, {rows});
  rewards.memory().upload(c.reward);
  compute_advantages(d, e, rewards, c.group, lengths..., advantages);
  expect_advantages(fetched(advantages), want, terms, c.name);
  if (c.reward.size() % 4 != 0 || c.reward.empty()) return;
  if (c.name.starts_with("scattered")) return;
  const floats by_name = fetched(advantages);
  compute_advantages(d, e, rewards, 4, lengths..., rewards);  // in place
  EXPECT_EQ(fetched(rewards), by_name) << c.name;
}

/// f for every device and case.
template <class F>
void everywhere(const F& f) {
  const auto on = [&](auto& device) {
    for (const reward_case& c : cases()) f(device, c);
  };
  for (const int version : {80100, 80300, 80500, 90100}) on(*emulated_npu(compute::float32, {}, version));
  on_cuda(on);
}

TEST(device_group_advantages, are_those_of_the_host) {
  everywhere([](auto& d, const reward_case& c) {
    const doubles plain = group_terms(c, [](const doubles&) { return 1.0; });
    for (const singleton_group alone : {singleton_group::zero, singleton_group::reward}) {
      check(d, group_relative{.normalize_by_std = false, .singleton = alone}, c, plain);
      for (const double epsilon : {1e-6, 1e-4, 0.0})
        check(d, group_relative{.epsilon = epsilon, .singleton = alone}, c,
              group_terms(c, [&](const doubles& r) { return one_over_deviation(r, epsilon); }));
      check(d, rloo{alone}, c, group_terms(c, [](const doubles& r) {
              const auto n = static_cast<double>(r.size());
              return n > 1 ? n / (n - 1) : 1.0;
            }));
    }
  });
}

/// What whitening multiplies the centred rewards by, from the host's own result.
doubles whitened_terms(const reward_case& c, const doubles& centred, const doubles& want) {
  double scale = 0, largest = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (std::abs(centred[i] - centred[k]) > 1e-9 && !std::isnan(c.reward[i]) && !std::isnan(c.reward[k]))
        scale = std::max(scale, std::abs((want[i] - want[k]) / (centred[i] - centred[k])));
  doubles terms = group_terms(c, [](const doubles&) { return 1.0; });
  for (const double t : terms) largest = std::max(largest, t);
  for (double& t : terms) t = (t + largest) * scale;
  return terms;
}

TEST(device_group_advantages, of_reinforce_plus_plus_baseline_weigh_rows_by_their_tokens) {
  everywhere([](auto& d, const reward_case& c) {
    std::vector<std::int32_t> lengths;
    for (std::size_t i = 0; i < c.reward.size(); ++i) lengths.push_back(static_cast<std::int32_t>((i * 7) % 5 * 100));
    const doubles reward(c.reward.begin(), c.reward.end());
    for (const singleton_group alone : {singleton_group::zero, singleton_group::reward}) {
      const reinforce_plus_plus_baseline e{.singleton = alone};
      doubles want(reward.size()), centred(reward.size());
      e(reward, c.group, lengths, want);
      group_relative{.normalize_by_std = false, .singleton = alone}(reward, c.group, centred);
      check(d, e, c, whitened_terms(c, centred, want), lengths);
    }
  });
}

TEST(device_group_advantages, of_stages_are_those_of_the_host) {
  everywhere([](auto& d, const reward_case& c) {
    const doubles reward(c.reward.begin(), c.reward.end());
    const auto checked = [&](const auto& e, const reward_clip& clip) {
      reward_case clipped = c;
      clip(clipped.reward);
      doubles want(reward.size()), centred(reward.size());
      e(reward, c.group, want);
      group_relative{.normalize_by_std = false}(clipped.reward, c.group, centred);
      check(d, e, c, whitened_terms(clipped, centred, want));
    };
    checked(in_order(reward_clip{-1, 1}, rloo{}), {-1, 1});
    checked(in_order(rloo{}, row_normalization{}), {-100, 100});
    checked(in_order(group_relative{.normalize_by_std = false}, reward_clip{-0.5, 0.25}), {-100, 100});
    checked(in_order(reward_clip{}, rloo{}, row_normalization{}), {});
  });
}

TEST(device_group_advantages, of_equal_rewards_are_exactly_nothing) {
  everywhere_once([]<class Device>(Device& d) {
    tensor<float, 1, Device> rewards(d, {6}), out(d, {6});
    rewards.memory().upload(floats{0.1f, 0.1f, 0.1f, 0.7f, 0.7f, 0.7f});
    for (const double epsilon : {0.0, 1e-6}) {
      compute_advantages(d, group_relative{.epsilon = epsilon}, rewards, 3, out);
      EXPECT_THAT(fetched(out), testing::Each(0.0f));
    }
    compute_advantages(d, rloo{}, rewards, 3, out);
    EXPECT_THAT(fetched(out), testing::Each(0.0f));
  });
}

TEST(device_group_advantages, of_named_algorithms_need_no_other_name) {
  everywhere_once([]<class Device>(Device& d) {
    tensor<float, 1, Device> rewards(d, {4}), out(d, {4});
    rewards.memory().upload(floats{1, 0, 0, 1});
    compute_advantages(d, paper::grpo().advantage, rewards, 2, out);
    const floats got = fetched(out);
    floats want(4);
    paper::grpo().advantage(floats{1, 0, 0, 1}, 2, want);
    EXPECT_THAT(got, testing::Pointwise(testing::FloatNear(1e-6f), want));
    compute_advantages(d, paper::dr_grpo().advantage, rewards, 2, out);
    EXPECT_EQ(fetched(out), (floats{0.5f, -0.5f, -0.5f, 0.5f}));
  });
}

TEST(device_advantages, say_what_the_host_says_of_bad_input) {
  everywhere_once([]<class Device>(Device& d) {
    tensor<float, 1, Device> rewards(d, {6}), few(d, {5});
    tensor<float, 2, Device> x(d, {2, 3}), wide(d, {2, 4});
    tensor<bool, 2, Device> mask(d, {2, 4});
    EXPECT_EQ(thrown_by([&] { compute_advantages(d, group_relative{}, rewards, 4, rewards); }),
              "rlcore: 6 rewards do not divide into groups of 4");
    EXPECT_EQ(thrown_by([&] { compute_advantages(d, rloo{}, rewards, 3, few); }),
              "rlcore: rewards are [6], advantages are [5]");
    EXPECT_EQ(
        thrown_by([&] { compute_advantages(d, reinforce_plus_plus_baseline{}, rewards, 3, indices{1, 2}, rewards); }),
        "rlcore: lengths are [2], rewards are [6]");
    EXPECT_EQ(thrown_by([&] { compute_advantages(d, gae{}, x, wide, {}, x, x); }),
              "rlcore: values are [2, 4], rewards are [2, 3]");
    EXPECT_EQ(thrown_by([&] { compute_advantages(d, whitening{}, x, mask, x); }),
              "rlcore: the mask is [2, 4], values are [2, 3]");
    EXPECT_EQ(thrown_by([&] { compute_advantages(d, remax{}, x, few, {}, x); }),
              "rlcore: baselines are [5], advantages are [2, 3]");
    EXPECT_EQ(thrown_by([&] { compute_rewards(d, token_rewards{}, few, x, x, {}, x); }),
              "rlcore: scores are [5], rewards are [2, 3]");
    EXPECT_EQ(thrown_by([&] { compute_advantages(d, reward_clip{1, -1}, rewards); }).substr(0, 24),
              "rlcore: reward_clip from");
  });
}

/// The same text for every device.
template <class Device>
std::pair<floats, floats> on_any_device(Device& d) {
  tensor<float, 1, Device> scores(d, {4}), advantage(d, {4});
  tensor<float, 2, Device> old_logp(d, {4, 3}), ref_logp(d, {4, 3}), rewards(d, {4, 3}), advantages(d, {4, 3});
  tensor<std::uint8_t, 2, Device> mask(d, {4, 3});
  scores.memory().upload(floats{1, 0, 0.5f, 0.25f});
  old_logp.memory().upload(normal(12, 1, 0.1));
  ref_logp.memory().upload(normal(12, 2, 0.1));
  mask.memory().upload(std::vector<std::uint8_t>{1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1});
  compute_advantages(d, paper::grpo().advantage, scores, 2, advantage);
  compute_rewards(d, token_rewards{.kind = kl_kind::k3}, scores, old_logp, ref_logp, mask, rewards);
  compute_advantages(d, paper::reinforce_plus_plus().advantage, rewards, mask, advantages);
  row_totals(d, rewards, mask, scores);
  floats of_rows(4), of_tokens(12), totals(4);
  advantage.memory().download(of_rows), advantages.memory().download(of_tokens), scores.memory().download(totals);
  of_rows.insert(of_rows.end(), totals.begin(), totals.end());
  return {of_rows, of_tokens};
}

TEST(device_advantages, are_called_as_on_the_host) {
  cpu host(1);
  const auto [want, want_tokens] = on_any_device(host);
  everywhere_once([&](auto& d) {
    const auto [got, tokens] = on_any_device(d);
    EXPECT_THAT(got, testing::Pointwise(testing::FloatNear(2e-6f), want));
    EXPECT_THAT(tokens, testing::Pointwise(testing::FloatNear(2e-6f), want_tokens));
  });
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
