// Loss and gradient of every token against the systems' own functions: TRL 1.16.0, OpenRLHF 0.11.2, Liger 0.8.5.
#include <gtest/gtest.h>

#include "objective/piece/preference/preference_batch.hpp"
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/objective/piece/preference/reference_free.hpp"
#include "rlcore/objective/piece/preference/unpaired.hpp"
#include "rlcore/objective/piece/preference/weights.hpp"
#include "rlcore/objective/piece/score.hpp"
#include "rlcore/objective/piece/supervised.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

using summed = sum_of<log_ratio_to_reference>;
using averaged = mean_of<log_ratio_to_reference>;

class preference_systems : public testing::Test {
 protected:
  template <class Gather, class Link>
  void trl(const std::string& name, Gather gather, const Link& link, double tolerance = 1e-12) {
    expect_same(tokens(gather, link), tokens.system("trl", name), tolerance, "TRL " + name);
  }
  template <class Gather, class Link>
  void other(const std::string& system, const std::string& name, Gather gather, const Link& link,
             double tolerance = 1e-12) {
    expect_same(tokens(gather, link), tokens.system(system, name), tolerance, system + " " + name);
  }
  auto mask_matrix() { return matrix_view<const int>(tokens.mask.data(), shape()); }
  extents<2> shape() const { return {static_cast<extent_t>(tokens.rows), static_cast<extent_t>(tokens.width)}; }

  preference_batch tokens;
};

TEST_F(preference_systems, trl_dpo_loss_types) {
  trl("sigmoid", summed{}, bradley_terry{});
  trl("hinge", summed{}, hinge_link{});
  trl("exo_pair", summed{}, exo_pair_link{}, 1e-7);  // epsilon and its logarithm are float32 there
  trl("nca_pair", summed{}, nca_pair_link{});
  trl("robust", summed{}, robust_link{.flips = 0.1});
  trl("bco_pair", summed{}, bco_pair_link{});
  trl("sppo_hard", summed{}, sppo_hard_link{});
  trl("apo_zero", summed{}, apo_zero_link{});
  trl("apo_down", summed{}, apo_down_link{});
  trl("discopop", summed{}, discopop_link{});
  trl("aot", sum_of<log_prob>{}, aot_link{});
  trl("aot_smoothed", sum_of<log_prob>{}, aot_link{.smoothing = 0.1});
  trl("aot_unpaired", summed{}, aot_unpaired_link{});
  trl("aot_unpaired_smoothed", summed{}, aot_unpaired_link{.smoothing = 0.1});
}

// huggingface/trl#1265, #2964, ms-swift#9925, OpenRLHF#701: sum or mean over the tokens is the type of the gather. The
// same link gives TRL's IPO on one and OpenRLHF's on the other.
TEST_F(preference_systems, length_averaging_is_the_type_of_the_gather) {
  trl("ipo", averaged{}, ipo_link{});
  trl("sigmoid_norm", averaged{}, bradley_terry{});
  other("openrlhf", "ipo", summed{}, ipo_link{});
  EXPECT_GT(std::abs(tokens(averaged{}, ipo_link{}).loss - tokens(summed{}, ipo_link{}).loss), 0.01);
}

TEST_F(preference_systems, trl_f_divergences) {
  trl("forward_kl", summed{}, transformed{forward_kl_reward{}, bradley_terry{}});
  trl("jensen_shannon", summed{}, transformed{jensen_shannon_reward{}, bradley_terry{}});
  trl("alpha_divergence", summed{}, transformed{alpha_divergence_reward{.alpha = 0.3}, bradley_terry{}}, 2e-6);
  // averaged after the transformation
  trl("f_divergence_ipo", summed{}, transformed{forward_kl_reward{}, per_token{ipo_link{}}});
}

TEST_F(preference_systems, trl_modifiers) {
  std::vector<double> w(tokens.logp.size());
  ld_dpo_weights(mask_matrix(), 0.25, matrix_view<double>(w.data(), shape()));
  tokens.weight = w;
  trl("ld_dpo", sum_of<weighted_log_ratio_to_reference>{}, bradley_terry{});

  wpo_weights(matrix_view<const double>(tokens.logp.data(), shape()),
              matrix_view<const double>(tokens.log_square_sum.data(), shape()), mask_matrix(), tokens.row_weight);
  trl("wpo", summed{}, weighted_pair{bradley_terry{}});
}

/// -coefficient mean of logp over the tokens of the chosen rows: the NLL companion.
void add_likelihood(const preference_batch& tokens, double coefficient, loss_and_gradient& out) {
  double live = 0;
  for (std::size_t i = 0; i < tokens.rows; i += 2) live += tokens.live(i);
  for (std::size_t i = 0; i < tokens.rows; i += 2)
    for (std::size_t t = 0; t < tokens.width; ++t) {
      if (tokens.mask[i * tokens.width + t] == 0) continue;
      const auto term = at(negative_log_likelihood{}, tokens.token(i, t));
      out.loss += coefficient * term.value / live;
      out.gradient[i * tokens.width + t] += coefficient * term.slope / live;
    }
}

// huggingface/trl#1705: the likelihood term has its own denominator, the tokens of the chosen rows.
TEST_F(preference_systems, trl_loss_lists) {
  loss_and_gradient likelihood{0, std::vector<double>(tokens.logp.size())};
  add_likelihood(tokens, 1.0, likelihood);
  expect_same(likelihood, tokens.system("trl", "sft"), 1e-12, "TRL sft");

  auto got = tokens(summed{}, mixed{scaled{0.8, bradley_terry{}}, scaled{0.2, bco_pair_link{}}});
  add_likelihood(tokens, 0.5, got);
  expect_same(got, tokens.system("trl", "mixed"), 1e-12, "TRL mixed");

  // links on sums and on averages in one list
  trl("mixed_lengths", summed{},
      mixed{bradley_terry{}, scaled{0.25, per_token{ipo_link{}}}, scaled{2.0, per_token{bradley_terry{}}}});

  // TRL transforms the scores of sigmoid but not those of apo_zero: only the one is wrapped
  trl("mixed_f_divergence", summed{},
      mixed{transformed{jensen_shannon_reward{}, bradley_terry{}}, scaled{0.5, apo_zero_link{}}});
}

TEST_F(preference_systems, trl_kto) {
  const auto kl = kto_kl_baseline(tokens.numbers("mismatched_logp"), tokens.numbers("mismatched_ref_logp"));
  const auto& want = tokens.system("trl", "kto");
  EXPECT_NEAR(kl.value(), want["kl"], 1e-15);
  EXPECT_GT(kl.value(), 0.1);
  trl("kto", summed{}, kto_link{.kl = kl, .desirable_weight = 1.25, .undesirable_weight = 0.75});
  trl("apo_zero_unpaired", summed{}, apo_zero_unpaired_link{.desirable_weight = 1.25, .undesirable_weight = 0.75});
}

TEST_F(preference_systems, trl_without_reference) {
  trl("cpo", sum_of<log_prob>{}, bradley_terry{.smoothing = 0.1});
  trl("cpo_hinge", sum_of<log_prob>{}, hinge_link{});
  trl("cpo_ipo", mean_of<log_prob>{}, ipo_link{});
  trl("simpo", mean_of<log_prob>{}, bradley_terry{.beta = 2, .smoothing = 0.1, .margin = 0.5});
  trl("alpha_po", mean_of<log_prob>{}, alpha_po_link{.beta = 2});
  trl("orpo", mean_of<log_prob>{}, orpo_link{}, 2e-6);
  trl("tpo", sum_of<log_prob>{}, bradley_terry{.smoothing = 0.1});
  trl("tpo_l", mean_of<log_prob>{}, bradley_terry{.beta = 2, .smoothing = 0.1, .margin = 0.5});
}

TEST_F(preference_systems, openrlhf) {
  other("openrlhf", "dpo", summed{}, bradley_terry{});
  other("openrlhf", "cdpo", summed{}, bradley_terry{.smoothing = 0.1});
}

TEST_F(preference_systems, liger) {
  other("liger", "dpo_sigmoid", summed{}, bradley_terry{});
  other("liger", "dpo_hinge", summed{}, hinge_link{});
  other("liger", "dpo_nca_pair", summed{}, nca_pair_link{});
  other("liger", "dpo_bco_pair", summed{}, bco_pair_link{});
  other("liger", "dpo_sppo_hard", summed{}, sppo_hard_link{});
  other("liger", "dpo_apo_zero", summed{}, apo_zero_link{});
  other("liger", "dpo_apo_down", summed{}, apo_down_link{});
  other("liger", "dpo_discopop", summed{}, discopop_link{});
  other("liger", "dpo_exo_pair", summed{}, exo_pair_link{.doubt = 0.25}, 1e-7);
  other("liger", "dpo_robust", summed{}, robust_link{.flips = 0.1});
  other("liger", "kto", summed{}, kto_link{.kl = kto_baseline(0.2)});
  other("liger", "cpo", mean_of<log_prob>{}, bradley_terry{.smoothing = 0.1});
  other("liger", "simpo", mean_of<log_prob>{}, bradley_terry{.beta = 2, .margin = 0.5});
  other("liger", "orpo", mean_of<log_prob>{}, orpo_link{});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
