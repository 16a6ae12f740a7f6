// What masking a whole row does to the others.
#include "rlcore/objective/aggregation.hpp"

#include <gtest/gtest.h>

namespace RLCORE_TEST_ID {

using namespace rlcore;

TEST(row_mean, counts_rows_that_are_masked_out) {
  global_counts step;
  step.add_row(4), step.add_row(0), step.add_row(2), step.add_row(0);
  EXPECT_EQ(row_mean_token_mean{}.weight({4}, step), 1.0 / 16);
  EXPECT_EQ(row_mean_token_sum{}.weight({4}, step), 1.0 / 4);
  EXPECT_EQ(row_mean{}.weight({4}, step), 1.0 / 4);
  EXPECT_EQ(row_mean_fixed_length{8}.weight({4}, step), 1.0 / 32);
  EXPECT_EQ(sequence_mean_token_mean{}.weight({4}, step), 1.0 / 8);
  EXPECT_EQ(sequence_mean{}.weight({4}, step), 1.0 / 2);
  EXPECT_EQ(fixed_length{8}.weight({4}, step), 1.0 / 16);
}

}  // namespace RLCORE_TEST_ID
