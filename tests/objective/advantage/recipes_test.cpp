// Distillation as reward, SPO and PRIME.
#include "objective/advantage/golden_advantage.hpp"
#include "rlcore/objective/advantage/prime.hpp"
#include "rlcore/objective/advantage/spo.hpp"
#include "rlcore/objective/distillation/on_policy.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

TEST(teacher_advantage, is_minillms) {
  const auto& all = advantages_of_systems()["distilled"];
  golden_matrix teacher(all["teacher"]), student(all["student"]), mask(all["mask"]), out(4, 9);
  for (std::size_t k = 0; k < mask.values.size(); ++k)
    if (mask.values[k] == 0) teacher.values[k] = student.values[k] = std::nan("");
  const auto run = [&](const teacher_advantage& how) {
    how(teacher.view(), student.view(), mask.view(), out.view());
    return out.values;
  };
  expect_near(run({.gamma = 0.875}), all["minillm"]);
  expect_near(run({.gamma = 0.875, .length_normalization = false}), all["minillm_sum"]);
  expect_near(run({.gamma = 0.875, .masked_weight = 1e-4}), all["trl_minillm"]);
  expect_near(run({.gamma = 0.875, .length_normalization = false, .absolute_power = true}), all["trl_minillm_sum"]);
  expect_near(run({.limit = 1}), all["limited"]);
  // IW-OPD: the same log-ratio, times the weight of what came before it.
  golden_matrix weight(4, 9);
  prefix_weights{}(teacher.view(), student.view(), mask.view(), weight.view());
  run({});
  for (std::size_t k = 0; k < out.values.size(); ++k) out.values[k] *= weight.values[k];
  expect_near(out.values, all["iw_opd"]);
}
// huggingface/trl#7024: the prompt has no part in the sums of a row; its slots are not even read.
TEST(teacher_advantage, mask_is_of_the_response) {
  const double none = std::nan("");
  std::vector<double> teacher{-1, -2, -0.5, -3}, student{-2, -1, -1.5, -1}, out(4), other(8, -9);
  std::vector<double> with_prompt{none, none, none, -1, -2, -0.5, none, -3},
      of_student{none, -7, none, -2, -1, -1.5, none, -1};
  std::vector<int> mask{0, 0, 0, 1, 1, 1, 0, 1};
  for (const double gamma : {0.0, 1.0}) {
    const teacher_advantage how{.gamma = gamma, .length_normalization = false};
    how(matrix(teacher, 1, 4), matrix(student, 1, 4), {}, matrix(out, 1, 4));
    how(matrix(with_prompt, 1, 8), matrix(of_student, 1, 8), matrix(mask, 1, 8), matrix(other, 1, 8));
    EXPECT_EQ(other, (std::vector<double>{0, 0, 0, out[0], out[1], out[2], 0, out[3]})) << gamma;
  }
  const teacher_advantage averaged{.gamma = 0.5};
  averaged(matrix(with_prompt, 1, 8), matrix(of_student, 1, 8), matrix(mask, 1, 8), matrix(other, 1, 8));
  EXPECT_NEAR(other[5], (1 + 0.25 * -2) / (1 + 0.25), 1e-15);  // the gap is a step of gamma, not a token
}

TEST(spo, normalises_over_the_batch) {
  const auto& all = advantages_of_systems()["spo"];
  std::vector<double> out(5);
  spo{}(numbers(all["rewards"]), numbers(all["baselines"]), out);
  expect_near(out, all["advantages"]);
  std::vector<double> reward{1, std::nan(""), 0}, before(3, 0.5), three(3, -9);
  spo{}(reward, before, three);
  EXPECT_EQ(three[1], 0);
  EXPECT_NEAR(three[0], std::sqrt(0.5), 1e-7);
  EXPECT_THROW(spo{}(reward, std::vector<double>(2), three), std::invalid_argument);
}
TEST(beta_tracker, remembers_a_share_of_the_past) {
  const beta_tracker t = beta_tracker::from_samples(6, 8);  // worth 8 answers
  EXPECT_NEAR(t.alpha, 8 * 6.5 / 9, 1e-14);
  EXPECT_NEAR(t.beta, 8 * 2.5 / 9, 1e-14);
  const beta_tracker next = t.updated(1, 0.9);
  EXPECT_NEAR(next.alpha, 0.9 * t.alpha + 1, 1e-14);
  EXPECT_NEAR(next.beta, 0.9 * t.beta, 1e-14);
  EXPECT_EQ(t.updated(std::nan(""), 0.9).alpha, t.alpha);
  EXPECT_EQ(beta_tracker{}.mean(), 0.5);
  EXPECT_NEAR(beta_tracker{}.sampling_weight(), 0.55, 1e-15);
  EXPECT_NEAR((spo_forgetting{.least = 0.1}(0.06)), 0.5, 1e-15);
  EXPECT_EQ(spo_forgetting{}(10), 0.875);
  EXPECT_EQ(spo_forgetting{}(0), 0.96);
  EXPECT_THROW(beta_tracker::from_samples(9, 8), std::invalid_argument);
}
TEST(spo_forgetting, refuses_settings_that_are_no_shares) {
  EXPECT_THROW((spo_forgetting{.half_life = 0}(0.1)), std::invalid_argument);
  EXPECT_THROW((spo_forgetting{.half_life = -1}(0.1)), std::invalid_argument);
  EXPECT_THROW((spo_forgetting{.least = 0.97}(0.1)), std::invalid_argument);  // above `most`
}

TEST(prime, adds_two_sources) {
  const auto& all = advantages_of_systems()["prime"];
  golden_matrix process(all["process"]), mask(all["mask"]), advantage(6, 7), returns(6, 7);
  for (std::size_t k = 0; k < mask.values.size(); ++k)
    if (mask.values[k] == 0) process.values[k] = std::nan("");
  const prime how{.process_coefficient = 5, .outcome_coefficient = 3};
  how(process.view(), numbers(all["outcomes"]), mask.view(), 3, advantage.view(), returns.view());
  expect_near(returns.values, all["returns"]);
  expect_near(advantage.values, all["advantages"]);
}
TEST(prime, rows_without_tokens_or_company_get_zero) {  // the recipe has NaN
  std::vector<double> process{1, 2, 3, 4, 5, 6}, outcome{1, 0, 1}, advantage(6, -9), returns(6, -9);
  std::vector<int> mask{1, 1, 0, 0, 1, 0};
  prime{}(matrix(process, 3, 2), outcome, matrix(mask, 3, 2), 3, matrix(advantage, 3, 2), matrix(returns, 3, 2));
  EXPECT_EQ(advantage[2], 0);
  for (const double a : advantage) EXPECT_FALSE(std::isnan(a));
  prime{}(matrix(process, 3, 2), outcome, {}, 1, matrix(advantage, 3, 2), matrix(returns, 3, 2));
  EXPECT_EQ(advantage, std::vector<double>(6, 0.0));
}
TEST(implicit_process_reward, is_a_log_ratio) {
  const std::vector<double> model{-1, -2, -3, -4}, ref{-2, -2, -1, NAN};
  const std::vector<int> mask{1, 1, 1, 0};
  std::vector<double> out(4, -9);
  implicit_process_reward{.beta = 0.5}(matrix(model, 1, 4), matrix(ref, 1, 4), matrix(mask, 1, 4), matrix(out, 1, 4));
  EXPECT_EQ(out, (std::vector<double>{0.5, 0, -1, 0}));
  implicit_process_reward{.beta = 0.5, .last_token = false}(matrix(model, 1, 4), matrix(ref, 1, 4), matrix(mask, 1, 4),
                                                            matrix(out, 1, 4));
  EXPECT_EQ(out, (std::vector<double>{0.5, 0, 0, 0}));
}

std::vector<token<double>> prime_rows() {
  const auto& all = advantages_of_systems()["prime"];
  const auto score = numbers(all["losses"]["scores"]), outcome = numbers(all["outcomes"]);
  std::vector<token<double>> rows(score.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].logp = score[i], rows[i].target = outcome[i];
  return rows;
}
TEST(implicit_reward_cross_entropy, matches_autograd) {
  const auto& expected = advantages_of_systems()["prime"]["losses"]["cross_entropy"];
  const implicit_reward_cross_entropy loss{.beta = 0.25};
  double value = 0;
  std::vector<double> slope;
  for (const auto& row : prime_rows()) {
    value += at(loss, row).value / 6;
    slope.push_back(at(loss, row).slope / 6);
  }
  EXPECT_NEAR(value, expected["value"].get<double>(), 1e-12);
  expect_near(slope, expected["slope"]);
  std::mt19937_64 random(2);
  for (int k = 0; k < 200; ++k) {
    auto t = random_token(random);
    t.logp *= k % 2 ? 100 : 5000, t.target = t.selected;
    check_slope(loss, t);
    EXPECT_TRUE(std::isfinite(at(loss, t).value));
  }
}
TEST(implicit_reward_comparison, matches_autograd) {
  const auto& losses = advantages_of_systems()["prime"]["losses"];
  const auto rows = prime_rows();
  for (const auto& [name, weight] : {std::pair{"comparison_none", best_of_n_weight::none},
                                     {"comparison_score", best_of_n_weight::score},
                                     {"comparison_outcome", best_of_n_weight::outcome}}) {
    SCOPED_TRACE(name);
    std::vector<double> slope(6);
    const double value = implicit_reward_comparison{.beta = 0.25, .group_size = 3, .weight = weight}(rows, slope);
    EXPECT_NEAR(value, losses[name]["value"].get<double>(), 1e-12);
    expect_near(slope, losses[name]["slope"]);
  }
  auto extreme = rows;
  for (auto& r : extreme) r.logp *= -1e6;
  std::vector<double> slope(6);
  EXPECT_TRUE(std::isfinite((implicit_reward_comparison{.group_size = 3}(extreme, slope))));
  EXPECT_THROW((implicit_reward_comparison{.group_size = 4}(rows, slope)), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
