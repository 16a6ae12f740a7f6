// Divergences between two vectors of logits: slopes against dual numbers, values and gradients against TRL and Liger.
#include <random>

#include "objective/vocabulary/golden_vocabulary.hpp"
#include "rlcore/objective/distillation/divergences.hpp"
#include "rlcore/objective/vocabulary/transforms.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

/// slope == d value / d logp of an entry-wise piece.
template <class P>
void check_entry_slope(const P& piece, double logp, double teacher_logp) {
  const entry<double> e{logp, teacher_logp, std::exp(logp), std::exp(teacher_logp)};
  const dual x{logp, 1};
  const entry<dual> carried{x, teacher_logp, exp(x), std::exp(teacher_logp)};
  const auto plain = piece.template operator()<exact_math, double>(e);
  const auto with = piece.template operator()<exact_math, dual>(carried);
  EXPECT_NEAR(with.value.v, plain.value, 1e-13 * std::max(1.0, std::abs(plain.value))) << P::name;
  EXPECT_NEAR(with.value.d, plain.slope, 1e-12 * std::max(1.0, std::abs(plain.slope)))
      << P::name << " at " << logp << ", " << teacher_logp;
}

template <class P>
void check_entry_slopes(const P& piece) {
  std::mt19937_64 random(5);
  std::exponential_distribution<double> exponential(0.3);
  for (int k = 0; k < 300; ++k) check_entry_slope(piece, -exponential(random), -exponential(random));
  if (P::name != "total_variation") check_entry_slope(piece, -0.5, -0.5);  // its kink: see below
  check_entry_slope(piece, 0.0, -700.0);
  check_entry_slope(piece, -700.0, 0.0);
}

TEST(divergence_slopes, equal_dual_numbers) {
  check_entry_slopes(forward_kl{});
  check_entry_slopes(reverse_kl{});
  check_entry_slopes(full_kl{});
  check_entry_slopes(reverse_full_kl{});
  for (const double beta : {0.0, 0.3, 0.5, 1.0}) check_entry_slopes(generalised_jsd{beta});
  check_entry_slopes(skew_forward_kl{});
  check_entry_slopes(skew_reverse_kl{});
  check_entry_slopes(soft_cross_entropy{});
  check_entry_slopes(total_variation{});
  check_entry_slopes(negative_entropy{});
  check_entry_slopes(sum_of_squares{});
}

template <class T>
class divergences : public testing::Test {};
using element_types = testing::Types<float, double>;
TYPED_TEST_SUITE(divergences, element_types);

TYPED_TEST(divergences, equal_trl_and_liger) {
  const golden_positions<TypeParam> x;
  check_positions(forward_kl{}, x, "forward_kl");
  check_positions(reverse_kl{}, x, "reverse_kl");
  check_positions(full_kl{}, x, "reverse_kl");
  check_positions(reverse_full_kl{}, x, "forward_kl");
  check_positions(generalised_jsd{0}, x, "forward_kl");
  check_positions(generalised_jsd{1}, x, "reverse_kl");
  check_positions(generalised_jsd{}, x, "jsd_half");
  check_positions(generalised_jsd{}, x, "jsd_liger");
  check_positions(generalised_jsd{0.3}, x, "jsd_sdpo");
  check_positions(tempered{2.0, generalised_jsd{0.3}}, x, "jsd_tempered");
  check_positions(tempered{2.0, forward_kl{}}, x, "forward_kl_tempered");
  check_positions(soft_cross_entropy{}, x, "soft_cross_entropy");
  check_positions(cosine{}, x, "cosine");
  check_positions(total_variation{}, x, "total_variation");
  check_positions(skew_forward_kl{}, x, "skew_forward_kl");
  check_positions(skew_reverse_kl{}, x, "skew_reverse_kl");
}

template <class P>
std::pair<double, std::vector<double>> of(const P& piece, std::vector<double> z, std::vector<double> w) {
  logits_position<double> x;
  x.logits = {z.data(), static_cast<extent_t>(z.size())}, x.teacher = {w.data(), static_cast<extent_t>(w.size())};
  std::vector<double> g(z.size());
  const double value = run_piece(piece, x, logits_gradient<double>{g.data(), static_cast<extent_t>(g.size())}).value;
  return {value, g};
}

// Section 2.14 of the specification: logits 1, 2, 3 against the uniform distribution.
TEST(divergence_values, are_those_computed_by_hand) {
  const std::vector<double> z{1, 2, 3}, uniform{0, 0, 0};
  const auto [h, dh] = of(negative_entropy{}, z, uniform);
  EXPECT_NEAR(-h, .832395581839938, 1e-14);
  EXPECT_NEAR(-dh[0], .141817093609812, 1e-14);
  EXPECT_NEAR(-dh[1], .14077035746963, 1e-14);
  EXPECT_NEAR(-dh[2], -.282587451079442, 1e-14);
  EXPECT_NEAR(of(sum_of_squares{}, z, uniform).first, .510543057890405, 1e-14);
  const auto [jsd, djsd] = of(generalised_jsd{0.5}, z, uniform);
  EXPECT_NEAR(jsd, .0687115997317519, 1e-14);
  EXPECT_NEAR(djsd[0], -.0417808988600695, 1e-14);
  EXPECT_NEAR(djsd[1], -.0293182025850719, 1e-14);
  EXPECT_NEAR(djsd[2], .0710991014451413, 1e-14);
  EXPECT_NEAR(of(forward_kl{}, z, uniform).first, .30899367577627, 1e-14);
  EXPECT_NEAR(of(reverse_kl{}, z, uniform).first, .266216706828171, 1e-14);
}

// Liger's kernel forms M and M log M directly: 0 (-inf) = NaN where both probabilities underflow (linkedin/Liger-Kernel
// ops/jsd.py). Here every divergence stays finite, also in float.
TEST(divergence_values, survive_underflow) {
  std::vector<float> z{0.0f, -150.0f, -300.0f, -90.0f}, w{0.0f, -200.0f, -120.0f, -104.0f}, g(4);
  logits_position<float> x;
  x.logits = {z.data(), 4}, x.teacher = {w.data(), 4};
  const auto finite = [&](const auto& piece) {
    EXPECT_TRUE(std::isfinite(run_piece(piece, x, logits_gradient<float>{g.data(), 4}).value)) << piece.name;
    for (const float slope : g) EXPECT_TRUE(std::isfinite(slope)) << piece.name;
  };
  finite(forward_kl{}), finite(reverse_kl{}), finite(generalised_jsd{}), finite(skew_forward_kl{});
  finite(soft_cross_entropy{}), finite(skew_reverse_kl{}), finite(total_variation{}), finite(negative_entropy{});
}

// Entries that do not exist have logit -inf. If they are the same for both models nothing changes, bit for bit.
TEST(divergence_values, ignore_entries_that_nobody_has) {
  const double none = -std::numeric_limits<double>::infinity();
  const std::vector<double> z{1, 2, 3, none}, w{0.5, 0, -1, none}, z3{1, 2, 3}, w3{0.5, 0, -1};
  const auto same = [&](const auto& piece) {
    const auto [value, g] = of(piece, z, w);
    const auto [value3, g3] = of(piece, z3, w3);
    EXPECT_EQ(value, value3) << piece.name;
    for (std::size_t j = 0; j < 3; ++j) EXPECT_EQ(g[j], g3[j]) << piece.name;
    EXPECT_EQ(g[3], 0.0) << piece.name;
  };
  same(forward_kl{}), same(reverse_kl{}), same(generalised_jsd{}), same(skew_forward_kl{}), same(skew_reverse_kl{});
  same(total_variation{}), same(cosine{}), same(negative_entropy{}), same(sum_of_squares{});
  // An entry that only the teacher has: infinite forward divergence with a finite gradient, finite mixtures.
  const auto [value, g] = of(forward_kl{}, {1, 2, none}, {0, 0, 0});
  EXPECT_EQ(value, std::numeric_limits<double>::infinity());
  EXPECT_NEAR(g[2], -1.0 / 3, 1e-15);
  EXPECT_TRUE(std::isfinite(of(generalised_jsd{}, {1, 2, none}, {0, 0, 0}).first));
  EXPECT_TRUE(std::isfinite(of(generalised_jsd{}, {0, 0, 0}, {1, 2, none}).first));
  EXPECT_TRUE(std::isfinite(of(skew_reverse_kl{}, {0, 0, 0}, {1, 2, none}).first));
}

TEST(divergence_values, nan_shows) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto shows = [&](const auto& piece) {
    EXPECT_TRUE(std::isnan(of(piece, {1, nan, 3}, {0, 0, 0}).first)) << piece.name;
    EXPECT_TRUE(std::isnan(of(piece, {1, nan, 3}, {0, 0, 0}).second[0])) << piece.name;
    EXPECT_TRUE(std::isnan(of(piece, {1, 2, 3}, {0, nan, 0}).first)) << piece.name;
  };
  shows(forward_kl{}), shows(reverse_kl{}), shows(generalised_jsd{}), shows(total_variation{}), shows(cosine{});
  shows(skew_forward_kl{}), shows(skew_reverse_kl{});
}

TEST(cosine_piece, of_a_vector_without_length) {
  const auto [value, g] = of(cosine{}, {0, 0, 0}, {1, 2, 3});
  EXPECT_EQ(value, 1.0);
  EXPECT_EQ(g, (std::vector<double>{0, 0, 0}));
}

// At a tie the slope is 0, as torch.sign has it; Liger's kernel takes -1/2.
TEST(total_variation_piece, has_no_gradient_where_both_agree) {
  const auto [value, g] = of(total_variation{}, {1, 2, 3}, {1, 2, 3});
  EXPECT_EQ(value, 0.0);
  for (const double slope : g) EXPECT_EQ(slope, 0.0);
}

TEST(generalised_jsd_piece, refuses_a_beta_outside_of_0_to_1) {
  EXPECT_THROW(generalised_jsd{1.5}.check(4), std::invalid_argument);
  EXPECT_THROW((tempered{1.0, generalised_jsd{-0.5}}.check(4)), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
