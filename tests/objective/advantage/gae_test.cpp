#include "rlcore/objective/advantage/gae.hpp"

#include <random>

#include "objective/advantage/golden_advantage.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/advantage/rloo.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

constexpr double gamma_ = 0.96875, lambda_ = 0.9375;

TEST(gae, is_verls) {
  golden_episodes g;
  const auto& expected = g.all["verl_gae"];
  gae{.gamma = gamma_, .lambda = lambda_}(g.rewards.view(), g.values.view(), g.mask.view(), g.advantages.view(),
                                          g.returns.view());
  expect_near(g.advantages.values, expected["advantages"]);
  expect_near(g.returns.values, expected["returns"]);
  auto without = g.advantages;
  gae{.gamma = gamma_, .lambda = lambda_}(g.rewards.view(), g.values.view(), g.mask.view(), without.view());
  EXPECT_EQ(without.values, g.advantages.values);
}
TEST(gae, the_critic_may_have_its_own_lambda) {
  golden_episodes g;
  gae{.gamma = gamma_, .lambda = lambda_, .critic_lambda = 1.0}(g.rewards.view(), g.values.view(), g.mask.view(),
                                                                g.advantages.view(), g.returns.view());
  expect_near(g.advantages.values, g.all["verl_gae"]["advantages"]);
  expect_near(g.returns.values, g.all["critic"]["returns"]);
}
TEST(gae, discounting_tool_turns_is_openrlhfs) {
  golden_episodes g;
  const gae how{.gamma = gamma_, .lambda = lambda_, .turns = turn_policy::discount};
  how(g.rewards.view(), g.values.view(), g.mask.view(), g.advantages.view(), g.returns.view());
  expect_near(g.advantages.values, g.all["openrlhf_gae"]["advantages"]);
  expect_near(g.returns.values, g.all["openrlhf_gae"]["returns"]);
}
// verl-project/verl#2337, #7278, #6376, #50, #1527: what a tool turn does to the return is said, not implied
TEST(gae, turn_policies_and_their_adjoints_match_autograd) {
  golden_episodes g;
  golden_matrix upstream(g.all["upstream"]);
  for (std::size_t k = 0; k < upstream.values.size(); ++k)
    if (g.mask.values[k] == 0) upstream.values[k] = std::nan("");
  for (const auto& [name, turns] :
       {std::pair{"skip", turn_policy::skip}, {"discount", turn_policy::discount}, {"reset", turn_policy::reset}}) {
    SCOPED_TRACE(name);
    const gae how{.gamma = gamma_, .lambda = lambda_, .turns = turns};
    const auto& expected = g.all["turns"][name];
    how(g.rewards.view(), g.values.view(), g.mask.view(), g.advantages.view());
    expect_near(g.advantages.values, expected["advantages"]);
    golden_matrix by_reward(5, 134), by_value(5, 134);
    how.adjoint(upstream.view(), g.mask.view(), by_reward.view(), by_value.view());
    expect_near(by_reward.values, expected["by_reward"]);
    expect_near(by_value.values, expected["by_value"]);
  }
}

// Section "reference values" of the specification.
TEST(gae, reference_values) {
  const std::vector<double> reward{0, 0, 0, 1}, value{.1, .2, .3, .4}, all{1, 1, 1, 1}, hole{1, 1, 0, 1};
  const auto run = [&](const std::vector<double>& mask, turn_policy turns) {
    std::vector<double> a(4);
    gae{.gamma = .99, .lambda = .95, .turns = turns}(matrix(reward, 1, 4), matrix(value, 1, 4), matrix(mask, 1, 4),
                                                     matrix(a, 1, 4));
    return a;
  };
  expect_near(run(all, turn_policy::skip), std::vector{0.773290427075, 0.71801215, 0.6603, 0.6});
  expect_near(run(hole, turn_policy::skip), std::vector{0.81306215, 0.7603, 0.0, 0.6});
  expect_near(run(hole, turn_policy::discount), std::vector{0.759324002075, 0.70316215, 0.0, 0.6});
}

template <class T>
struct random_rows {
  extent_t rows, tokens;
  std::vector<T> reward, value;
  std::vector<std::uint8_t> mask;
  random_rows(extent_t r, extent_t t) : rows(r), tokens(t) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    for (extent_t i = 0; i < r * t; ++i) {
      reward.push_back(static_cast<T>(normal(random)));
      value.push_back(static_cast<T>(normal(random)));
      mask.push_back(normal(random) > -2 || i % (3 * t) < t);  // every third row is full
    }
  }
};

TEST(gae, no_bit_depends_on_strides_rows_threads_padding_or_the_kind_of_mask) {
  random_rows<float> r(7, 300);
  const gae how{.gamma = 0.99, .lambda = 0.95};
  std::vector<float> a(7 * 300), v(7 * 300);
  how(matrix(r.reward, 7, 300), matrix(r.value, 7, 300), matrix(r.mask, 7, 300), matrix(a, 7, 300), matrix(v, 7, 300));

  std::vector<float> threaded(a.size()), threaded_returns(a.size());
  how(threads(3), matrix(r.reward, 7, 300), matrix(r.value, 7, 300), matrix(r.mask, 7, 300), matrix(threaded, 7, 300),
      matrix(threaded_returns, 7, 300));
  EXPECT_EQ(threaded, a);
  EXPECT_EQ(threaded_returns, v);

  // Transposed storage, 20 more columns of padding, a mask of -0.0f and 2.5f, one row at a time.
  const extent_t wide = 320;
  std::vector<float> reward(7 * wide, NAN), value(7 * wide, NAN), mask(7 * wide, -0.0f), out(7 * wide), ret(7 * wide);
  for (extent_t i = 0; i < 7; ++i)
    for (extent_t t = 0; t < 300; ++t) {
      const auto from = static_cast<std::size_t>(i * 300 + t), to = static_cast<std::size_t>(t * 7 + i);
      if (r.mask[from] == 0) continue;
      reward[to] = r.reward[from], value[to] = r.value[from], mask[to] = 2.5f;
    }
  const auto row = [&](auto& x, extent_t i) { return matrix_view<float>(x.data() + i, {1, wide}, {7, 7}); };
  for (extent_t i = 0; i < 7; ++i) how(row(reward, i), row(value, i), row(mask, i), row(out, i), row(ret, i));
  for (extent_t i = 0; i < 7; ++i)
    for (extent_t t = 0; t < 300; ++t) {
      const auto from = static_cast<std::size_t>(i * 300 + t), to = static_cast<std::size_t>(t * 7 + i);
      ASSERT_EQ(out[to], a[from]) << i << " " << t;
      ASSERT_EQ(ret[to], v[from]) << i << " " << t;
    }
}

TEST(gae, an_infinite_or_undefined_input_shows) {
  std::vector<float> reward(128, 0.0f), value(128, 0.0f), a(128);
  reward[100] = NAN;
  gae{}(matrix(reward, 1, 128), matrix(value, 1, 128), {}, matrix(a, 1, 128));
  EXPECT_TRUE(std::isnan(a[0]));
  EXPECT_TRUE(std::isnan(a[100]));
  EXPECT_EQ(a[101], 0.0f);
}
TEST(gae, refuses_what_does_not_fit) {
  std::vector<float> six(6), eight(8);
  EXPECT_THROW(gae{}(matrix(six, 2, 3), matrix(eight, 2, 4), {}, matrix(six, 2, 3)), std::invalid_argument);
  EXPECT_THROW(gae{}(matrix(six, 2, 3), matrix(six, 2, 3), matrix(eight, 2, 4), matrix(six, 2, 3)),
               std::invalid_argument);
  EXPECT_THROW(gae{}(matrix(six, 2, 3), matrix(six, 2, 3), {}, matrix(eight, 2, 4)), std::invalid_argument);
}

TEST(discounted_return, follows_its_turn_policy) {
  golden_episodes g;
  const auto run = [&](turn_policy turns) {
    discounted_return{.gamma = gamma_, .turns = turns}(g.rewards.view(), g.mask.view(), g.returns.view());
    return g.returns.values;
  };
  expect_near(run(turn_policy::skip), g.all["verl_reinforce_plus_plus"]["returns"]);
  expect_near(run(turn_policy::reset), g.all["reset_returns"]);
  const auto discounted = run(turn_policy::discount), theirs = numbers(g.all["openrlhf_returns"]);
  for (std::size_t k = 0; k < theirs.size(); ++k)
    EXPECT_NEAR(discounted[k], g.mask.values[k] != 0 ? theirs[k] : 0.0, 1e-12) << k;
}
TEST(remax, is_verls) {
  golden_episodes g;
  const auto& expected = g.all["verl_remax"];
  remax{}(g.rewards.view(), numbers(expected["baselines"]), g.mask.view(), g.advantages.view());
  expect_near(g.advantages.values, expected["advantages"]);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
