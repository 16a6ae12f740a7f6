// Process rewards: steps, and losses on the logits at them.
#include <numeric>

#include "objective/vocabulary/golden_vocabulary.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate_logits.hpp"
#include "rlcore/objective/piece/supervised.hpp"
#include "rlcore/objective/process_reward.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

using list = std::vector<std::int64_t>;

template <class T>
class process_rewards : public testing::Test {};
using element_types = testing::Types<float, double>;
TYPED_TEST_SUITE(process_rewards, element_types);

TYPED_TEST(process_rewards, equal_pytorch_on_the_reward_tokens) {
  golden_positions<TypeParam> x;
  const auto ids = vocabulary_numbers<std::int64_t>("reward_tokens");
  x.labels = vocabulary_numbers<std::int64_t>("reward_labels");
  x.targets = vocabulary_numbers<TypeParam>("targets");
  check_positions(reward_token_cross_entropy<3>{{ids[0], ids[1], ids[2]}}, x, "reward_hard");
  check_positions(soft_reward_cross_entropy<3>{{ids[0], ids[1], ids[2]}}, x, "reward_soft");
}

// OpenRLHF's soft labels: two reward tokens, the positive one first, y and 1 - y.
TYPED_TEST(process_rewards, soft_labels_of_two_tokens) {
  golden_positions<TypeParam> x;
  for (const TypeParam y : vocabulary_numbers<TypeParam>("two")) x.targets.push_back(y), x.targets.push_back(1 - y);
  check_positions(soft_reward_cross_entropy<2>{{2, 9}}, x, "reward_soft_two");
}

// A hard label is the soft label with all its mass on one class.
TEST(process_reward_pieces, hard_and_soft_labels_agree) {
  golden_positions<double> x;
  x.labels = vocabulary_numbers<std::int64_t>("reward_labels");
  x.targets.assign(18, 0.0);
  for (std::size_t i = 0; i < 6; ++i) x.targets[3 * i + static_cast<std::size_t>(x.labels[i])] = 1;
  check_positions(soft_reward_cross_entropy<3>{{2, 9, 5}}, x, "reward_hard");
}

// OpenRLHF/OpenRLHF#442, #683, #740: several labels in one packed row, each at the logits of its own step.
TEST(step_alignment, finds_the_logits_of_every_step) {
  using step = step_label<std::int64_t>;
  const std::vector<step> steps{{1, 0}, {3, 2}, {0, 1}};
  const list rows{0, 4, 4, 6}, of_rows{0, 2, 2, 3};
  const auto at = label_steps(at_position{}, std::span(rows), std::span<const step>(steps), std::span(of_rows));
  EXPECT_EQ(at.positions, (list{1, 3, 4}));
  EXPECT_EQ(at.labels, (list{0, 2, 1}));
  EXPECT_EQ(at.offsets, (list{0, 2, 2, 3}));
  // The first token of a row is predicted by nothing.
  EXPECT_THROW(label_steps(predicts_next{}, std::span(rows), std::span<const step>(steps), std::span(of_rows)),
               std::invalid_argument);
  const std::vector<step> later{{1, 0}, {3, 2}, {1, 1}};
  const auto next = label_steps(predicts_next{}, std::span(rows), std::span<const step>(later), std::span(of_rows));
  EXPECT_EQ(next.positions, (list{0, 2, 4}));
}

// TRL's train_on_last_step_only: the label of the last step of a row stays, the others become -100.
TEST(step_alignment, may_take_the_last_step_of_each_row_alone) {
  using step = step_label<std::int64_t>;
  const std::vector<step> steps{{1, 0}, {3, 2}, {0, 1}};
  const list rows{0, 4, 4, 6}, of_rows{0, 2, 2, 3};
  const auto run = [&](std::span<const step> s) {
    return label_steps(at_position{}, std::span(rows), s, std::span(of_rows), judged_steps::last);
  };
  const auto at = run(steps);
  EXPECT_EQ(at.positions, (list{3, 4}));
  EXPECT_EQ(at.labels, (list{2, 1}));
  EXPECT_EQ(at.offsets, (list{0, 1, 1, 2}));
  const std::vector<step> outside{{-1, 0}, {3, 2}, {0, 1}};
  EXPECT_THROW(run(outside), std::invalid_argument);
}

// OpenRLHF/OpenRLHF#502, #509: labels of a row that was truncated are not dropped or moved silently.
TEST(step_alignment, refuses_steps_outside_of_their_row) {
  using step = step_label<std::int64_t>;
  const list rows{0, 4}, of_rows{0, 2};
  const auto run = [&](std::vector<step> steps) {
    label_steps(at_position{}, std::span(rows), std::span<const step>(steps), std::span(of_rows));
  };
  run({{0, 1}, {3, 1}});
  EXPECT_THROW(run({{0, 1}, {4, 1}}), std::invalid_argument);
  EXPECT_THROW(run({{-1, 1}, {3, 1}}), std::invalid_argument);
  EXPECT_THROW(run({{2, 1}, {2, 1}}), std::invalid_argument);  // not in order
  EXPECT_THROW(run({{0, 1}}), std::invalid_argument);
}

// TRL's PRM: token classification with two classes, the label at the last separator token of its step.
TEST(process_reward_loop, of_a_head_with_two_classes) {
  using step = step_label<std::int64_t>;
  const std::vector<step> steps{{1, 1}, {3, 0}};
  const list rows{0, 4}, of_rows{0, 2};
  const auto at = label_steps(at_position{}, std::span(rows), std::span<const step>(steps), std::span(of_rows));
  const double none = std::nan("");
  std::vector<double> logits{none, none, 0.5, 1.5, none, none, -1, 2}, gradient(8, -7);
  const logits_batch<double> batch{
      .logits = matrix(logits, 4, 2), .labels = at.labels, .positions = at.positions, .offsets = at.offsets};
  const auto report = evaluate_logits(serial{}, cross_entropy{}, token_mean{}, batch, loss_counts(batch),
                                      {.logits = matrix(gradient, 4, 2)});
  EXPECT_NEAR(report.loss(), (std::log1p(std::exp(-1.0)) + std::log1p(std::exp(3.0))) / 2, 1e-14);
  EXPECT_EQ(report["accuracy"], 0.5);
  const double p = 1 / (1 + std::exp(1.0));
  EXPECT_NEAR(gradient[2], p / 2, 1e-14);
  EXPECT_NEAR(gradient[3], -p / 2, 1e-14);
  for (const std::size_t k : {0u, 1u, 4u, 5u}) EXPECT_EQ(gradient[k], 0.0);
}

TEST(process_reward_loop, of_soft_labels) {
  using step = step_label<std::array<float, 2>>;
  const std::vector<step> steps{{0, {0.25f, 0.75f}}, {2, {1.0f, 0.0f}}};
  const list rows{0, 3}, of_rows{0, 2};
  const auto at = label_steps(at_position{}, std::span(rows), std::span<const step>(steps), std::span(of_rows));
  std::vector<float> logits{1, 2, 0, 9, 9, 9, 0, 0, 0}, gradient(9, -7);
  const logits_batch<float> batch{
      .logits = matrix(logits, 3, 3), .targets = target_matrix(at), .positions = at.positions, .offsets = at.offsets};
  const auto counts = loss_counts(batch);
  const auto report = evaluate_logits(serial{}, soft_reward_cross_entropy<2>{{0, 2}}, token_mean{}, batch, counts,
                                      {.logits = matrix(gradient, 3, 3)});
  const double lse = std::log(std::exp(1.0) + 1);
  EXPECT_NEAR(report.loss(), (0.25 * (lse - 1) + 0.75 * lse + std::log(2.0)) / 2, 1e-6);
  EXPECT_NEAR(gradient[0], (std::exp(1 - lse) - 0.25) / 2, 1e-6);
  EXPECT_EQ(gradient[1], 0.0f);
  EXPECT_EQ(gradient[3], 0.0f);
  EXPECT_THROW(evaluate_logits(serial{}, soft_reward_cross_entropy<3>{{0, 1, 2}}, token_mean{}, batch, counts),
               std::invalid_argument);
}

TEST(process_reward_loop, refuses_labels_and_tokens_that_do_not_exist) {
  const std::vector<float> logits(9, 0.0f);
  const std::vector<int> labels{0, 1, 2};
  const logits_batch<float> batch{.logits = matrix(logits, 3, 3), .labels = labels};
  const auto run = [&](auto piece) { evaluate_logits(serial{}, piece, token_mean{}, batch, loss_counts(batch)); };
  run(reward_token_cross_entropy<3>{{2, 1, 0}});
  EXPECT_THROW(run(reward_token_cross_entropy<2>{{2, 1}}), std::invalid_argument);  // label 2 of two classes
  EXPECT_THROW(run(reward_token_cross_entropy<3>{{2, 1, 3}}), std::invalid_argument);
  EXPECT_THROW(run(reward_token_cross_entropy<3>{{2, 1, 1}}), std::invalid_argument);
}

TEST(step_pieces, slopes_equal_dual_numbers) {
  std::mt19937_64 random(4);
  for (int k = 0; k < 200; ++k) {
    auto t = random_token(random);
    check_slope(step_squared_error{}, t);
    t.target = 1 / (1 + std::exp(-t.target));
    check_slope(step_binary_cross_entropy{}, t);
  }
  token<double> t{};
  for (const double v : {800.0, -800.0}) {
    t.value = v, t.target = 1;
    EXPECT_EQ(at(step_binary_cross_entropy{}, t).value, v > 0 ? 0.0 : 800.0);
  }
}

TEST(step_pieces, equal_pytorch) {
  const auto& golden = vocabulary_golden();
  auto tokens = golden_tokens(golden["fields"]);
  for (auto& t : tokens) t.value = 2 * t.logp + 3, t.target = std::exp(t.ref_logp);
  check_case(step_binary_cross_entropy{}, tokens, golden["token_cases"]["binary_cross_entropy"]);
  check_case(step_squared_error{}, tokens, golden["token_cases"]["squared_error"]);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
