// The shift between tokens and the logits that predict them.
#include "rlcore/objective/vocabulary/position.hpp"

#include <gtest/gtest.h>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate_logits.hpp"
#include "rlcore/objective/piece/supervised.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

template <class Alignment>
labelled_positions label(Alignment alignment, const std::vector<int>& tokens, const std::vector<std::int32_t>& offsets,
                         const std::vector<std::uint8_t>& mask) {
  return label_tokens(alignment, std::span(tokens), std::span(offsets), std::span(mask));
}

using list = std::vector<std::int64_t>;

// verl-project/verl#3287, #3562, #5362, #5797, #2175, OpenRLHF/OpenRLHF#973: packed rows; the mask of the second row's
// first token is 1, and a flat shift of mask and labels would make the first row's last logits predict it.
TEST(label_alignment, the_next_row_is_never_predicted) {
  const auto next = label(predicts_next{}, {10, 11, 12, 20, 21}, {0, 3, 5}, {1, 1, 1, 1, 1});
  EXPECT_EQ(next.positions, (list{0, 1, 3}));
  EXPECT_EQ(next.labels, (list{11, 12, 21}));
  EXPECT_EQ(next.offsets, (list{0, 2, 3}));
}

TEST(label_alignment, at_position_does_not_shift) {
  const auto same = label(at_position{}, {10, 11, 12, 20, 21}, {0, 3, 5}, {1, 0, 1, 1, 0});
  EXPECT_EQ(same.positions, (list{0, 2, 3}));
  EXPECT_EQ(same.labels, (list{10, 12, 20}));
  EXPECT_EQ(same.offsets, (list{0, 2, 3}));
}

// The mask is about tokens: a prompt that is not learned, an answer that is.
TEST(label_alignment, the_mask_moves_with_its_token) {
  const auto next = label(predicts_next{}, {10, 11, 12, 13}, {0, 4}, {0, 0, 1, 1});
  EXPECT_EQ(next.positions, (list{1, 2}));
  EXPECT_EQ(next.labels, (list{12, 13}));
}

TEST(label_alignment, empty_rows_and_rows_of_one_token_have_no_label) {
  const auto next = label(predicts_next{}, {10, 20, 21}, {0, 0, 1, 1, 3}, {1, 1, 1});
  EXPECT_EQ(next.offsets, (list{0, 0, 0, 0, 1}));
  EXPECT_EQ(next.positions, (list{1}));
  EXPECT_EQ(next.rows(), 4u);
}

TEST(label_alignment, says_what_does_not_fit) {
  EXPECT_THROW(label(at_position{}, {1, 2, 3}, {0, 2}, {1, 1, 1}), std::invalid_argument);
  EXPECT_THROW(label(at_position{}, {1, 2, 3}, {0, 2, 1, 3}, {1, 1, 1}), std::invalid_argument);
  EXPECT_THROW(label(at_position{}, {1, 2, 3}, {}, {1, 1, 1}), std::invalid_argument);
  EXPECT_THROW(label(at_position{}, {1, 2, 3}, {0, 3}, {1, 1}), std::invalid_argument);
}

// Poison in the logits that nothing is predicted by, the last of every row, does not reach the loss.
TEST(label_alignment, feeds_the_logits_loop) {
  const std::vector<int> tokens{0, 1, 2, 2, 0};
  std::vector<float> logits(15, 0.0f), gradient(15, -7.0f);
  for (const std::size_t last : {2u, 4u})
    for (std::size_t j = 0; j < 3; ++j) logits[last * 3 + j] = std::numeric_limits<float>::quiet_NaN();
  const auto next = label(predicts_next{}, tokens, {0, 3, 5}, {1, 1, 1, 1, 1});
  const logits_batch<float> batch{
      .logits = matrix(logits, 5, 3), .labels = next.labels, .positions = next.positions, .offsets = next.offsets};
  const auto report = evaluate_logits(serial{}, cross_entropy{}, token_mean{}, batch, loss_counts(batch),
                                      {.logits = matrix(gradient, 5, 3)});
  EXPECT_NEAR(report.loss(), std::log(3.0), 1e-7);
  EXPECT_EQ(report.tokens, 3);
  for (std::size_t j = 0; j < 3; ++j) EXPECT_EQ(gradient[6 + j], 0.0f);
  EXPECT_NEAR(gradient[1], (1.0 / 3 - 1) / 3, 1e-7);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
