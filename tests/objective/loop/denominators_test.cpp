// What users of other systems reported about denominators, and what happens here.
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include "objective/loop/invariance.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore_test;

namespace {

/// Rows of 1 and 9 tokens, all with loss 1 per token.
struct short_and_long {
  std::vector<float> logp = std::vector<float>(40, -1.0f), gradient = logp, advantage{1, 1, 1, 1};
  std::vector<int> length{1, 9, 1, 9};
  global_counts counts() const {
    global_counts c;
    for (const int n : length) c.add_row(n);
    return c;
  }
  token_batch<float> rows(std::size_t first, std::size_t last) const {
    const auto n = static_cast<std::ptrdiff_t>(last - first);
    return {.logp = matrix_view<const float>(logp.data() + first * 10, {n, 10}),
            .advantage = std::span<const float>(advantage).subspan(first, last - first),
            .lengths = std::span<const int>(length).subspan(first, last - first)};
  }
  matrix_view<float> gradients(std::size_t first, std::size_t last) {
    return {gradient.data() + first * 10, {static_cast<std::ptrdiff_t>(last - first), 10}};
  }
};

// verl-project/verl#906, #2776, #3332; huggingface/trl#3021, #3231, #2456; OpenRLHF/OpenRLHF#1249: a mean of
// micro-batch means weighs a token of a short micro-batch more.
TEST(denominators, a_token_weighs_the_same_in_a_short_micro_batch) {
  short_and_long b;
  const global_counts step = b.counts();
  for (std::size_t i = 0; i < 4; ++i)
    evaluate(serial{}, policy_gradient{}, token_mean{}, b.rows(i, i + 1), step, {.logp = b.gradients(i, i + 1)});
  for (const std::size_t k : {0U, 10U, 18U, 20U, 30U}) EXPECT_EQ(b.gradient[k], -1.0f / 20) << k;
}

// huggingface/trl#5890; linkedin/Liger-Kernel#1082, #1088, #1202: a loss that is divided by its own count and again by
// the number of accumulation steps.
TEST(denominators, parts_add_up_and_are_not_divided_again) {
  short_and_long b;
  const global_counts step = b.counts();
  const auto whole =
      evaluate(serial{}, policy_gradient{}, token_mean{}, b.rows(0, 4), step, {.logp = b.gradients(0, 4)});
  const std::vector<float> want = b.gradient;
  std::fill(b.gradient.begin(), b.gradient.end(), 0.0f);
  report_of<policy_gradient> parts;
  for (const std::size_t i : {0U, 2U})
    parts += evaluate(serial{}, policy_gradient{}, token_mean{}, b.rows(i, i + 2), step,
                      {.logp = b.gradients(i, i + 2), .add = true});
  EXPECT_EQ(parts.loss(), whole.loss());
  EXPECT_EQ(std::memcmp(want.data(), b.gradient.data(), want.size() * sizeof(float)), 0);
}

// huggingface/trl#5619, #6024, #5890: counts of the generation batch while the step consumes another number of
// micro-batches. Counts that are too small for what arrives are refused; those of the step give one result however it
// is cut.
TEST(denominators, the_counts_are_those_of_the_step) {
  short_and_long b;
  global_counts half;
  half.add_row(1), half.add_row(9);
  EXPECT_NO_THROW(evaluate(serial{}, policy_gradient{}, token_mean{}, b.rows(0, 2), half));
  EXPECT_THROW(evaluate(serial{}, policy_gradient{}, token_mean{}, b.rows(0, 3), half), std::invalid_argument);
}

// verl-project/verl#3741: the constant denominator of Dr. GRPO without the number of rows grows with the batch.
TEST(denominators, a_fixed_length_divides_by_the_rows_too) {
  global_counts once, twice;
  for (int i = 0; i < 4; ++i) once.add_row(5);
  for (int i = 0; i < 8; ++i) twice.add_row(5);
  const double rows4 = 4 * fixed_length{7}.weight({5}, once), rows8 = 8 * fixed_length{7}.weight({5}, twice);
  EXPECT_DOUBLE_EQ(rows4, 1.0 / 7);
  EXPECT_DOUBLE_EQ(rows8, rows4);  // the same rows twice: the same loss
  EXPECT_DOUBLE_EQ(8 * fixed_length_unaveraged{7}.weight({5}, twice),
                   2 * 4 * fixed_length_unaveraged{7}.weight({5}, once));
}

// Every aggregation adds up to what its name says, whatever the lengths.
TEST(denominators, weights_of_all_rows_sum_to_the_declared_total) {
  global_counts step;
  const std::vector<std::int64_t> lengths{1, 9, 4, 30, 2};
  for (const std::int64_t n : lengths) step.add_row(n);
  const auto total = [&](const auto& aggregation) {
    double sum = 0;
    for (const std::int64_t n : lengths) sum += static_cast<double>(n) * aggregation.weight(row_info{n}, step);
    return sum;
  };
  EXPECT_NEAR(total(token_mean{}), 1, 1e-15);
  EXPECT_NEAR(total(sequence_mean_token_mean{}), 1, 1e-15);
  EXPECT_NEAR(total(row_mean_token_mean{}), 1, 1e-15);
  EXPECT_NEAR(total(token_sum{}), 46, 1e-13);
  EXPECT_NEAR(total(sequence_mean_token_sum{}), 46.0 / 5, 1e-14);
  EXPECT_NEAR(total(fixed_length{10}), 46.0 / 50, 1e-15);
}

// huggingface/trl#6357, #2058: pad and EOS are the same token, and the true EOS is dropped or padding trained. Which
// slots count is a matter of lengths; no token id is looked at.
TEST(denominators, an_eos_that_is_also_the_pad_counts_once) {
  short_and_long b;
  b.length = {2, 9, 1, 9};  // "a EOS", then padding with the same id
  global_counts step = b.counts();
  evaluate(serial{}, policy_gradient{}, token_mean{}, b.rows(0, 4), step, {.logp = b.gradients(0, 4)});
  EXPECT_EQ(b.gradient[1], -1.0f / 21);
  EXPECT_EQ(b.gradient[2], 0.0f);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
