// The table of worked numbers that documents what the trainers compute: advantages, surrogate, value, preference.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "objective/advantage/golden_advantage.hpp"
#include "objective/check_slope.hpp"
#include "objective/piece/preference/check_pair.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/whitening.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/objective/piece/preference/unpaired.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/value.hpp"
#include "rlcore/objective/reward_shaping.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

constexpr double digits = 5e-8;  // the table has seven

token<double> of_logps(double logp, double old_logp, double ref_logp, double advantage) {
  token<double> t{};
  t.logp = logp, t.old_logp = old_logp, t.ref_logp = ref_logp, t.advantage = advantage;
  return t;
}

TEST(documented_numbers, advantages) {
  std::vector<double> rewards{1, 0, 0, 1, 0}, a(5);
  group_relative{}(rewards, 5, a);
  for (const std::size_t i : {0u, 3u}) EXPECT_NEAR(a[i], 1.0954431, digits);
  for (const std::size_t i : {1u, 2u, 4u}) EXPECT_NEAR(a[i], -0.7302954, digits);

  golden_matrix r(1, 4), v(1, 4), mask(1, 4), raw(1, 4), returns(1, 4), white(1, 4);
  r.values = {0, 0, 1, 0}, v.values = {.1, .2, .3, .9}, mask.values = {1, 1, 1, 0};
  gae{.gamma = 1, .lambda = 0.95}(r.view(), v.view(), mask.view(), raw.view(), returns.view());
  whitening{}(raw.view(), mask.view(), white.view());
  const double expected[3][3] = {{.82675, .765, .7}, {.92675, .965, 1.0}, {.9913431, .0170921, -1.0084353}};
  for (std::size_t t = 0; t < 3; ++t) {
    EXPECT_NEAR(raw.values[t], expected[0][t], 1e-12);
    EXPECT_NEAR(returns.values[t], expected[1][t], 1e-12);
    EXPECT_NEAR(white.values[t], expected[2][t], digits);
  }
}

TEST(documented_numbers, k3) {
  const auto value = [](double logp, double ref) { return at(clamped_k3{}, of_logps(logp, logp, ref, 0)).value; };
  EXPECT_NEAR(value(-1, -1.2), 0.0187308, digits);
  EXPECT_NEAR(value(-1.2, -1), 0.0214028, digits);
  EXPECT_NEAR(value(-1, -6), 4.0067379, digits);
  EXPECT_EQ(value(-6, -1), 10);
}

TEST(documented_numbers, surrogate) {
  const auto loss = [](double logp, double old_logp, double advantage, dual_clip how) {
    return at(how, of_logps(logp, old_logp, 0, advantage)).value;
  };
  EXPECT_NEAR(loss(-1, -1.5, 1, {.low = 0.2, .high = 0.28}), -1.28, 1e-12);  // ratio 1.6487213
  EXPECT_NEAR(loss(-1, -5, -1, {.bound = 10}), 10, 1e-12);                   // ratio 54.59815
  EXPECT_NEAR(loss(-1.5, -1, 1, {}), -0.6065307, digits);
  EXPECT_NEAR(loss(-1.5, -1, -1, {}), 0.8, 1e-12);
}

TEST(documented_numbers, value_and_length) {
  token<double> t{};
  t.value = 1, t.old_value = 0.2, t.target = 2;
  EXPECT_NEAR(at(clipped_value{}, t).value, 0.845, 1e-12);
  const soft_overlong dapo{.max_length = 20480, .buffer = 4096, .limit = std::numeric_limits<double>::infinity()};
  EXPECT_EQ(dapo.penalty(16384), 0);
  EXPECT_NEAR(dapo.penalty(18000), -0.3945313, digits);
  EXPECT_EQ(dapo.penalty(20480), -1);
}

TEST(documented_numbers, preference) {
  const double chosen = -10 - -11, rejected = -14 - -13;  // log-ratios to the reference
  const auto dpo = judge(bradley_terry{.beta = 0.1}, chosen, rejected);
  EXPECT_NEAR(dpo.value, 0.5981389, digits);
  EXPECT_NEAR(dpo.monitor[1], 0.1, 1e-12);
  EXPECT_NEAR(dpo.monitor[2], -0.1, 1e-12);
  EXPECT_NEAR(judge(ipo_link{.beta = 0.1}, chosen, rejected).value, 9, 1e-12);
  EXPECT_NEAR(judge(bradley_terry{.beta = 0.1, .smoothing = 0.1}, chosen, rejected).value, 0.6181389, digits);
  const auto kto = [](double ratio, double label) {
    token<double> row{};
    row.logp = ratio, row.target = label;
    return at(kto_link{.kl = kto_baseline(0.5), .beta = 0.1}, row).value;
  };
  EXPECT_NEAR(kto(1, 1), 0.4875026, digits);
  EXPECT_NEAR(kto(-1, 0), 0.4625702, digits);
  EXPECT_NEAR(judge(bradley_terry{.beta = 1}, 1.5, 0.5).value, 0.3132617, digits);
  EXPECT_NEAR(judge(bradley_terry{.beta = 1, .margin = 0.3}, 1.5, 0.5).value, 0.4031860, digits);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
