// Rows without a score, for estimators that know nothing but a mask.
#include "rlcore/objective/filter.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"
#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/advantage/token_rewards.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

const double none = std::nan("");

/// Three rows of three tokens, or the first and last of them alone.
struct step_rows {
  extent_t rows = 3;
  std::vector<double> score{1, none, 3}, baseline{0.5, 0.25, 1}, value{.1, .2, .3, .4, .5, .6, .7, .8, .9};
  std::vector<int> mask{1, 1, 1, 1, 1, 0, 0, 1, 1};
  std::vector<double> reward{}, out{}, returns{};

  static step_rows without_the_unscored() {
    return {.rows = 2,
            .score = {1, 3},
            .baseline = {0.5, 1},
            .value = {.1, .2, .3, .7, .8, .9},
            .mask = {1, 1, 1, 0, 1, 1}};
  }
  template <class T>
  matrix_view<T> matrix(std::vector<T>& v) const {
    return {v.data(), {rows, 3}};
  }
  template <class F>
  std::vector<double> run(F estimate) {
    reward.assign(value.size(), -9), out = returns = reward;
    token_rewards{}(score, matrix(mask), matrix(reward));
    estimate(*this);
    return out;
  }
};

// What the other rows get must not depend on a row that nobody scored, and that row must not be trained.
template <class F>
void expect_left_out(F estimate) {
  step_rows all, few = step_rows::without_the_unscored();
  EXPECT_EQ(mask_unscored(all.score, all.matrix(all.mask)), 1);
  const auto got = all.run(estimate), expected = few.run(estimate);
  for (std::size_t t = 0; t < 3; ++t) {
    EXPECT_EQ(got[t], expected[t]);
    EXPECT_EQ(got[3 + t], 0);
    EXPECT_EQ(got[6 + t], expected[3 + t]);
  }
}

TEST(mask_unscored, keeps_rows_out_of_estimators_per_token) {
  expect_left_out([](step_rows& r) { reinforce_plus_plus{}(r.matrix(r.reward), r.matrix(r.mask), r.matrix(r.out)); });
  expect_left_out([](step_rows& r) { remax{}(r.matrix(r.reward), r.baseline, r.matrix(r.mask), r.matrix(r.out)); });
  expect_left_out([](step_rows& r) {
    gae{}(r.matrix(r.reward), r.matrix(r.value), r.matrix(r.mask), r.matrix(r.out), r.matrix(r.returns));
    whitening{}(r.matrix(r.out), r.matrix(r.mask), r.matrix(r.out));
  });
}

TEST(mask_unscored, of_lengths) {
  std::vector<std::int32_t> lengths{5, 9, 2};
  EXPECT_EQ(mask_unscored(std::vector<float>{0, NAN, -1}, lengths), 1);
  EXPECT_EQ(lengths, (std::vector<std::int32_t>{5, 0, 2}));
}

TEST(mask_unscored, refuses_other_shapes) {
  step_rows r;
  EXPECT_THROW(mask_unscored(r.score, matrix_view<int>(r.mask.data(), {2, 3})), std::invalid_argument);
  EXPECT_THROW(mask_unscored(std::vector<double>(2), r.score), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
