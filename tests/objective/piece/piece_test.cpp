// Every slope against a dual number, and the values of spec tables that others computed.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "objective/check_slope.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/objective/piece/score.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/simd/math.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using rlcore_test::at;
using rlcore_test::check_slope;
using testing_dual::dual;

namespace {

token<double> of_logps(double logp, double old_logp, double ref_logp, double advantage) {
  token<double> t{};
  t.logp = logp, t.old_logp = old_logp, t.ref_logp = ref_logp, t.advantage = advantage, t.weight = 1.5, t.entropy = 0.7;
  return t;
}

template <class P>
class slopes : public testing::Test {};
using all_pieces = testing::Types<ppo_clip, dual_clip, policy_gradient, k1, abs_kl, k2, k3, clamped_k3, token_entropy,
                                  log_prob, log_ratio_to_old, log_ratio_to_reference>;
TYPED_TEST_SUITE(slopes, all_pieces);

TYPED_TEST(slopes, equal_the_derivative_of_the_value) {
  const TypeParam piece{};
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  for (int k = 0; k < 500; ++k)
    check_slope(piece, of_logps(-std::abs(normal(random)), -std::abs(normal(random)), -std::abs(normal(random)),
                                normal(random)));
  for (const double x :
       {0.0, 1e-9, -1e-9, 0.4999, 0.5001, -0.5001, 2.6, 2.62, -10.9, -11.1, 19.9, 20.1, -19.9, -20.1, 50.0})
    for (const double a : {-2.0, 0.0, 1.0})
      if (!(std::is_same_v<TypeParam, abs_kl> && x == 0)) check_slope(piece, of_logps(-1, -1 - x, -1 + x, a));
}

TEST(straight_through, has_the_value_of_one_and_the_slope_of_the_other) {
  const straight_through piece{clamped_k3{}, k2{}};
  const auto t = of_logps(-1, 0, -2.5, 0);
  EXPECT_EQ(at(piece, t).value, at(clamped_k3{}, t).value);
  EXPECT_EQ(at(piece, t).slope, 1.5);
}

TEST(weighted, multiplies_value_and_slope_but_not_the_monitors) {
  const auto t = of_logps(-1, -1.5, 0, 1);
  const auto plain = at(ppo_clip{}, t), w = at(weighted{ppo_clip{}}, t);
  EXPECT_EQ(w.value, 1.5 * plain.value);
  EXPECT_EQ(w.slope, 1.5 * plain.slope);
  EXPECT_EQ(w.monitor[0], plain.monitor[0]);
  static_assert(contains(weighted<ppo_clip>::reads, field::weight));
}

// Values computed by others, as printed in their tables.
TEST(k3, reference_values) {
  const auto value = [](double d) { return at(k3{}, of_logps(d, 0, 0, 0)); };
  EXPECT_NEAR(value(-0.5).value, 0.148721270700128, 1e-15);
  EXPECT_NEAR(value(-0.5).slope, -0.648721270700128, 1e-15);
  EXPECT_NEAR(value(0.5).value, 0.106530659712633, 1e-15);
  EXPECT_NEAR(value(0.5).slope, 0.393469340287367, 1e-15);
  EXPECT_NEAR(value(2).value, 1.13533528323661, 1e-14);
  EXPECT_NEAR(value(2).slope, 0.864664716763387, 1e-15);
}
TEST(clamped_k3, reference_values) {
  EXPECT_NEAR(at(clamped_k3{}, of_logps(-1, 0, -1.2, 0)).value, 0.0187308, 1e-7);
  EXPECT_NEAR(at(clamped_k3{}, of_logps(-1.2, 0, -1, 0)).value, 0.0214028, 1e-7);
  EXPECT_NEAR(at(clamped_k3{}, of_logps(-1, 0, -6, 0)).value, 4.0067379, 1e-7);
  EXPECT_EQ(at(clamped_k3{}, of_logps(-6, 0, -1, 0)).value, 10);
  EXPECT_EQ(at(clamped_k3{}, of_logps(-6, 0, -1, 0)).slope, 0);
}
TEST(ppo_clip, reference_values) {
  const ppo_clip piece{.low = 0.2, .high = 0.28};
  const auto clipped = at(piece, of_logps(-1, -1.5, 0, 1));
  EXPECT_EQ(clipped.value, -1.28);
  EXPECT_EQ(clipped.slope, 0);
  EXPECT_EQ(clipped.monitor[0], 1);
  EXPECT_NEAR(at(piece, of_logps(-1.5, -1, 0, 1)).value, -0.6065307, 1e-7);
  EXPECT_EQ(at(piece, of_logps(-1.5, -1, 0, -1)).value, 0.8);
}
TEST(ppo_clip, bounds_belong_to_the_inside) {  // torch 2.15 passes half of the gradient there, older ones all
  const double x = std::log(1.25);
  const ppo_clip piece{.low = 0.25, .high = std::exp(x) - 1};
  EXPECT_EQ(at(piece, of_logps(x, 0, 0, 1)).slope, -std::exp(x));
}
TEST(dual_clip, reference_values) {
  const auto lowered = at(dual_clip{.bound = 10}, of_logps(-1, -5, 0, -1));
  EXPECT_EQ(lowered.value, 10);
  EXPECT_EQ(lowered.slope, 0);
  EXPECT_EQ(lowered.monitor[1], 1);
  EXPECT_EQ(lowered.monitor[2], -4);
  EXPECT_EQ(at(dual_clip{.high = 1e9}, of_logps(0, -20, 0, 1)).slope,
            -std::exp(20.0));  // limits are inclusive
  EXPECT_EQ(at(dual_clip{.high = 1e9}, of_logps(0, -21, 0, 1)).slope, 0);
}
TEST(dual_clip, has_no_dual_bound_if_that_is_infinite) {
  const dual_clip piece{.bound = std::numeric_limits<double>::infinity()};
  for (const double a : {-2.0, 0.0, 3.0}) {
    const auto t = of_logps(-1, -3, 0, a);
    EXPECT_EQ(at(piece, t).value, at(ppo_clip{}, t).value);
    EXPECT_EQ(at(piece, t).slope, at(ppo_clip{}, t).slope);
    token<pack<float>> p{};
    p.logp = pack<float>(-1), p.old_logp = pack<float>(-3), p.advantage = pack<float>(static_cast<float>(a));
    EXPECT_NEAR((piece.operator()<fast_math, pack<float>>(p).value.v[0]), at(piece, t).value, 1e-5);
  }
}
TEST(abs_kl, has_slope_0_at_its_kink) { EXPECT_EQ(at(abs_kl{}, of_logps(-1, 0, -1, 0)).slope, 0); }
TEST(pieces, let_a_nan_through) {  // a broken number must not look like a clipped token
  const double nan = std::nan("");
  EXPECT_TRUE(std::isnan(at(ppo_clip{}, of_logps(nan, 0, 0, 1)).slope));
  EXPECT_TRUE(std::isnan(at(dual_clip{}, of_logps(nan, 0, 0, -1)).slope));
  EXPECT_TRUE(std::isnan(at(clamped_k3{}, of_logps(nan, 0, 0, 1)).slope));
  EXPECT_TRUE(std::isnan(at(abs_kl{}, of_logps(nan, 0, 0, 1)).slope));
}

TEST(bradley_terry, reference_values_and_slopes) {
  token<double> c{}, r{};
  c.logp = 2;
  const auto plain = bradley_terry{}.operator()<exact_math, double>(c, r);
  EXPECT_NEAR(plain.value, 0.598138869381592, 1e-15);
  EXPECT_NEAR(plain.slope_chosen, -0.0450166002687522, 1e-16);
  const bradley_terry smoothed{.smoothing = 0.1};
  EXPECT_NEAR((smoothed.operator()<exact_math, double>(c, r).value), 0.618138869381592, 1e-15);
  const bradley_terry reward{.beta = 1, .margin = 0.3};
  c.logp = 1.5, r.logp = 0.5;
  EXPECT_NEAR((bradley_terry{.beta = 1}.operator()<exact_math, double>(c, r).value), 0.3132617, 1e-7);
  EXPECT_NEAR((reward.operator()<exact_math, double>(c, r).value), 0.4031860, 1e-7);
  for (const double z : {-800.0, -30.0, -1.0, 0.0, 0.3, 5.0, 40.0, 800.0}) {
    token<dual> chosen{}, rejected{};
    chosen.logp = dual(z, 1);
    const auto d = smoothed.operator()<exact_math, dual>(chosen, rejected);
    EXPECT_NEAR(d.value.d, d.slope_chosen.v, 1e-12 * std::abs(d.slope_chosen.v) + 1e-17) << z;
    EXPECT_EQ(d.slope_rejected.v, -d.slope_chosen.v);
  }
}

// The same text on one lane and on a scalar: packs differ from <cmath> by rounding only.
TEST(pieces, agree_between_packs_and_scalars) {
  using lanes = pack<double>;
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  for (int k = 0; k < 200; ++k) {
    const auto t = of_logps(normal(random), normal(random), normal(random), normal(random));
    token<lanes> p{};
    p.logp = t.logp, p.old_logp = t.old_logp, p.ref_logp = t.ref_logp, p.advantage = t.advantage;
    const auto s = at(dual_clip{}, t);
    const auto v = dual_clip{}.operator()<fast_math, lanes>(p);
    EXPECT_NEAR(s.value, v.value.v[0], 1e-14 * std::abs(s.value));
    EXPECT_NEAR(s.slope, v.slope.v[lanes::lanes - 1], 1e-14 * std::abs(s.slope));
    const auto e = at(k3{}, t);
    const auto f = k3{}.operator()<fast_math, lanes>(p);
    EXPECT_NEAR(e.value, f.value.v[0], 4e-15 * std::abs(e.value));
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
