// Pieces that read what is gathered over their row, scores with slopes of their own, links over the whole batch, and
// gradients that are added.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/score.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

/// -A e^(mean log-ratio), one per sequence.
struct sequence_ratio {
  static constexpr field reads = field::gathered | field::advantage;
  static constexpr std::string_view name = "policy";
  using gathers = mean_of<log_ratio_to_old>;
  static constexpr bool per_sequence = true;
  [[maybe_unused]] static constexpr bool stops_gradient = true;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V s = Math::exp(t.gathered) * t.advantage;
    return {-s, -s};
  }
};

/// logp^2 / 2: a score whose slope is logp.
struct half_square {
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "half_square";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {V(0.5) * t.logp * t.logp, t.logp};
  }
};

/// Sum over neighbours in sorted order of half the squared difference of scores: every row is coupled with others.
struct sorted_gaps {
  static constexpr std::string_view name = "sorted_gaps";
  double operator()(std::span<const token<double>> rows, std::span<double> slope) const {
    std::vector<std::size_t> order(rows.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return rows[a].logp < rows[b].logp; });
    double value = 0;
    for (std::size_t k = 0; k + 1 < order.size(); ++k) {
      const double d = rows[order[k + 1]].logp - rows[order[k]].logp;
      value += 0.5 * d * d;
      slope[order[k + 1]] += d, slope[order[k]] -= d;
    }
    return value;
  }
};

/// A link that reads the row's target and gathers the mean entropy.
struct target_times_score {
  static constexpr field reads = field::logp | field::target | field::gathered;
  static constexpr std::string_view name = "target_times_score";
  struct entropy_score {
    static constexpr field reads = field::entropy;
    [[maybe_unused]] static constexpr std::string_view name = "entropy";
    template <class Math, class V>
    RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
      return {t.entropy, V(0)};
    }
  };
  using gathers = mean_of<entropy_score>;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.target * t.gathered * t.logp, t.target * t.gathered};
  }
};

struct rows {
  // row 0: slots 0 1 3; row 1: slot 1; row 2: none; row 3: all four
  std::vector<double> logp{-1, -2, nan, -0.5, nan, -3, nan, nan, nan, nan, nan, nan, -1, -1.5, -2, -0.25};
  std::vector<double> old_logp{-1.1, -1.9, nan, -0.7, nan, -3.2, nan, nan, nan, nan, nan, nan, -1, -1.5, -2, -0.5};
  std::vector<double> entropy = std::vector<double>(16, 2.0), gradient = std::vector<double>(16, 7.0);
  std::vector<double> advantage{1, -2, 3, 0.5}, target{2, 3, 4, 5};
  std::vector<int> mask{1, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1};
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();

  template <class U>
  matrix_view<U> matrix(std::vector<U>& x) const {
    return {x.data(), {4, 4}};
  }
  token_batch<double> batch() {
    return {.logp = matrix(logp),
            .old_logp = matrix(old_logp),
            .advantage = advantage,
            .entropy = matrix(entropy),
            .target = target,
            .mask = matrix(mask)};
  }
};

TEST(gathered, is_the_rows_mean_for_each_of_its_tokens) {
  rows r;
  const auto b = r.batch();
  const auto report = evaluate(serial{}, sequence_ratio{}, sequence_mean_token_mean{}, b, loss_counts(b),
                               {.logp = r.matrix(r.gradient)});
  const double s0 = std::exp((0.1 - 0.1 + 0.2) / 3), s1 = std::exp(0.2), s3 = std::exp(0.25 / 4);
  EXPECT_NEAR(report.loss(), (-s0 + 2 * s1 - 0.5 * s3) / 3, 1e-15);
  EXPECT_NEAR(r.gradient[3], -s0 / 9, 1e-16);
  EXPECT_NEAR(r.gradient[5], 2 * s1 / 3, 1e-15);
  EXPECT_NEAR(r.gradient[15], -0.5 * s3 / 12, 1e-16);
  for (const std::size_t k : {2u, 4u, 6u, 7u, 8u, 9u, 10u, 11u}) EXPECT_EQ(r.gradient[k], 0) << k;
}

TEST(gathered, may_stand_beside_other_pieces) {
  rows r;
  std::vector<double> ref = r.old_logp, alone(16), both(16), kl(16);
  auto b = r.batch();
  b.ref_logp = r.matrix(ref);
  const auto step = loss_counts(b);
  const sequence_mean_token_mean mean;
  evaluate(serial{}, sequence_ratio{}, mean, b, step, {.logp = r.matrix(alone)});
  evaluate(serial{}, scaled{0.5, k2{}}, mean, b, step, {.logp = r.matrix(kl)});
  const auto report =
      evaluate(threads(2), sum{sequence_ratio{}, scaled{0.5, k2{}}}, mean, b, step, {.logp = r.matrix(both)});
  EXPECT_EQ(report.piece[1].name, "kl");
  for (std::size_t k = 0; k < 16; ++k) EXPECT_NEAR(both[k], alone[k] + kl[k], 1e-15) << k;
}

TEST(gathered, comes_through_weighted) {
  rows r;
  std::vector<double> weight(16, 0.5), half(16);
  auto b = r.batch();
  b.weight = r.matrix(weight);
  evaluate(serial{}, sequence_ratio{}, sequence_mean_token_mean{}, b, loss_counts(b), {.logp = r.matrix(r.gradient)});
  evaluate(serial{}, weighted{sequence_ratio{}}, sequence_mean_token_mean{}, b, loss_counts(b),
           {.logp = r.matrix(half)});
  for (std::size_t k = 0; k < 16; ++k) EXPECT_EQ(half[k], 0.5 * r.gradient[k]);
}

TEST(adding, joins_terms_with_other_denominators) {
  rows r;
  const auto b = r.batch();
  const auto step = loss_counts(b);
  std::vector<double> first(16), second(16);
  evaluate(serial{}, sequence_ratio{}, sequence_mean_token_mean{}, b, step, {.logp = r.matrix(first)});
  evaluate(serial{}, log_prob{}, token_mean{}, b, step, {.logp = r.matrix(second)});
  std::fill(r.gradient.begin(), r.gradient.end(), rows::nan);  // what masked slots hold is nobody's business
  for (std::size_t k = 0; k < 16; ++k)
    if (r.mask[k] != 0) r.gradient[k] = 1;
  evaluate(serial{}, sequence_ratio{}, sequence_mean_token_mean{}, b, step,
           {.logp = r.matrix(r.gradient), .add = true});
  evaluate(serial{}, log_prob{}, token_mean{}, b, step, {.logp = r.matrix(r.gradient), .add = true});
  for (std::size_t k = 0; k < 16; ++k) {
    if (r.mask[k] != 0)
      EXPECT_EQ(r.gradient[k], 1 + first[k] + second[k]) << k;
    else
      EXPECT_TRUE(std::isnan(r.gradient[k])) << k;
  }
}

TEST(adding, works_for_sequences) {
  rows r;
  const auto b = r.batch();
  std::vector<double> alone(16), added(16, 0.25);
  const sequence_objective objective{sum_of<log_prob>{}, target_times_score{}};
  evaluate(serial{}, objective, sequence_mean{}, b, loss_counts(b), {.logp = r.matrix(alone)});
  evaluate(serial{}, objective, sequence_mean{}, b, loss_counts(b), {.logp = r.matrix(added), .add = true});
  for (std::size_t k = 0; k < 16; ++k) EXPECT_EQ(added[k], alone[k] + 0.25) << k;
}

TEST(links, see_fields_of_the_row_and_a_second_statistic) {
  rows r;
  const auto b = r.batch();
  const sequence_objective objective{sum_of<log_prob>{}, target_times_score{}};
  const auto report = evaluate(serial{}, objective, sequence_mean{}, b, loss_counts(b), {.logp = r.matrix(r.gradient)});
  EXPECT_DOUBLE_EQ(report.loss(), (2 * 2 * -3.5 + 3 * 2 * -3.0 + 5 * 2 * -4.75) / 3);
  EXPECT_DOUBLE_EQ(r.gradient[0], 4.0 / 3);
  EXPECT_DOUBLE_EQ(r.gradient[13], 10.0 / 3);
}

TEST(scores, with_a_slope_are_scattered_with_it) {
  rows r;
  const auto b = r.batch();
  const sequence_objective objective{mean_of<half_square>{}, half_square{}};
  const auto report = evaluate(serial{}, objective, sequence_mean{}, b, loss_counts(b), {.logp = r.matrix(r.gradient)});
  const double c0 = (0.5 + 2 + 0.125) / 3, c1 = 4.5, c3 = (0.5 + 1.125 + 2 + 0.03125) / 4;
  EXPECT_NEAR(report.loss(), (c0 * c0 + c1 * c1 + c3 * c3) / 6, 1e-14);
  EXPECT_NEAR(r.gradient[1], c0 / 9 * -2, 1e-15);
  EXPECT_NEAR(r.gradient[5], c1 / 3 * -3, 1e-14);
  EXPECT_NEAR(r.gradient[14], c3 / 12 * -2, 1e-15);
}

TEST(batch_links, couple_all_rows) {
  rows r;
  const auto b = r.batch();
  const sequence_objective objective{sum_of<log_prob>{}, sorted_gaps{}};
  const auto report = evaluate(serial{}, objective, batch_total{}, b, loss_counts(b), {.logp = r.matrix(r.gradient)});
  // scores -3.5, -3, 0 (no live token), -4.75
  EXPECT_DOUBLE_EQ(report.loss(), 0.5 * (1.25 * 1.25 + 0.5 * 0.5 + 9));
  EXPECT_DOUBLE_EQ(r.gradient[0], 1.25 - 0.5);
  EXPECT_DOUBLE_EQ(r.gradient[5], 0.5 - 3);
  EXPECT_DOUBLE_EQ(r.gradient[12], -1.25);
  EXPECT_EQ(r.gradient[8], 0);
}

TEST(batch_links, want_the_whole_step) {
  rows r;
  const auto b = r.batch();
  auto step = loss_counts(b);
  step.add_row(3);
  const sequence_objective objective{sum_of<log_prob>{}, sorted_gaps{}};
  try {
    evaluate(serial{}, objective, batch_total{}, b, step);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("couples all rows of the optimizer step"));
  }
}

TEST(chosen_token_mean, weighs_the_first_row_of_each_pair) {
  rows r;
  const auto b = r.batch();
  global_counts chosen;
  chosen.add_row(3), chosen.add_row(0);
  const auto report =
      evaluate(serial{}, log_prob{}, chosen_token_mean{chosen}, b, loss_counts(b), {.logp = r.matrix(r.gradient)});
  EXPECT_DOUBLE_EQ(report.loss(), -3.5 / 3);
  EXPECT_EQ(report.tokens, 3);
  EXPECT_DOUBLE_EQ(report[log_prob::name], -3.5 / 3);
  EXPECT_EQ(r.gradient[5], 0);
  EXPECT_DOUBLE_EQ(r.gradient[0], 1.0 / 3);
}
TEST(chosen_sequence_mean, gives_each_chosen_row_the_same_weight) {
  global_counts chosen;
  chosen.add_row(3), chosen.add_row(0), chosen.add_row(5);
  const chosen_sequence_mean mean{chosen};
  EXPECT_EQ(mean.weight({3, 0}, {}), 1.0 / 6);
  EXPECT_EQ(mean.weight({5, 4}, {}), 1.0 / 10);
  EXPECT_EQ(mean.weight({4, 1}, {}), 0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
