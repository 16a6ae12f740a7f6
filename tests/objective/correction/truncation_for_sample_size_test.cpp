// The bound of a truncation solved from the effective sample size that is wanted.
#include "rlcore/objective/correction/rollout_correction.hpp"

#include <gtest/gtest.h>

#include <random>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/correction/correct.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

template <class Level>
weight_sample<Level> sample_of(std::vector<double>& train, std::vector<double>& rollout, std::ptrdiff_t width) {
  const auto rows = static_cast<std::ptrdiff_t>(train.size()) / width;
  weight_sample<Level> s;
  s.add(token_batch<double>{.old_logp = matrix(train.data(), rows, width),
                            .rollout_logp = matrix(rollout.data(), rows, width)});
  return s;
}

}  // namespace

// Three weights of 1 and one of 9: (3 + C)^2 = 4 share (3 + C^2), at share 0.75 C^2 - 3 C = 0.
TEST(truncation_for_sample_size, solves_the_quadratic) {
  std::vector<double> train{0, 0, 0, std::log(9.0)}, rollout(4);
  const auto s = sample_of<token_level>(train, rollout, 4);
  EXPECT_NEAR(s.effective_share(9), 144.0 / (4 * 84), 1e-15);
  EXPECT_NEAR(s.truncation_for(0.75).high, 3.0, 1e-14);
  EXPECT_EQ(s.truncation_for(0.4).high, std::numeric_limits<double>::infinity());
  EXPECT_THROW(s.truncation_for(1.0), std::invalid_argument);
}

TEST(truncation_for_sample_size, holds_what_was_asked_for) {
  std::mt19937 random(9);
  std::normal_distribution<double> normal;
  std::vector<double> train(600, -1.0), rollout(600), weight(600);
  for (double& b : rollout) b = -1.0 + normal(random);
  const auto by_row = sample_of<summed_over_sequence>(train, rollout, 5);
  EXPECT_NEAR(by_row.effective_share(by_row.truncation_for(0.6).high), 0.6, 1e-12);
  const auto s = sample_of<token_level>(train, rollout, 5);
  for (const double share : {0.5, 0.6, 0.8, 0.95, 0.999}) {
    const double bound = s.truncation_for(share).high;
    EXPECT_NEAR(s.effective_share(bound), share, 1e-12);
    EXPECT_LT(s.effective_share(bound * 1.01), share);
    const auto c = correct(
        serial{}, decoupled(importance_weight{token_level{}, truncated{bound}}),
        token_batch<double>{.old_logp = matrix(train.data(), 120, 5), .rollout_logp = matrix(rollout.data(), 120, 5)},
        {.weight = matrix(weight.data(), 120, 5)});
    EXPECT_NEAR(c.report.weight.effective_sample_share(), share, 1e-12);
  }
}

}  // namespace RLCORE_TEST_ID
