#include "rlcore/objective/advantage/whitening.hpp"

#include <random>

#include "objective/advantage/golden_advantage.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

// verl adds 1e-8 to the count of its mean, so the last digits differ.
constexpr double verl_digits = 1e-9;

TEST(whitening, is_verls) {
  golden_episodes g;
  whitening{}(g.rewards.view(), g.mask.view(), g.advantages.view());
  expect_near(g.advantages.values, g.all["verl_whiten"], verl_digits);
  whitening{.centre = false}(g.rewards.view(), g.mask.view(), g.advantages.view());
  expect_near(g.advantages.values, g.all["verl_whiten_keep_mean"], verl_digits);
}
TEST(whitening, of_gae_is_verls) {
  golden_episodes g;
  const auto& expected = g.all["verl_gae"];
  gae{.gamma = expected["gamma"], .lambda = expected["lambda"]}(g.rewards.view(), g.values.view(), g.mask.view(),
                                                                g.advantages.view());
  whitening{}(g.advantages.view(), g.mask.view(), g.advantages.view());  // in place
  expect_near(g.advantages.values, expected["whitened"], verl_digits);
}
TEST(reinforce_plus_plus, is_verls) {
  golden_episodes g;
  const auto& expected = g.all["verl_reinforce_plus_plus"];
  const reinforce_plus_plus how{.gamma = g.all["verl_gae"]["gamma"]};
  how(g.rewards.view(), g.mask.view(), g.advantages.view(), g.returns.view());
  expect_near(g.advantages.values, expected["advantages"], verl_digits);
  expect_near(g.returns.values, expected["returns"]);
  auto alone = g.returns;
  how(g.rewards.view(), g.mask.view(), alone.view());
  EXPECT_EQ(alone.values, g.advantages.values);
}
// TRL's PPO: rewards scaled but not centred, values one slot further than actions, advantages whitened over the
// actions.
TEST(whitening, and_gae_with_two_masks_are_trls_ppo) {
  const auto& all = advantages_of_systems()["trl"]["ppo"];
  golden_matrix reward(all["rewards"]), value(all["values"]), wide(all["with_next"]), mask(all["mask"]);
  golden_matrix advantage(3, 7), returns(3, 7);
  whitening{.centre = false}(reward.view(), wide.view(), reward.view());
  expect_near(reward.values, all["whitened_rewards"]);
  gae{.lambda = 0.95}(reward.view(), value.view(), wide.view(), advantage.view(), returns.view());
  expect_near(returns.values, all["returns"]);
  whitening{}(advantage.view(), mask.view(), advantage.view());
  expect_near(advantage.values, all["advantages"]);
}

// alibaba/ROLL#475, #476: one token (verl raises an error), none at all
TEST(whitening, of_little_or_nothing_is_defined) {
  std::vector<double> x{3, NAN}, mask{1, 0}, out{-1, -1};
  whitening{}(matrix(x, 1, 2), matrix(mask, 1, 2), matrix(out, 1, 2));
  EXPECT_EQ(out, (std::vector<double>{0, 0}));
  whitening{.centre = false}(matrix(x, 1, 2), matrix(mask, 1, 2), matrix(out, 1, 2));
  EXPECT_EQ(out, (std::vector<double>{3, 0}));
  mask = {0, 0};
  whitening{}(matrix(x, 1, 2), matrix(mask, 1, 2), matrix(out, 1, 2));
  EXPECT_EQ(out, (std::vector<double>{0, 0}));
  std::vector<double> none;
  EXPECT_NO_THROW(whitening{}(matrix(none, 0, 5), {}, matrix(none, 0, 5)));
}
// huggingface/trl#7068: rounding noise divided by epsilon
TEST(whitening, of_equal_values_is_exactly_zero) {
  for (const extent_t n : {3, 7, 65, 1000})
    for (const double v : {0.1, 0.85, -1e-30, 1e8}) {
      std::vector<double> x(static_cast<std::size_t>(n), v), out(x.size(), -1);
      whitening{.epsilon = 0, .guard = variance_guard::add_to_deviation}(matrix(x, 1, n), {}, matrix(out, 1, n));
      for (const double o : out) ASSERT_EQ(o, 0) << n << " of " << v;
    }
}
// NovaSky-AI/SkyRL#1305, alibaba/ROLL#447, radixark/miles#1827: padding in the mean; verl and OpenRLHF: masked slots
// that are not 0 afterwards
TEST(whitening, masked_slots_count_for_nothing_and_become_zero) {
  golden_episodes g;
  whitening{}(g.rewards.view(), g.mask.view(), g.advantages.view());
  double sum = 0, squares = 0, count = 0;
  for (std::size_t k = 0; k < g.mask.values.size(); ++k) {
    if (g.mask.values[k] == 0) {
      EXPECT_EQ(g.advantages.values[k], 0);
      EXPECT_FALSE(std::signbit(g.advantages.values[k]));
    }
    sum += g.advantages.values[k], squares += g.advantages.values[k] * g.advantages.values[k];
    count += g.mask.values[k];
  }
  EXPECT_NEAR(sum, 0, 1e-10);
  EXPECT_NEAR(squares / (count - 1), 1, 1e-7);
}
// One pass loses everything here: the variance is 1 and the squares are 1e16.
TEST(whitening, survives_a_large_mean) {
  std::vector<double> x, out(200);
  for (int k = 0; k < 200; ++k) x.push_back(1e8 + (k % 2 == 0 ? 1 : -1));
  whitening{.sample_variance = false}(matrix(x, 2, 100), {}, matrix(out, 2, 100));
  for (std::size_t k = 0; k < 200; ++k) EXPECT_NEAR(out[k], k % 2 == 0 ? 1 : -1, 1e-8);
}
TEST(whitening, lets_nan_through) {
  std::vector<double> x{1, 1, NAN}, out(3);
  whitening{}(matrix(x, 1, 3), {}, matrix(out, 1, 3));
  for (const double o : out) EXPECT_TRUE(std::isnan(o));
}

// Normalisation per chunk is impossible by accident: statistics of parts are joined, and the parts leave no trace.
TEST(whitening, statistics_of_any_split_are_the_same_to_the_bit) {
  const extent_t rows = 9, tokens = 200;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::vector<float> x;
  std::vector<std::int32_t> mask;
  for (extent_t i = 0; i < rows * tokens; ++i) {
    x.push_back(static_cast<float>(std::exp(3 * normal(random))));
    mask.push_back(i % (2 * tokens) < tokens || normal(random) > 0);
  }
  const whitening w;
  std::vector<float> whole(x.size()), threaded(x.size()), parts(x.size());
  w(matrix(x, rows, tokens), matrix(mask, rows, tokens), matrix(whole, rows, tokens));
  w(threads(2), matrix(x, rows, tokens), matrix(mask, rows, tokens), matrix(threaded, rows, tokens));
  EXPECT_EQ(threaded, whole);

  const auto part = [&](auto& v, extent_t first, extent_t last) {
    return matrix(v.data() + first * tokens, last - first, tokens);
  };
  moment_sums s;
  squared_deviations d;
  const std::pair<extent_t, extent_t> splits[] = {{7, 9}, {0, 1}, {1, 7}};  // in any order
  for (const auto& [a, b] : splits) s += w.sums(part(x, a, b), part(mask, a, b));
  for (const auto& [a, b] : splits) d += w.deviations(part(x, a, b), part(mask, a, b), s.mean());
  for (const auto& [a, b] : splits) w.apply(part(x, a, b), part(mask, a, b), w.map(s, d), part(parts, a, b));
  EXPECT_EQ(parts, whole);
}

TEST(row_normalization, counts_a_row_as_often_as_it_has_tokens) {
  const std::vector<double> x{1, -2, 0.5, 4};
  const std::vector<int> length{3, 1, 0, 2};
  std::vector<double> tokens, mask, rows(4), expected(12);
  for (std::size_t i = 0; i < 4; ++i)
    for (int t = 0; t < 3; ++t) tokens.push_back(x[i]), mask.push_back(t < length[i]);
  row_normalization{whitening{}}(x, length, rows);
  whitening{}(matrix(tokens, 4, 3), matrix(mask, 4, 3), matrix(expected, 4, 3));
  for (const std::size_t i : {0u, 1u, 3u}) EXPECT_NEAR(rows[i], expected[3 * i], 1e-14);
  EXPECT_THROW(row_normalization{}(x, std::vector<double>{1, 2, 3, -1}, rows), std::invalid_argument);
  EXPECT_THROW(row_normalization{}(x, std::vector<double>{1, 2, 3, 0.5}, rows), std::invalid_argument);
  EXPECT_THROW(row_normalization{}(x, std::vector<double>{1, 2, 3}, rows), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
