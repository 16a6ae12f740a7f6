// Every link of pairs against numbers of 60 digits, far into both tails, and against dual numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "objective/piece/preference/check_pair.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/objective/algorithm/simpo.hpp"
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/objective/piece/preference/reference_free.hpp"
#include "rlcore/objective/piece/preference/weights.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(pair_links, equal_numbers_of_60_digits) {
  check_pair_case(bradley_terry{}, "sigmoid");
  check_pair_case(bradley_terry{.smoothing = 0.1}, "cdpo");
  check_pair_case(bradley_terry{.beta = 2, .margin = 0.5}, "margin");
  check_pair_case(robust_link{.flips = 0.1}, "robust");
  check_pair_case(hinge_link{}, "hinge");
  check_pair_case(ipo_link{}, "ipo");
  check_pair_case(exo_pair_link{}, "exo_pair");
  check_pair_case(discopop_link{}, "discopop");
  check_pair_case(nca_pair_link{}, "nca_pair");
  check_pair_case(bco_pair_link{}, "bco_pair");
  check_pair_case(sppo_hard_link{}, "sppo_hard");
  check_pair_case(apo_zero_link{}, "apo_zero");
  check_pair_case(apo_down_link{}, "apo_down");
}
TEST(pair_links, on_transformed_scores) {
  check_pair_case(transformed{forward_kl_reward{}, bradley_terry{}}, "forward_kl");
  check_pair_case(transformed{jensen_shannon_reward{}, bradley_terry{}}, "jensen_shannon");
  check_pair_case(transformed{alpha_divergence_reward{.alpha = 0.3}, bradley_terry{}}, "alpha_divergence");
  check_pair_case(transformed{forward_kl_reward{}, bco_pair_link{}}, "forward_kl_bco_pair");
  check_pair_case(transformed{reverse_kl_reward{}, bradley_terry{}}, "sigmoid");
  check_pair_case(transformed{alpha_divergence_reward{.alpha = 1 + 1e-7}, bradley_terry{}}, "sigmoid");
}
TEST(pair_links, on_likelihoods) {
  check_pair_case(alpha_po_link{.alpha = 0.25, .beta = 2}, "alpha_po");
  check_pair_case(alpha_po_link{.alpha = -0.5, .beta = 2, .smoothing = 0.1}, "alpha_po_negative");
  check_pair_case(alpha_po_link{.alpha = 0, .beta = 2}, "alpha_po_zero");
  check_pair_case(orpo_link{}, "orpo");
}

template <class Link>
void check_random(const Link& link) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (int k = 0; k < 300; ++k) check_pair_slopes(link, 8 * normal(random), 8 * normal(random));
}
TEST(pair_links, slopes_are_derivatives) {
  check_random(bradley_terry{.beta = 0.7, .smoothing = 0.2, .margin = -0.4});
  check_random(robust_link{.beta = 0.7, .flips = 0.3});
  check_random(hinge_link{.beta = 0.7});
  check_random(ipo_link{.beta = 0.7});
  check_random(exo_pair_link{.beta = 0.7, .doubt = 0.2});
  check_random(discopop_link{.beta = 0.7, .temperature = 0.3});
  check_random(discopop_link{.beta = 0.7, .temperature = 2});
  check_random(nca_pair_link{.beta = 0.7});
  check_random(bco_pair_link{.beta = 0.7});
  check_random(sppo_hard_link{.beta = 0.7});
  check_random(apo_zero_link{.beta = 0.7});
  check_random(apo_down_link{.beta = 0.7});
  check_random(transformed{alpha_divergence_reward{.alpha = 2, .largest_exponent = 5}, ipo_link{}});
  check_random(weighted_pair{transformed{jensen_shannon_reward{}, sppo_hard_link{}}});
  check_random(transformed{forward_kl_reward{}, per_token{ipo_link{.beta = 0.7}}});
  check_random(mixed{scaled{0.8, bradley_terry{}}, bco_pair_link{}, scaled{-0.5, weighted_pair{ipo_link{}}}});
}

// Values that others computed by hand, at beta 0.1 and a gap of 2.
TEST(pair_links, reference_values) {
  EXPECT_NEAR(judge(bradley_terry{}, 2, 0).value, .598138869381592, 1e-15);
  EXPECT_NEAR(judge(bradley_terry{}, 2, 0).slope_chosen, -.0450166002687522, 1e-16);
  EXPECT_NEAR(judge(ipo_link{}, 2, 0).value, 9, 1e-14);
  EXPECT_NEAR(judge(robust_link{.flips = 0.1}, 2, 0).value, .573138869381592, 1e-15);
  EXPECT_NEAR(judge(bradley_terry{.smoothing = 0.1}, 2, 0).value, .618138869381592, 1e-15);
  EXPECT_NEAR(judge(exo_pair_link{}, 2, 0).value, 2.42201462066165, 1e-14);
  EXPECT_NEAR(judge(discopop_link{}, 2, 0).value, .814763141141885, 1e-15);
}
TEST(orpo_link, reference_values) {
  const auto got = judge(orpo_link{.beta = 1}, -.5, -1);
  EXPECT_NEAR(got.monitor[4], .974076984180107, 1e-14);
  EXPECT_NEAR(got.value, .320299785237536, 1e-14);
  const double wrong = exact_math::sigmoid(-got.monitor[4]);
  EXPECT_NEAR(-got.slope_chosen / wrong, 2.5414940825368, 1e-13);
}

// huggingface/trl#1491, #2274: log(1 - p) near p = 1. Liger's log1p(-exp(a)) has lost its digits at -2^-30 (the case
// "orpo" above holds it to 1e-12); at a = 0 TRL's gradient is NaN.
TEST(orpo_link, a_certain_answer_has_a_finite_slope) {
  const auto got = judge(orpo_link{}, 0, -1);
  const double odds = std::exp(-1) / (1 - std::exp(-1));
  EXPECT_EQ(got.value, 0);
  EXPECT_NEAR(got.slope_chosen, -0.1 * odds, 1e-16);
  EXPECT_EQ(got.slope_rejected, 0);
  EXPECT_EQ(judge(orpo_link{}, -1, 0).value, infinity);  // a certain rejected answer: the loss says so
  EXPECT_TRUE(std::isnan(judge(orpo_link{}, 0.001, -1).value));
}

// AlphaPO as pow(exp(x), -alpha) is infinite for any sum of log-probs below -104 in float, and NaN where the pair is
// confident.
TEST(alpha_po_link, sums_of_log_probs) {
  for (const auto& [c, r] : {std::pair{-300.0, -420.0}, {-420.0, -300.0}, {-2000.0, -2000.0}, {-2000.0, -2400.0}}) {
    const auto got = judge(alpha_po_link{}, c, r);
    EXPECT_TRUE(std::isfinite(got.value) && std::isfinite(got.slope_chosen) && std::isfinite(got.slope_rejected));
  }
  const auto far_apart = judge(alpha_po_link{}, -1.0, -4000.0);  // e^1000 overflows: the pair is right beyond doubt
  EXPECT_EQ(far_apart.value, 0);
  EXPECT_EQ(far_apart.slope_chosen, 0);
  EXPECT_EQ(far_apart.slope_rejected, 0);
}

// m e^-z is 0 * infinity where it is written as a product.
TEST(discopop_link, far_tails) {
  const auto wrong = judge(discopop_link{}, -8000, 0), right = judge(discopop_link{}, 8000, 0);
  EXPECT_EQ(wrong.value, 800);
  EXPECT_EQ(wrong.slope_chosen, -0.1);
  EXPECT_EQ(right.value, 0);
  EXPECT_EQ(right.slope_chosen, 0);
}

TEST(pair_links, an_impossible_rejected_answer_costs_nothing) {
  for (const auto& got : {judge(bradley_terry{}, -1, -infinity), judge(hinge_link{}, -1, -infinity),
                          judge(discopop_link{}, -1, -infinity)}) {
    EXPECT_EQ(got.value, 0);
    EXPECT_EQ(got.slope_chosen, 0);
    EXPECT_EQ(got.slope_rejected, 0);
  }
  EXPECT_EQ(judge(robust_link{}, -1, -infinity).value, 0);
  EXPECT_EQ(judge(bradley_terry{}, -infinity, -1).value, infinity);
  EXPECT_EQ(judge(bradley_terry{}, -infinity, -1).slope_chosen, -0.1);
}

TEST(pair_links, let_a_nan_through) {
  const auto check = [](const auto& link) {
    const auto got = judge(link, std::nan(""), -1);
    EXPECT_TRUE(std::isnan(got.value)) << link.name;
    EXPECT_TRUE(std::isnan(got.slope_chosen)) << link.name;
  };
  check(bradley_terry{}), check(robust_link{}), check(hinge_link{}), check(ipo_link{}), check(exo_pair_link{});
  check(discopop_link{}), check(nca_pair_link{}), check(bco_pair_link{}), check(sppo_hard_link{});
  check(apo_zero_link{}), check(apo_down_link{}), check(alpha_po_link{}), check(orpo_link{});
  check(transformed{forward_kl_reward{}, bradley_terry{}});
  check(transformed{alpha_divergence_reward{}, bradley_terry{}});
}

TEST(hinge_link, is_flat_at_its_kink) {  // as relu
  EXPECT_EQ(judge(hinge_link{.beta = 0.5}, 2, 0).slope_chosen, 0);
  EXPECT_EQ(judge(hinge_link{.beta = 0.5}, 1.999, 0).slope_chosen, -0.5);
}

// huggingface/trl#1035: a label smoothing that the chosen loss ignores. Here only links that use one have one, and
// settings without a loss are refused.
TEST(pair_links, settings_that_make_no_loss_are_refused) {
  const auto text = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_THAT(text([] { static_cast<void>(robust_link{.flips = 0.5}); }), testing::HasSubstr("below 1/2"));
  EXPECT_THAT(text([] { static_cast<void>(robust_link{.flips = -0.1}); }), testing::HasSubstr("at least 0"));
  EXPECT_THAT(text([] { static_cast<void>(exo_pair_link{.doubt = 0.0}); }), testing::HasSubstr("above 0"));
  EXPECT_THAT(text([] { static_cast<void>(exo_pair_link{.doubt = std::nan("")}); }), testing::HasSubstr("above 0"));
  EXPECT_EQ(text([] { static_cast<void>(robust_link{.flips = 0.0}); }), "accepted");
}

TEST(alpha_divergence_reward, holds_large_exponents) {  // as torch.clamp: the bound itself passes the gradient
  const alpha_divergence_reward reward{.alpha = 2, .largest_exponent = 3};
  const auto held = reward.operator()<exact_math, double>(4.0), bound = reward.operator()<exact_math, double>(3.0);
  EXPECT_EQ(held.value, std::expm1(3.0));
  EXPECT_EQ(held.slope, 0);
  EXPECT_EQ(bound.slope, std::exp(3.0));
}

TEST(mixed, is_the_weighted_sum_and_reports_each_link) {
  const auto pair = pair_of(1.5, -0.25);
  const auto a = judge(bradley_terry{}, pair), b = judge(bco_pair_link{}, pair);
  const mixed link{scaled{0.8, bradley_terry{}}, scaled{0.2, bco_pair_link{}}};
  const auto got = judge(link, pair);
  EXPECT_DOUBLE_EQ(got.value, 0.8 * a.value + 0.2 * b.value);
  EXPECT_DOUBLE_EQ(got.slope_chosen, 0.8 * a.slope_chosen + 0.2 * b.slope_chosen);
  EXPECT_THAT(link.monitors,
              testing::ElementsAre("accuracy", "reward_chosen", "reward_rejected", "preference", "bco_pair"));
  EXPECT_EQ(got.monitor[0], 1);
  EXPECT_EQ(got.monitor[3], a.value);
  EXPECT_EQ(got.monitor[4], b.value);
  static_assert(mixed<weighted_pair<ipo_link>, hinge_link>::reads == field::weight);
}

// With beta <= 0 a preference loss has no gradient, or prefers the rejected answer.
TEST(positive_beta, nothing_else_is_accepted) {
  for (const double beta : {0.0, -0.1, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(static_cast<void>(bradley_terry{.beta = beta}), std::invalid_argument) << beta;
    EXPECT_THROW(static_cast<void>(ipo_link{.beta = beta}), std::invalid_argument) << beta;
    EXPECT_THROW(static_cast<void>(discopop_link{.temperature = beta}), std::invalid_argument) << beta;
    EXPECT_THROW(static_cast<void>(paper::dpo({.beta = beta})), std::invalid_argument) << beta;
    EXPECT_THROW(static_cast<void>(paper::simpo({.beta = beta})), std::invalid_argument) << beta;
  }
  static_assert(bradley_terry{.beta = 2}.beta == 2 && bradley_terry{}.beta == 0.1);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
