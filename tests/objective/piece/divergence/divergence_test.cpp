// KL estimators against dual numbers, and against the functions of verl, OpenRLHF and TRL.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "objective/check_slope.hpp"
#include "objective/golden_case.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/divergence/ratio_corrected.hpp"
#include "rlcore/simd/math.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

token<double> apart(double d, double x = 0) {  // logp - ref_logp, logp - old_logp
  token<double> t{};
  t.logp = -1, t.ref_logp = -1 - d, t.old_logp = -1 - x;
  return t;
}

template <class P>
void check_everywhere(const P& piece) {
  std::mt19937_64 random(17);
  for (int k = 0; k < 400; ++k) check_slope(piece, random_token(random));
  for (const double d : {0.0, 1e-9, -1e-9, 2.6, -2.62, 4.4, 4.5, -4.5, 9.99, 10.01, -9.99, -10.01})
    for (const double x : {0.0, 1e-9, -3.0, 2.0}) check_slope(piece, apart(d, x));
}

template <class P>
constexpr bool stops = requires { requires P::stops_gradient; };
template <class P>
constexpr bool no_signal = requires { requires P::zero_mean_gradient; };

TEST(divergence, slopes_are_derivatives_of_values) {
  check_everywhere(value_clamped{k1{}});
  check_everywhere(value_clamped{k2{}});
  check_everywhere(value_clamped{k3{}});
  check_everywhere(value_clamped{k3{}, -1, 0.5});
  check_everywhere(clamped_k3{});
  check_everywhere(ratio_corrected{k1{}});
  check_everywhere(ratio_corrected{k2{}});
  check_everywhere(ratio_corrected{value_clamped{k3{}}});
  std::mt19937_64 random(18);  // not where the sum of value and slope has no digits left: see divergence.keeps_digits
  for (int k = 0; k < 400; ++k) check_slope(ratio_corrected{k3{}}, random_token(random));
  for (const double d : {0.0, 1e-9, -1e-9, 2.6, -2.62, 4.5})
    for (const double x : {0.0, -3.0, 2.0}) check_slope(ratio_corrected{k3{}}, apart(d, x));
}

TEST(divergence, equals_verl) {  // kl_penalty, names as there
  const auto golden = read_golden("divergence.json")["wide"];
  const auto tokens = golden_tokens(golden["fields"]);
  const auto& c = golden["cases"];
  check_case(k3{}, tokens, c["k3_formula"]);
  for (const char* name : {"verl_kl", "verl_k1"}) check_case(k1{}, tokens, c[name]);
  check_case(abs_kl{}, tokens, c["verl_abs"]);
  for (const char* name : {"verl_mse", "verl_k2", "verl_mse+", "verl_k2+"}) check_case(k2{}, tokens, c[name]);
  for (const char* name : {"verl_low_var_kl", "verl_k3"}) check_case(clamped_k3{}, tokens, c[name]);
  // verl-project/verl#6058: the names with a plus never worked, since they were looked up with it. Here they are types.
  for (const char* name : {"verl_kl+", "verl_k1+"}) check_case(with_kl_gradient(k1{}), tokens, c[name]);
  check_case(with_kl_gradient(abs_kl{}), tokens, c["verl_abs+"]);
  check_case(with_kl_gradient(k2{}), tokens, c["verl_k2+"]);
  for (const char* name : {"verl_low_var_kl+", "verl_k3+"}) check_case(with_kl_gradient(clamped_k3{}), tokens, c[name]);
}

TEST(divergence, equals_openrlhf) {  // compute_approx_kl
  const auto golden = read_golden("divergence.json")["wide"];
  const auto tokens = golden_tokens(golden["fields"]);
  const auto& c = golden["cases"];
  check_case(value_clamped{k1{}}, tokens, c["openrlhf_k1"]);
  check_case(value_clamped{k2{}}, tokens, c["openrlhf_k2"]);
  check_case(value_clamped{k3{}}, tokens, c["openrlhf_k3"]);
  // OpenRLHF/OpenRLHF#1309: off-policy the gradient needs the ratio
  const ratio_weighted slope{k2{}};
  check_case(straight_through{value_clamped{k1{}}, slope}, tokens, c["openrlhf_unbiased_k1"]);
  check_case(straight_through{value_clamped{k2{}}, slope}, tokens, c["openrlhf_unbiased_k2"]);
  check_case(straight_through{value_clamped{k3{}}, slope}, tokens, c["openrlhf_unbiased_k3"]);
  check_case(with_kl_gradient(value_clamped{k3{}}), tokens, c["openrlhf_unbiased_on_policy_k3"]);
}

TEST(divergence, ratio_corrected_equals_autograd) {
  const auto golden = read_golden("divergence.json")["narrow"];
  const auto tokens = golden_tokens(golden["fields"]);
  const auto& c = golden["cases"];
  check_case(ratio_corrected{k1{}}, tokens, c["corrected_k1"]);
  check_case(ratio_corrected{abs_kl{}}, tokens, c["corrected_abs"]);
  check_case(ratio_corrected{k2{}}, tokens, c["corrected_k2"]);
  check_case(ratio_corrected{k3{}}, tokens, c["corrected_k3"]);
}

// verl-project/verl#1124: E_old[r k3] is KL(policy || reference) and E_old[slope of r k3] its gradient, at every old
// policy. Three tokens, exact sums; the gradient by the logits is sum_y old_y slope_y (1[y = j] - p_j).
TEST(divergence, ratio_corrected_is_unbiased_off_policy) {
  const double old[] = {0.2, 0.5, 0.3}, p[] = {0.6, 0.1, 0.3}, q[] = {0.25, 0.25, 0.5};
  double kl = 0, exact[3] = {}, mean[3] = {}, gradient[3][3] = {};
  for (int y = 0; y < 3; ++y) kl += p[y] * std::log(p[y] / q[y]);
  for (int j = 0; j < 3; ++j) exact[j] = p[j] * (std::log(p[j] / q[j]) - kl);
  const auto add = [&](int e, const auto& piece) {
    for (int y = 0; y < 3; ++y) {
      token<double> t{};
      t.logp = std::log(p[y]), t.old_logp = std::log(old[y]), t.ref_logp = std::log(q[y]);
      const auto r = at(piece, t);
      mean[e] += old[y] * r.value;
      for (int j = 0; j < 3; ++j) gradient[e][j] += old[y] * r.slope * ((y == j ? 1 : 0) - p[j]);
    }
  };
  add(0, ratio_corrected{k1{}});
  add(1, ratio_corrected{k3{}});
  add(2, ratio_weighted{k2{}});
  EXPECT_NEAR(mean[0], kl, 1e-15);
  EXPECT_NEAR(mean[1], kl, 1e-15);
  for (const auto& g : gradient)
    for (int j = 0; j < 3; ++j) EXPECT_NEAR(g[j], exact[j], 1e-15);
}

// verl-project/verl#2953, OpenRLHF/OpenRLHF#1101: on-policy, the slope of k1 has no signal, that of k3 is the gradient
// of the other direction, and that of k2 is the right one.
TEST(divergence, expected_slopes_on_policy) {
  const double p[] = {0.6, 0.1, 0.3}, q[] = {0.25, 0.25, 0.5};
  double kl = 0;
  for (int y = 0; y < 3; ++y) kl += p[y] * std::log(p[y] / q[y]);
  const auto expected = [&](const auto& piece, int j) {
    double g = 0;
    for (int y = 0; y < 3; ++y) g += p[y] * at(piece, apart(std::log(p[y] / q[y]))).slope * ((y == j ? 1 : 0) - p[j]);
    return g;
  };
  for (int j = 0; j < 3; ++j) {
    const double forward = p[j] * (std::log(p[j] / q[j]) - kl);
    EXPECT_NEAR(expected(k1{}, j), 0, 1e-15);
    EXPECT_NEAR(expected(k2{}, j), forward, 1e-15);
    EXPECT_NEAR(expected(with_kl_gradient(k1{}), j), forward, 1e-15);
    EXPECT_NEAR(expected(k3{}, j), p[j] - q[j], 1e-15);
  }
  static_assert(no_signal<k1> && no_signal<value_clamped<k1>> && no_signal<ratio_weighted<k1>> &&
                no_signal<straight_through<k3, k1>>);
  static_assert(!no_signal<ratio_corrected<k1>> && !no_signal<straight_through<k1, k2>> &&
                !no_signal<value_clamped<k3>>);
}

TEST(divergence, reference_values) {  // specification, e^-d - 1 + d and 1 - e^-d
  EXPECT_NEAR(at(k3{}, apart(-0.5)).value, 0.148721270700128, 1e-15);
  EXPECT_NEAR(at(k3{}, apart(-0.5)).slope, -0.648721270700128, 1e-15);
  EXPECT_NEAR(at(k3{}, apart(0.5)).value, 0.106530659712633, 1e-15);
  EXPECT_NEAR(at(k3{}, apart(0.5)).slope, 0.393469340287367, 1e-15);
  EXPECT_NEAR(at(k3{}, apart(2)).value, 1.13533528323661, 1e-14);
  EXPECT_NEAR(at(k3{}, apart(2)).slope, 0.864664716763387, 1e-15);
}

// The clamps of verl leave a token that has lost probability without a restoring force; whether they do is a choice.
TEST(divergence, clamps_cut_or_pass_the_gradient) {
  using passing = limited_k3<gradient_at_clamp::pass>;
  for (const double d : {-2.62, -5.0, -15.0, 11.1, 19.0}) {
    EXPECT_EQ(at(clamped_k3{}, apart(d)).slope, 0) << d;
    EXPECT_EQ(at(passing{}, apart(d)).slope, at(k3{}, apart(d)).slope) << d;
    EXPECT_EQ(at(passing{}, apart(d)).value, 10.0 < at(k3{}, apart(d)).value ? 10.0 : at(k3{}, apart(d)).value) << d;
  }
  EXPECT_EQ(at(passing{}, apart(-1000)).slope, -std::expm1(20.0));
  const value_clamped<k2, gradient_at_clamp::pass> k2_passing{k2{}};
  EXPECT_EQ(at(k2_passing, apart(6)).value, 10);
  EXPECT_EQ(at(k2_passing, apart(6)).slope, 6);
  EXPECT_EQ(at(value_clamped{k2{}}, apart(6)).slope, 0);
  EXPECT_EQ(at(value_clamped{k1{}}, apart(10)).slope, 1);  // the bounds belong to the inside
  EXPECT_EQ(at(value_clamped{k1{}}, apart(-10)).slope, 1);
  static_assert(stops<passing> && !stops<clamped_k3> && stops<decltype(k2_passing)> && !stops<value_clamped<k2>>);
}

// OpenRLHF's older k3 took the exponential before its clamp: a value of 10, and a gradient of 0 times infinity. Also in
// float, where the exponential overflows at 89.
TEST(divergence, overflow_behind_a_clamp_is_not_nan) {
  for (const double d : {-100.0, -800.0}) {
    EXPECT_EQ(at(value_clamped{k3{}}, apart(d)).value, 10) << d;
    EXPECT_EQ(at(value_clamped{k3{}}, apart(d)).slope, 0) << d;
    EXPECT_EQ(at(clamped_k3{}, apart(d)).value, 10) << d;
    EXPECT_EQ(at(clamped_k3{}, apart(d)).slope, 0) << d;
  }
  EXPECT_EQ(at(clamped_k3{}, apart(-infinity)).value, 10);
  EXPECT_EQ(at(clamped_k3{}, apart(-infinity)).slope, 0);
  token<float> t{};
  t.logp = -120, t.ref_logp = -1, t.old_logp = -120;
  const auto limited = value_clamped{k3{}}.operator()<exact_math, float>(t);
  EXPECT_EQ(limited.value, 10);
  EXPECT_EQ(limited.slope, 0);
  EXPECT_EQ((ratio_corrected{k3{}}.operator()<exact_math, float>(t).slope), -119);
  token<pack<float>> lanes{};
  lanes.logp = pack<float>(-120), lanes.ref_logp = pack<float>(-1), lanes.old_logp = pack<float>(-120);
  const auto packed = value_clamped{k3{}}.operator()<fast_math, pack<float>>(lanes);
  EXPECT_EQ(packed.value.v[0], 10);
  EXPECT_EQ(packed.slope.v[0], 0);
  EXPECT_EQ((ratio_corrected{k3{}}.operator()<fast_math, pack<float>>(lanes).slope.v[0]), -119);
}

TEST(divergence, keeps_digits) {  // value + slope of k3 is d, also where e^-d has swallowed it
  for (const double d : {-40.0, -20.0, -0x1p-30, 0x1p-30, 50.0})
    EXPECT_EQ(at(ratio_corrected{k3{}}, apart(d)).slope, d) << d;
  for (const double x : {-2.0, 3.0})
    EXPECT_NEAR(at(ratio_corrected{k3{}}, apart(-30, x)).slope, -30 * std::exp(x), 1e-12 * 30 * std::exp(x));
}

// r times an infinite divergence: 0 times infinity as written, but r v goes to exp(ref_logp - old_logp) for k3 and to 0
// for powers of d.
TEST(divergence, ratio_corrected_has_a_limit_where_logp_falls_without_end) {
  token<double> t{};
  t.old_logp = -1, t.ref_logp = -2;
  for (const double logp : {-40.0, -100.0, -700.0, -730.0, -800.0, -1e4, -infinity}) {
    t.logp = logp;
    const double d = std::isinf(logp) ? -1e4 : logp + 2, r = std::exp(logp + 1);
    const auto three = at(ratio_corrected{k3{}}, t);
    EXPECT_NEAR(three.value, std::exp(-1.0) - r * (1 - d), 1e-16) << logp;
    EXPECT_NEAR(three.slope, r * d, 1e-15 * std::abs(r * d)) << logp;
    EXPECT_NEAR(at(ratio_corrected{k1{}}, t).value, r * d, 1e-15 * std::abs(r * d)) << logp;
    EXPECT_NEAR(at(ratio_corrected{k1{}}, t).slope, r * (d + 1), 1e-15 * std::abs(r * d)) << logp;
    EXPECT_NEAR(at(ratio_corrected{k2{}}, t).value, r * d * d / 2, 1e-15 * r * d * d) << logp;
    EXPECT_NEAR(at(ratio_corrected{k2{}}, t).slope, r * (d + d * d / 2), 1e-15 * r * d * d) << logp;
    token<pack<float>> lanes{};
    lanes.logp = pack<float>(static_cast<float>(logp));
    lanes.old_logp = pack<float>(-1), lanes.ref_logp = pack<float>(-2);
    const auto packed = ratio_corrected{k3{}}.operator()<fast_math, pack<float>>(lanes);
    EXPECT_NEAR(packed.value.v[0], std::exp(-1.0f), 1e-7f) << logp;
    EXPECT_NEAR(packed.slope.v[0], 0, 1e-14f) << logp;
  }
  for (const double d : {-29.9, -30.0, -30.1})  // both forms of the value agree where one takes over
    EXPECT_NEAR(at(ratio_corrected{k3{}}, apart(d, -3)).value, std::exp(-3.0) * (std::expm1(-d) + d),
                1e-15 * std::exp(-3.0 - d));
  t.logp = -infinity, t.ref_logp = std::nan("");
  EXPECT_TRUE(std::isnan(at(ratio_corrected{k3{}}, t).slope));
  EXPECT_TRUE(std::isnan(at(ratio_corrected{k2{}}, t).value));
}

TEST(divergence, ratio_weighted_is_bounded) {
  EXPECT_EQ(at(ratio_weighted{k2{}}, apart(3, 50)).slope, 30);
  EXPECT_EQ(at(ratio_weighted(k2{}, 2.0), apart(3, 50)).slope, 6);
  EXPECT_EQ(at(ratio_weighted{k2{}}, apart(3, -1)).slope, 3 * std::exp(-1.0));
}

TEST(divergence, lets_a_nan_through) {
  for (const bool in_reference : {false, true}) {
    auto t = apart(0.5);
    (in_reference ? t.ref_logp : t.logp) = std::nan("");
    EXPECT_TRUE(std::isnan(at(value_clamped{k1{}}, t).value));
    for (const auto& r :
         {at(value_clamped{k2{}}, t), at(value_clamped{k3{}}, t), at(ratio_corrected{k2{}}, t),
          at(ratio_corrected{k3{}}, t), at(ratio_weighted{k2{}}, t), at(limited_k3<gradient_at_clamp::pass>{}, t)}) {
      EXPECT_TRUE(std::isnan(r.value));
      EXPECT_TRUE(std::isnan(r.slope));
    }
  }
  auto t = apart(0.5);
  t.old_logp = std::nan("");
  EXPECT_TRUE(std::isnan(at(ratio_corrected{k3{}}, t).slope));
  EXPECT_TRUE(std::isnan(at(ratio_weighted{k2{}}, t).slope));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
