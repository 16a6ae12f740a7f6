// Terms of a sum that a run-time setting switches on.
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

/// The names of the pieces of an objective, with their coefficients.
template <class Objective>
std::string text_of(const Objective& objective) {
  std::string text;
  for (const auto& p : empty_report(objective).piece)
    text += std::string(p.name) + " " + std::to_string(p.coefficient) + ";";
  return text;
}

TEST(when, absent_terms_are_no_pieces) {
  const auto terms = [](bool kl, bool entropy) {
    const sum objective{policy_gradient{}, when{kl, scaled{0.5, k2{}}}, when{entropy, entropy_bonus(0.25)}};
    return with_present(objective, [](const auto& present) { return text_of(present); });
  };
  const std::string policy = text_of(policy_gradient{}), kl = "kl 0.500000;", entropy = "entropy -0.250000;";
  EXPECT_EQ(terms(false, false), policy);
  EXPECT_EQ(terms(true, false), policy + kl);
  EXPECT_EQ(terms(false, true), policy + entropy);
  EXPECT_EQ(terms(true, true), policy + kl + entropy);
}

TEST(when, other_objectives_are_left_as_they_are) {
  const sum objective{policy_gradient{}, scaled{0.5, k2{}}};
  with_present(objective, [](const auto& same) {
    static_assert(std::is_same_v<std::remove_cvref_t<decltype(same)>, sum<policy_gradient, scaled<k2>>>);
  });
}

TEST(when, evaluate_gives_absent_terms_the_coefficient_0) {
  const std::vector<double> logp{-1, -2, -3, -4}, ref{-2, -2, -1, -4}, advantage{1, -1};
  const auto matrix = [](const std::vector<double>& x) { return matrix_view<const double>(x.data(), {2, 2}); };
  const token_batch<double> batch{.logp = matrix(logp), .ref_logp = matrix(ref), .advantage = advantage};
  std::vector<double> slope(4), without(4);
  const auto r = evaluate(sum{policy_gradient{}, when{false, scaled{0.5, k2{}}}}, token_mean{}, batch,
                          {.logp = matrix_view<double>(slope.data(), {2, 2})});
  const auto alone =
      evaluate(policy_gradient{}, token_mean{}, batch, {.logp = matrix_view<double>(without.data(), {2, 2})});
  EXPECT_EQ(r.loss(), alone.loss());
  EXPECT_EQ(slope, without);
  EXPECT_EQ(r.piece[1].coefficient, 0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
