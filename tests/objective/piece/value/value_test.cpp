// Losses of a critic against dual numbers, verl's compute_value_loss, OpenRLHF's ValueLoss and torch's huber_loss.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "objective/check_slope.hpp"
#include "objective/golden_case.hpp"
#include "rlcore/objective/piece/value.hpp"
#include "rlcore/simd/math.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

token<double> of_values(double value, double old_value, double target) {
  token<double> t{};
  t.value = value, t.old_value = old_value, t.target = target;
  return t;
}

TEST(value_loss, slopes_are_derivatives_of_values) {
  std::mt19937_64 random(23);
  for (int k = 0; k < 500; ++k) {
    const auto t = random_token(random);
    check_slope(clipped_value{}, t);
    check_slope(clipped_value{.range = 0.2}, t);
    check_slope(squared_value{}, t);
    check_slope(huber_value{}, t);
    check_slope(huber_value{.delta = 0.3}, t);
  }
  for (const double v : {-3.0, -0.51, -0.49, 0.0, 0.49, 0.51, 3.0})
    for (const double r : {-2.0, 0.0, 0.3, 2.0}) {
      check_slope(clipped_value{}, of_values(v, 0, r));
      check_slope(huber_value{}, of_values(v, 0, r));
    }
}

TEST(value_loss, equals_verl_and_openrlhf) {
  const auto golden = read_golden("divergence.json")["value"];
  const auto tokens = golden_tokens(golden["fields"]);
  const auto& c = golden["cases"];
  check_case(clipped_value{}, tokens, c["verl_0.5"]);
  check_case(clipped_value{}, tokens, c["openrlhf_0.5"]);
  check_case(clipped_value{.range = 0.2}, tokens, c["verl_0.2"]);
  check_case(squared_value{}, tokens, c["openrlhf_plain"]);
  check_case(huber_value{.delta = 0.7}, tokens, c["huber_0.7"]);
  double clipped = 0;
  for (const auto& t : tokens) clipped += at(clipped_value{}, t).monitor[0];
  EXPECT_NEAR(clipped / static_cast<double>(tokens.size()), golden["clipfrac_0.5"].get<double>(),
              1e-9);  // + 1e-8 there
}

TEST(value_loss, ties_and_bounds) {
  EXPECT_EQ(at(clipped_value{}, of_values(1, 0, 0.75)).slope, 0.125);  // both squares are 1/16: half of 0.25
  EXPECT_EQ(at(clipped_value{}, of_values(1, 0, 0.75)).monitor[0], 0);
  // at the bound nothing is clipped; torch 2.15 passes -0.75 (clamp by numbers) or -1.125 (by tensors), older ones -1.5
  EXPECT_EQ(at(clipped_value{}, of_values(0.5, 0, 2)).slope, -1.5);
  EXPECT_EQ(at(clipped_value{}, of_values(-0.5, 0, 2)).slope, -2.5);
  EXPECT_EQ(at(clipped_value{}, of_values(1, 0, 2)).slope, 0);
  EXPECT_EQ(at(clipped_value{}, of_values(1, 0, 2)).monitor[0], 1);
}

TEST(value_loss, lets_a_nan_through) {
  const double nan = std::nan("");
  for (const auto& t : {of_values(nan, 0, 0), of_values(0.1, nan, 0), of_values(0.1, 0, nan), of_values(9, nan, 0)}) {
    EXPECT_TRUE(std::isnan(at(clipped_value{}, t).value)) << t.value << " " << t.old_value << " " << t.target;
    EXPECT_TRUE(std::isnan(at(clipped_value{}, t).slope)) << t.value << " " << t.old_value << " " << t.target;
  }
  EXPECT_TRUE(std::isnan(at(huber_value{}, of_values(nan, 0, 0)).slope));
  EXPECT_TRUE(std::isnan(at(squared_value{}, of_values(0, 0, nan)).value));
}

TEST(value_loss, packs_agree_with_scalars) {
  std::mt19937_64 random(29);
  for (int k = 0; k < 200; ++k) {
    const auto t = random_token(random);
    token<pack<double>> p{};
    p.value = t.value, p.old_value = t.old_value, p.target = t.target;
    const auto s = at(clipped_value{}, t);
    const auto v = clipped_value{}.operator()<fast_math, pack<double>>(p);
    EXPECT_NEAR(s.value, v.value.v[0], 1e-15 * s.value);
    EXPECT_NEAR(s.slope, v.slope.v[0], 1e-15 * std::abs(s.slope));
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
