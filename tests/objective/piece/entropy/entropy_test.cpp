// The entropy bonus has a gradient, and it cannot get lost.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "objective/check_slope.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

TEST(entropy_bonus, slope_is_the_derivative) {
  std::mt19937_64 random(31);
  for (int k = 0; k < 50; ++k) rlcore_test::check_slope(token_entropy{}, rlcore_test::random_token(random));
}

// huggingface/trl#6140, #5595, #6625: an entropy term that was computed without gradient, or whose gradient the fused
// head dropped. Here the gradient by the entropy is an output that must be taken.
TEST(entropy_bonus, gradient_has_to_go_somewhere) {
  const std::vector<double> logp{-1, -2, -3}, entropy{0.5, 1, 1.5}, advantage{1};
  std::vector<double> dlogp(3), dentropy(3);
  const token_batch<double> batch{.logp = matrix(logp, 1, 3), .advantage = advantage, .entropy = matrix(entropy, 1, 3)};
  const sum objective{policy_gradient{}, entropy_bonus(0.3)};
  const auto step = loss_counts(batch);
  EXPECT_THROW(evaluate(serial{}, objective, token_mean{}, batch, step, {.logp = matrix(dlogp, 1, 3)}),
               std::invalid_argument);
  const auto report = evaluate(serial{}, objective, token_mean{}, batch, step,
                               {.logp = matrix(dlogp, 1, 3), .entropy = matrix(dentropy, 1, 3)});
  EXPECT_NEAR(report.loss(), 2 - 0.3, 1e-15);
  EXPECT_NEAR(report.value("entropy"), 1, 1e-15);  // the report shows H itself
  for (std::size_t t = 0; t < 3; ++t) {
    EXPECT_NEAR(dentropy[t], -0.1, 1e-16);
    EXPECT_NEAR(dlogp[t], -1.0 / 3, 1e-16);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
