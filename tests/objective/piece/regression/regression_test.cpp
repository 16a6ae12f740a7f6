// Regressions of a sequence's score: against PyTorch, and TRL's own function for A2PO.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "objective/golden_case.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/regression.hpp"
#include "rlcore/objective/piece/score.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using rlcore_test::at, rlcore_test::check_slope;

namespace {

struct regression_rows {
  nlohmann::json data = rlcore_test::read_golden("regression.json");
  std::size_t rows = data["rows"], tokens = data["tokens"], group = data["group"];

  std::vector<double> field_of(const char* name) const { return data["fields"].at(name); }
  double number(const char* name, std::size_t i) const { return data["fields"][name][i]; }
  double value(const char* name, std::size_t i) const { return data["cases"][name]["value"][i]; }
  double gradient(const char* name, std::size_t k) const { return data["cases"][name]["gradient"][k]; }
  /// The sum of logp minus another log-prob over row i.
  double log_ratio(const char* other, std::size_t i) const {
    double sum = 0;
    for (std::size_t k = i * tokens; k < (i + 1) * tokens; ++k) sum += number("logp", k) - number(other, k);
    return sum;
  }
};

TEST(squared_residual, is_sppo_and_a2po) {
  const regression_rows r;
  const squared_residual sppo{.eta = 0.8}, a2po{.beta = 0.3};
  for (std::size_t i = 0; i < r.rows; ++i) {
    token<double> t{};
    t.logp = r.log_ratio("old_logp", i), t.target = r.number("reward", i);
    EXPECT_NEAR(at(sppo, t).value, r.value("sppo", i), 1e-12);
    EXPECT_NEAR(at(sppo, t).slope, r.gradient("sppo", i * r.tokens), 1e-12);
    check_slope(sppo, t);
    t.logp = r.log_ratio("ref_logp", i), t.target = r.number("reward", i) - r.number("best", i);
    EXPECT_NEAR(at(a2po, t).value, r.value("a2po", i), 1e-12);
    EXPECT_NEAR(at(a2po, t).slope, r.gradient("a2po", i * r.tokens), 1e-12);
    check_slope(a2po, t);
  }
}

TEST(trajectory_balance, is_flowrl) {
  const regression_rows r;
  for (std::size_t i = 0; i < r.rows; ++i) {
    token<double> t{};
    t.logp = r.log_ratio("ref_logp", i) / static_cast<double>(r.tokens), t.gathered = r.log_ratio("old_logp", i);
    t.value = r.number("log_z", i), t.target = r.number("reward", i);
    const auto got = at(trajectory_balance{}, t);
    EXPECT_NEAR(got.value, r.value("flowrl", i), 1e-12 * std::abs(got.value));
    double by_log_z = 0;  // the sum of the row's gradient is the gradient by log Z
    for (std::size_t k = i * r.tokens; k < (i + 1) * r.tokens; ++k) {
      EXPECT_NEAR(got.slope / static_cast<double>(r.tokens), r.gradient("flowrl", k), 1e-12 * std::abs(got.slope));
      by_log_z += r.gradient("flowrl", k);
    }
    EXPECT_NEAR(by_log_z, r.data["cases"]["flowrl"]["log_z_gradient"][i].get<double>(), 1e-11 * std::abs(by_log_z));
    check_slope(trajectory_balance{}, t);
    EXPECT_EQ(got.monitor[0], std::min(std::exp(t.gathered), 10.0));
  }
}

TEST(gvpo, compares_the_rows_of_a_group) {
  const regression_rows r;
  std::vector<double> logp = r.field_of("logp"), old_logp = r.field_of("old_logp"), advantage = r.field_of("advantage"),
                      gradient(logp.size());
  const auto shape = [&](std::vector<double>& x) {
    return matrix_view<double>{x.data(), {static_cast<extent_t>(r.rows), static_cast<extent_t>(r.tokens)}};
  };
  const token_batch<double> batch{.logp = shape(logp), .old_logp = shape(old_logp), .advantage = advantage};
  const sequence_objective objective{sum_of<log_ratio_to_old>{}, gvpo{.beta = 0.7, .group_size = r.group}};
  const auto report =
      evaluate(serial{}, objective, batch_total{}, batch, loss_counts(batch), {.logp = shape(gradient)});
  const double groups = static_cast<double>(r.rows / r.group);
  double loss = 0;  // verl's recipe sums over groups
  for (std::size_t i = 0; i < r.rows; ++i) loss += r.value("gvpo", i) / groups;
  EXPECT_NEAR(report.loss(), loss, 1e-12);
  for (std::size_t k = 0; k < gradient.size(); ++k) EXPECT_NEAR(gradient[k], r.gradient("gvpo", k) / groups, 1e-12);
}

TEST(gvpo, slope_is_the_derivative_for_centred_advantages) {
  const regression_rows r;
  std::vector<token<double>> rows(r.rows);
  for (std::size_t i = 0; i < r.rows; ++i)
    rows[i].logp = r.log_ratio("old_logp", i), rows[i].advantage = r.number("advantage", i);
  const gvpo link{.beta = 0.7, .group_size = r.group};
  std::vector<double> slope(r.rows), unused(r.rows);
  link(rows, slope);
  for (std::size_t i = 0; i < r.rows; ++i) {  // a quadratic: central differences are exact
    auto up = rows, down = rows;
    up[i].logp += 0.5, down[i].logp -= 0.5;
    EXPECT_NEAR(slope[i], link(up, unused) - link(down, unused), 1e-12);
  }
}

// The two-pass form for groups that are spread over micro-batches: a row link with the group's mean in its target.
TEST(gvpo, is_a_squared_residual_once_the_means_are_known) {
  const regression_rows r;
  const double beta = 0.7, half = 0.5 / static_cast<double>(r.group - 1);
  for (std::size_t first = 0; first < r.rows; first += r.group) {
    double mean = 0;
    for (std::size_t i = first; i < first + r.group; ++i) mean += beta * r.log_ratio("old_logp", i);
    mean /= static_cast<double>(r.group);
    for (std::size_t i = first; i < first + r.group; ++i) {
      token<double> t{};
      t.logp = r.log_ratio("old_logp", i), t.target = r.number("advantage", i) + mean;
      const auto got = at(squared_residual{.beta = beta}, t);
      EXPECT_NEAR(half * got.value, r.value("gvpo", i), 1e-12);
      EXPECT_NEAR(half * got.slope, r.gradient("gvpo", i * r.tokens), 1e-12);
    }
  }
}

TEST(gvpo, wants_whole_groups) {
  std::vector<token<double>> rows(5);
  std::vector<double> slope(5);
  EXPECT_THROW((gvpo{.group_size = 2}(rows, slope)), std::invalid_argument);
  EXPECT_THROW((gvpo{.group_size = 1}(rows, slope)), std::invalid_argument);
  EXPECT_THROW((gvpo{}(rows, slope)), std::invalid_argument);
  EXPECT_EQ((gvpo{.group_size = 2}(std::span<const token<double>>{}, {})), 0);  // an empty step
}

// Nash-MD needs no piece of its own: the policy gradient with A = P - 1/2 and beta times k2, whose slope is the
// log-ratio. TRL reports log-ratio * logp as the value of the latter.
TEST(nash_md, has_the_gradient_of_policy_gradient_and_k2) {
  const regression_rows r;
  for (std::size_t k = 0; k < r.rows * r.tokens; ++k) {
    token<double> t{};
    t.logp = r.number("logp", k), t.ref_logp = r.number("ref_logp", k),
    t.advantage = r.number("best", k / r.tokens) - 0.5;
    EXPECT_NEAR(at(policy_gradient{}, t).slope + 0.2 * at(k2{}, t).slope, r.gradient("nash_md", k), 1e-13);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
