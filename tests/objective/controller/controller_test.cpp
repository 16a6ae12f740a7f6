// Controllers of coefficients against those of verl, OpenRLHF and TRL; moving references against TRL's callbacks.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "objective/golden_case.hpp"
#include "rlcore/objective/controller.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using rlcore_test::read_golden;

namespace {

TEST(adaptive_kl, equals_verl_and_openrlhf) {
  const auto golden = read_golden("divergence.json");
  for (const char* name : {"verl_adaptive_kl", "openrlhf_adaptive_kl"}) {
    const auto& g = golden[name];
    adaptive_kl controller{.coefficient = g["start"]};
    for (std::size_t k = 0; k < g["kl"].size(); ++k) {
      controller = controller.updated(g["kl"][k], g["rows"][k]);
      EXPECT_NEAR(controller.coefficient, g["coefficient"][k].get<double>(), 1e-15) << name << " " << k;
    }
  }
}

// In verl a batch of more than five horizons turns the coefficient negative: the penalty becomes a reward for drifting.
TEST(adaptive_kl, stays_positive_where_verls_does_not) {
  EXPECT_LT(read_golden("divergence.json")["verl_adaptive_kl_negative"].get<double>(), 0);
  adaptive_kl controller{.horizon = 1000};
  for (int k = 0; k < 1000; ++k) {
    controller = controller.updated(0, 6000);
    EXPECT_GT(controller.coefficient, 0);
  }
  EXPECT_NEAR((adaptive_kl{.horizon = 1000}.updated(0, 6000).coefficient), 0.001 * 0.8, 1e-18);
  EXPECT_NEAR((adaptive_kl{.horizon = 1000}.updated(1e9, 6000).coefficient), 0.001 * 1.2, 1e-18);
  EXPECT_EQ(fixed_kl{0.25}.updated(7, 9).coefficient, 0.25);
}

TEST(adaptive_kl, keeps_its_coefficient_where_the_kl_is_no_number) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double kl : {std::nan(""), infinity, -infinity})
    EXPECT_EQ((adaptive_kl{.coefficient = 0.25}.updated(kl, 100).coefficient), 0.25) << kl;
  EXPECT_GT((adaptive_kl{}.updated(std::nan(""), 100).updated(1, 100).coefficient), 0.001);
  static_assert(adaptive_kl{}.updated(1, 0).coefficient == 0.001);
}

TEST(adaptive_entropy, equals_trl) {
  const auto g = read_golden("divergence.json")["trl_entropy"];
  adaptive_entropy controller{.delta = g["delta"], .highest = g["highest"]};
  for (std::size_t k = 0; k < g["entropy"].size(); ++k) {
    EXPECT_NEAR(controller.applied(), g["applied"][k].get<double>(), 1e-16) << k;
    controller = controller.updated(g["entropy"][k]);
    EXPECT_EQ(controller.coefficient, g["coefficient"][k].get<double>()) << k;
  }
}

TEST(reference_ema, equals_trl) {
  const auto g = read_golden("divergence.json")["movement"];
  const std::vector<double> policy = g["policy"];
  std::vector<double> reference = g["reference"];
  const reference_ema ema;
  for (const auto& want : g["ema"]) {
    ema(reference, policy);
    for (std::size_t i = 0; i < policy.size(); ++i) EXPECT_NEAR(reference[i], want[i].get<double>(), 1e-15);
  }
  EXPECT_FALSE(ema.due(511));
  EXPECT_TRUE(ema.due(512));
  reference_ema{.rate = 1}(reference, policy);
  EXPECT_EQ(reference, policy);
  std::vector<double> short_one(2);
  EXPECT_THROW(ema(short_one, policy), std::invalid_argument);
}

TEST(reference_bema, equals_trl) {
  const auto g = read_golden("divergence.json")["movement"];
  const reference_bema bema{.steps = 4, .after = 2};
  std::vector<double> start, average, reference(5);
  int moved = 0;
  for (const auto& one : g["bema_steps"]) {
    const std::vector<double> policy = one["policy"];
    const std::int64_t step = one["step"];
    if (step == bema.after) start = average = policy;
    if (!bema.due(step)) continue;
    ++moved;
    bema(step, policy, start, average, reference);
    for (std::size_t i = 0; i < policy.size(); ++i) {
      EXPECT_NEAR(average[i], one["average"][i].get<double>(), 1e-15) << step;
      EXPECT_NEAR(reference[i], one["reference"][i].get<double>(), 2e-7) << step;  // TRL keeps that one in float
    }
  }
  EXPECT_EQ(moved, 3);
  EXPECT_FALSE(bema.due(2));
  std::vector<double> short_one(2);
  EXPECT_THROW(bema(6, start, start, average, short_one), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
