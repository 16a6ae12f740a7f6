// Against functions that only snapshots of repositories contain: TRL's BCO, XPO and Nash-MD, OpenRLHF's KTO, verl's
// spin. And pairs that are made online.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "objective/piece/preference/preference_batch.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/objective/piece/preference/unpaired.hpp"
#include "rlcore/objective/piece/score.hpp"
#include "rlcore/objective/piece/supervised.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

using summed = sum_of<log_ratio_to_reference>;

class preference_snapshots : public testing::Test {
 protected:
  std::vector<double> scores() const {
    std::vector<double> s(batch.rows);
    for (std::size_t i = 0; i < batch.rows; ++i)
      for (std::size_t t = 0; t < batch.width; ++t)
        if (batch.mask[i * batch.width + t] != 0) s[i] += at(log_ratio_to_reference{}, batch.token(i, t)).value;
    return s;
  }
  preference_batch batch;
  nlohmann::json golden = read_golden("preference_snapshots.json");
};

TEST_F(preference_snapshots, trl_bco) {
  auto rewards = scores();
  for (auto& r : rewards) r *= 0.1;
  running_mean all;
  all.update(rewards);
  const auto& want = golden["trl_bco"];
  EXPECT_NEAR(all.mean, want["shift"], 1e-8);  // float there
  EXPECT_EQ(all.count, want["count"]);
  expect_same(batch(summed{}, bco_link(all.mean)), want, 1e-8, "BCO");

  std::size_t undesirable = 0;
  for (std::size_t i = 0; i < batch.rows; ++i)
    if (batch.label[i] == 0) batch.row_weight[i] = std::vector{0.5, 1.75, 10.0}.at(undesirable++);
  expect_same(batch(summed{}, weighted{bco_link(all.mean)}), golden["trl_bco_udm"], 1e-8, "BCO with UDM");

  all.update(std::vector{3.0, -1.0});
  EXPECT_NEAR(all.mean, want["shift_after_3_and_minus_1"], 1e-7);
}

TEST_F(preference_snapshots, openrlhf_kto) {
  const auto kl = kto_kl_baseline(batch.numbers("mismatched_logp"), batch.numbers("mismatched_ref_logp"));
  expect_same(batch(summed{}, kto_link{.kl = kl, .desirable_weight = 1.25, .undesirable_weight = 0.75}),
              golden["openrlhf_kto"], 1e-12, "KTO");
}

// Its baselines carry gradients and are crossed; where a mean is below 0 it is held at 0 and carries none.
TEST_F(preference_snapshots, openrlhf_even_kto) {
  expect_same(batch(summed{}, coupled_kto_link{}), golden["openrlhf_even_kto"], 1e-12, "even KTO");
  for (std::size_t k = 0; k < batch.logp.size(); ++k) std::swap(batch.logp[k], batch.ref_logp[k]);
  auto got = batch(summed{}, coupled_kto_link{});
  for (auto& g : got.gradient) g = -g;  // by ref_logp, which is logp of the golden case
  expect_same(got, golden["openrlhf_even_kto_negated"], 1e-12, "even KTO, negated");
}

TEST_F(preference_snapshots, verl_spin) {
  expect_same(batch(summed{}, bradley_terry{.smoothing = 0.1}), golden["verl_spin"], 1e-12, "spin");
  expect_same(batch(summed{}, ipo_link{}), golden["verl_spin_ipo"], 1e-12, "spin ipo");
  expect_same(batch(sum_of<log_prob>{}, bradley_terry{}), golden["verl_spin_reference_free"], 1e-12, "no reference");
}

// XPO (Xie et al. 2024): DPO on one answer of the policy and one of the reference policy, ordered by a judge, plus
// alpha * logp of the latter: the likelihood piece with coefficient -alpha on those rows, summed per sequence.
TEST_F(preference_snapshots, trl_xpo_is_dpo_and_a_likelihood_of_reference_answers) {
  std::vector<int> order(batch.rows);
  order_pairs(std::vector{1.0, 0.0, 2.0, 0.0, 0.0, 5.0, 1.0, 1.0}, order);
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 2, 3, 5, 4, 6, 7));

  preference_batch ordered = batch;
  for (std::size_t i = 0; i < batch.rows; ++i)
    for (std::size_t t = 0; t < batch.width; ++t) {
      const std::size_t to = i * batch.width + t, from = static_cast<std::size_t>(order[i]) * batch.width + t;
      ordered.logp[to] = batch.logp[from], ordered.ref_logp[to] = batch.ref_logp[from];
      ordered.mask[to] = batch.mask[from];
    }
  const auto pairs = ordered(summed{}, bradley_terry{});
  loss_and_gradient got{pairs.loss, std::vector<double>(batch.logp.size())};
  for (std::size_t i = 0; i < batch.rows; ++i)
    for (std::size_t t = 0; t < batch.width; ++t)
      got.gradient[static_cast<std::size_t>(order[i]) * batch.width + t] = pairs.gradient[i * batch.width + t];
  const double coefficient = -0.01 / 4;  // -alpha / pairs
  for (std::size_t i = 1; i < batch.rows; i += 2)
    for (std::size_t t = 0; t < batch.width; ++t) {
      if (batch.mask[i * batch.width + t] == 0) continue;
      const auto term = at(negative_log_likelihood{}, batch.token(i, t));
      got.loss += coefficient * term.value;
      got.gradient[i * batch.width + t] += coefficient * term.slope;
    }
  expect_same(got, golden["trl_xpo"], 1e-12, "XPO");
}

// Nash-MD (Munos et al. 2024): a policy gradient with advantage P(wins) - 1/2 plus beta k2, summed per sequence. TRL
// reports another number as the loss; the gradient is this.
TEST_F(preference_snapshots, trl_nash_md_is_a_policy_gradient_and_k2) {
  const std::vector<double> wins{.9, .2, .5, .7, .1, .6, .3, .8};
  for (std::size_t i = 0; i < batch.rows; ++i)
    for (std::size_t t = 0; t < batch.width; ++t) {
      if (batch.mask[i * batch.width + t] == 0) continue;
      auto x = batch.token(i, t);
      x.advantage = wins[i] - 0.5;
      const double slope = (at(policy_gradient{}, x).slope + 0.1 * at(k2{}, x).slope) / 8;
      EXPECT_NEAR(slope, golden["trl_nash_md"]["gradient"][i * batch.width + t], 1e-15);
    }
}

TEST(order_pairs, refuses_what_cannot_be_ordered) {
  std::vector<int> order(3), two(2);
  EXPECT_THROW(order_pairs(std::vector{1.0, 2.0, 3.0}, order), std::invalid_argument);
  EXPECT_THROW(order_pairs(std::vector{1.0, 2.0, 3.0, 4.0}, order), std::invalid_argument);
  EXPECT_THROW(order_pairs(std::vector{1.0, std::nan("")}, two), std::invalid_argument);
  order_pairs(std::vector{2.0f, 2.0f}, two);
  EXPECT_THAT(two, testing::ElementsAre(0, 1));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
