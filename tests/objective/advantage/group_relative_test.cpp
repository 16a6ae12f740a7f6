#include "rlcore/objective/advantage/group_relative.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

template <class T = double>
std::vector<T> advantages(const std::vector<T>& rewards, std::int64_t group, group_relative how = {}) {
  std::vector<T> out(rewards.size(), T(-9));
  how(rewards, group, out);
  return out;
}

// Values of section "reference values" of the specification, computed with torch's conventions.
TEST(group_relative, reference_values) {
  for (const auto& [epsilon, good, bad] : {std::tuple{1e-4, 0.730163434345669, -1.0952451515185},
                                           {1e-6, 0.730295410009322, -1.09544311501398},
                                           {1e-9, 0.730296742006888, -1.09544511301033}}) {
    const auto a = advantages({1, 0, 0, 1, 1}, 5, {.epsilon = epsilon});
    EXPECT_NEAR(a[0], good, 1e-12);
    EXPECT_NEAR(a[1], bad, 1e-12);
  }
  const auto five = advantages({1, 0, 0, 1, 0}, 5);
  EXPECT_NEAR(five[0], 1.0954431, 1e-7);
  EXPECT_NEAR(five[1], -0.7302954, 1e-7);
  const auto centred = advantages({1, 0, 0, 1, 1}, 5, {.normalize_by_std = false});
  EXPECT_NEAR(centred[0], 0.4, 1e-15);
  EXPECT_NEAR(centred[1], -0.6, 1e-15);
}

TEST(group_relative, equal_rewards_give_exactly_zero) {  // huggingface/trl#7068: rounding noise divided by epsilon
  for (const int n : {2, 3, 6, 7, 8, 12, 24})
    for (const float r : {0.1f, 0.85f, -1.0f, 1e-30f})
      for (const float a : advantages<float>(std::vector<float>(static_cast<std::size_t>(n), r), n, {.epsilon = 1e-12}))
        EXPECT_EQ(a, 0.0f);
}

TEST(group_relative, a_single_row_has_a_documented_advantage) {
  EXPECT_NEAR(advantages({0.7}, 1)[0], 0.7, 1e-6);  // verl: mean 0, deviation 1
  EXPECT_EQ(advantages({0.7}, 1, {.normalize_by_std = false})[0], 0.7);
  EXPECT_EQ(advantages({0.7}, 1, {.singleton = singleton_group::zero})[0], 0.0);
}

TEST(group_relative, unscored_rows_are_left_out) {
  const double nan = std::nan("");
  const auto a = advantages({1, nan, 0, 1, nan, nan, nan, 2}, 4);
  const auto without = advantages({1, 0, 1}, 3);
  EXPECT_EQ(a[0], without[0]);
  EXPECT_EQ(a[1], 0);
  EXPECT_EQ(a[2], without[1]);
  EXPECT_EQ(a[4], 0);
  EXPECT_NEAR(a[7], 2, 3e-6);
  for (const double x : advantages({nan, nan}, 2)) EXPECT_EQ(x, 0);
}

TEST(group_relative, rows_of_a_group_may_be_anywhere) {
  const std::vector<float> rewards{1, 0, 0.5f, 0, 1, 0.25f, 1};
  const std::vector<std::int64_t> groups{7, -3, 7, 7, -3, 100, -3};
  std::vector<float> out(7), first(3), second(3);
  group_relative{}(rewards, groups, out);
  group_relative{}(std::vector<float>{1, 0.5f, 0}, 3, first);
  group_relative{}(std::vector<float>{0, 1, 1}, 3, second);
  EXPECT_EQ(out[0], first[0]);
  EXPECT_EQ(out[2], first[1]);
  EXPECT_EQ(out[3], first[2]);
  EXPECT_EQ(out[1], second[0]);
  EXPECT_EQ(out[6], second[2]);
  EXPECT_NEAR(out[5], 0.25f, 1e-6f);
}

TEST(group_relative, refuses_what_does_not_fit) {
  EXPECT_THROW(advantages({1, 2, 3}, 2), std::invalid_argument);
  EXPECT_THROW(advantages({1, 2}, 0), std::invalid_argument);
  EXPECT_THROW(advantages({1, INFINITY}, 2), std::invalid_argument);
  std::vector<double> short_out(1);
  EXPECT_THROW(group_relative{}(std::vector<double>{1, 2}, 2, short_out), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
