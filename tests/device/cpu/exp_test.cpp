// The exponential inside the kernels against the C library's in double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "device/cpu/sets.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;

class exponential : public testing::TestWithParam<std::string> {
 protected:
  floats of(const floats& x) {
    floats y(x.size());
    device.exp(y.data(), x.data(), static_cast<extent_t>(x.size()));
    return y;
  }
  cpu device{1, GetParam()};
};

/// Distance from the exact value in units in the last place of the float nearest to it, subnormal ones included.
double distance(float y, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(static_cast<double>(y) - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

TEST_P(exponential, is_within_the_stated_distance) {
  floats x;
  for (float v = -104; v < 88.72f; v += 0.00037f) x.push_back(v);
  for (float v = 1e-30f; v < 1; v *= 1.01f) x.push_back(v), x.push_back(-v);
  const floats y = of(x);
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(distance(y[i], std::exp(static_cast<double>(x[i]))), 0.9) << "e^" << x[i];
}

TEST_P(exponential, meets_its_ends) {
  const float infinity = std::numeric_limits<float>::infinity();
  const floats x = {0.0f, -0.0f, 89, 200, 1e30f, infinity, -104, -200, -1e30f, -infinity};
  EXPECT_EQ(of(x), (floats{1, 1, infinity, infinity, infinity, infinity, 0, 0, 0, 0}));
  for (const float y : of(floats(17, std::numeric_limits<float>::quiet_NaN()))) EXPECT_TRUE(std::isnan(y));
}

TEST_P(exponential, of_a_value_is_the_same_wherever_it_stands) {
  const floats x = rlcore_test::normal(61, 3, 20);
  for (std::size_t n = 1; n <= x.size(); ++n) {
    const floats y = of(floats(x.end() - static_cast<std::ptrdiff_t>(n), x.end()));
    for (std::size_t i = 0; i < n; ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(of({x[x.size() - n + i]})[0]));
  }
}

INSTANTIATE_TEST_SUITE_P(sets, exponential, testing::ValuesIn(rlcore_test::instruction_sets()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace RLCORE_TEST_ID
