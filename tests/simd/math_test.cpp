// The errors that simd/math.hpp states, measured against long double.
#include "rlcore/simd/math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "rlcore/simd/exact.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

/// Random packs per check; fewer where long double is computed by software.
constexpr int packs = std::numeric_limits<long double>::digits == 64 ? 20000 : 1000;

/// The largest error of f on random arguments, in units in the last place of the true value.
template <class T, class F, class Exact>
double worst_ulp(double low, double high, F f, Exact exact) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(low, high);
  double worst = 0;
  for (int k = 0; k < packs; ++k) {
    T x[pack<T>::lanes], y[pack<T>::lanes];
    for (T& v : x) v = static_cast<T>(uniform(random));
    store(y, f(load(x)));
    for (std::size_t i = 0; i < pack<T>::lanes; ++i) {
      const long double want = exact(static_cast<long double>(x[i]));
      int exponent = 0;
      (void)std::frexp(want, &exponent);
      exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
      const long double ulp = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
      worst = std::max(worst, static_cast<double>(std::abs(static_cast<long double>(y[i]) - want) / ulp));
    }
  }
  return worst;
}

long double exact_excess(long double x) {
  if (std::abs(x) > 0.5L) return std::expm1(x) - x;
  long double q = 0;
  for (int k = 25; k >= 2; --k) q = (q * x + 1) / static_cast<long double>(k);
  return x * x * q;
}

template <class T>
class fast_math_of : public testing::Test {};
using types = testing::Types<float, double>;
TYPED_TEST_SUITE(fast_math_of, types);

TYPED_TEST(fast_math_of, keeps_its_stated_errors) {
  using T = TypeParam;
  using lanes = pack<T>;
  for (const auto& [low, high] : {std::pair{-1e-3, 1e-3}, {-1.0, 1.0}, {-6.0, 6.0}, {-87.0, 88.0}, {-104.0, -87.0}}) {
    SCOPED_TRACE(low);
    EXPECT_LE(
        worst_ulp<T>(low, high, [](lanes x) { return fast_math::exp(x); }, [](auto x) { return std::exp(x); }), 1.25);
    EXPECT_LE(
        worst_ulp<T>(low, high, [](lanes x) { return fast_math::expm1(x); }, [](auto x) { return std::expm1(x); }), 2);
    EXPECT_LE(worst_ulp<T>(low, high, [](lanes x) { return fast_math::excess(x); }, exact_excess), 6);
    EXPECT_LE(
        worst_ulp<T>(
            low, high, [](lanes x) { return fast_math::sigmoid(x); }, [](auto x) { return 1 / (1 + std::exp(-x)); }),
        3);
    EXPECT_LE(worst_ulp<T>(
                  low, high, [](lanes x) { return fast_math::softplus(x); },
                  [](auto x) { return std::max(x, 0.0L) + std::log1p(std::exp(-std::abs(x))); }),
              2);
  }
}

TYPED_TEST(fast_math_of, ends_of_the_exponential) {
  using T = TypeParam;
  const auto exp = [](T x) { return fast_math::exp(pack<T>(x)).v[0]; };
  const T infinity = std::numeric_limits<T>::infinity();
  EXPECT_EQ(exp(0), T(1));
  EXPECT_EQ(exp(-0.0f), T(1));
  EXPECT_EQ(exp(infinity), infinity);
  EXPECT_EQ(exp(-infinity), T(0));
  EXPECT_EQ(exp(std::numeric_limits<T>::max()), infinity);
  EXPECT_EQ(exp(std::numeric_limits<T>::lowest()), T(0));
  for (const T nan : {std::numeric_limits<T>::quiet_NaN(), -std::numeric_limits<T>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(exp(nan)));
    EXPECT_TRUE(std::isnan(fast_math::expm1(pack<T>(nan)).v[0]));
    EXPECT_TRUE(std::isnan(fast_math::excess(pack<T>(nan)).v[0]));
  }
  for (const T x : {infinity, -infinity}) {
    EXPECT_EQ(fast_math::excess(pack<T>(x)).v[0], infinity);
    EXPECT_EQ(exact_math::excess(x), infinity);
  }
  const T last = std::log(std::numeric_limits<T>::max());  // finite up to here, subnormal down to the smallest number
  EXPECT_TRUE(std::isfinite(exp(std::nextafter(last, T(0)))));
  EXPECT_EQ(exp(last * T(1.0001)), infinity);
  EXPECT_GT(exp(std::log(std::numeric_limits<T>::denorm_min())), T(0));
}

TYPED_TEST(fast_math_of, logarithm_keeps_its_stated_error) {
  using T = TypeParam;
  for (const auto& [low, high] :
       {std::pair{1e-300, 1e-290}, {1e-44, 1e-39}, {1e-3, 0.999}, {0.7, 1.5}, {0.99, 1.01}, {2.0, 1e6}, {1e30, 1e38}}) {
    if (low < static_cast<double>(std::numeric_limits<T>::denorm_min())) continue;
    SCOPED_TRACE(low);
    EXPECT_LE(
        worst_ulp<T>(low, high, [](pack<T> x) { return fast_math::log(x); }, [](auto x) { return std::log(x); }), 1);
  }
  const T infinity = std::numeric_limits<T>::infinity();
  const auto log = [](T x) { return fast_math::log(pack<T>(x)).v[0]; };
  EXPECT_EQ(log(T(0)), -infinity);
  EXPECT_EQ(log(infinity), infinity);
  EXPECT_EQ(log(T(1)), T(0));
  EXPECT_TRUE(std::isnan(log(T(-1))));
  EXPECT_TRUE(std::isnan(log(std::numeric_limits<T>::quiet_NaN())));
}

TYPED_TEST(fast_math_of, logarithm_of_one_more_keeps_its_stated_error) {
  using T = TypeParam;
  const auto log1p = [](pack<T> x) { return fast_math::log1p(x); };
  const auto truth = [](long double x) { return std::log1p(x); };
  const double unit = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const auto& [low, high] : {std::pair{-unit, unit},
                                  {-8 * unit, 8 * unit},
                                  {-1e-3, 1e-3},
                                  {-0.3, 0.45},
                                  {-0.5, 1.0},
                                  {-1.0, -0.5},
                                  {-1.0, 3.0},
                                  {1.0, 1e3},
                                  {1 / unit / 4, 4 / unit},
                                  {1e30, 1e38},
                                  {-1e-37, 1e-37}}) {
    SCOPED_TRACE(low);
    EXPECT_LE(worst_ulp<T>(low, high, log1p, truth), 2);
  }
  const T infinity = std::numeric_limits<T>::infinity(), least = std::numeric_limits<T>::denorm_min();
  const T most = std::numeric_limits<T>::max();
  const T edges[] = {
      T(0), -T(0), least, -least, T(-1), T(-2), infinity, -infinity, most, -most, std::numeric_limits<T>::quiet_NaN()};
  for (const T x : edges) {
    const T y = log1p(pack<T>(x)).v[0], want = std::log1p(x);
    EXPECT_EQ(std::isnan(y), std::isnan(want)) << x;
    EXPECT_EQ(std::signbit(y) && !std::isnan(y), std::signbit(want) && !std::isnan(want)) << x;
    EXPECT_TRUE(y == want || std::isnan(want)) << x << ": " << y << ", " << want;
  }
}

TYPED_TEST(fast_math_of, selects_and_limits_lane_by_lane) {
  using T = TypeParam;
  T x[pack<T>::lanes], y[pack<T>::lanes];
  for (std::size_t i = 0; i < pack<T>::lanes; ++i) x[i] = static_cast<T>(i) - T(1.5);
  store(y, fast_math::clamp(load(x), pack<T>(T(-1)), pack<T>(T(0.25))));
  for (std::size_t i = 0; i < pack<T>::lanes; ++i) EXPECT_EQ(y[i], std::clamp(x[i], T(-1), T(0.25)));
  store(y, fast_math::sign(load(x)));
  for (std::size_t i = 0; i < pack<T>::lanes; ++i) EXPECT_EQ(y[i], x[i] > 0 ? T(1) : T(-1));
  EXPECT_EQ(fast_math::sign(pack<T>(T(0))).v[0], T(0));
  const T nan = std::numeric_limits<T>::quiet_NaN();
  EXPECT_TRUE(std::isnan(fast_math::clamp(pack<T>(nan), pack<T>(T(0)), pack<T>(T(1))).v[0]));
  EXPECT_EQ(fast_math::select(load(x) < T(0), pack<T>(T(3)), pack<T>(nan)).v[0], T(3));
}

TYPED_TEST(fast_math_of, gathers_what_lies_apart) {
  using T = TypeParam;
  T x[3 * pack<T>::lanes];
  for (std::size_t i = 0; i < 3 * pack<T>::lanes; ++i) x[i] = static_cast<T>(i);
  const auto p = gather(x, 3);
  for (std::size_t i = 0; i < pack<T>::lanes; ++i) EXPECT_EQ(p.v[i], static_cast<T>(3 * i));
}

TEST(exact_math, excess_has_no_cancellation) {
  for (const double x : {1e-12, -1e-8, 1e-3, -0.3, 0.49, -0.51, 3.0})
    EXPECT_NEAR(exact_math::excess(x), static_cast<double>(exact_excess(x)),
                1e-15 * static_cast<double>(exact_excess(x)) + 0);
  EXPECT_NEAR(exact_math::softplus(-800.0), 0.0, 0.0);
  EXPECT_EQ(exact_math::softplus(800.0), 800.0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
