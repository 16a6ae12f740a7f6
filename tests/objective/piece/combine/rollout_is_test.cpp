// Ratios to the rollout policy, and the losses that verl and OpenRLHF make with them.
#include "rlcore/objective/piece/combine/reweighted.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"

#include "objective/correction/correction_data.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/correction/rollout_correction.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/objective/piece/surrogate/sequence.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace correction_test;

namespace {

constexpr rollout_over_train wide{0.6, 1.5};

template <class Objective, class Aggregation>
void check_loss(golden_data& d, const Objective& objective, const Aggregation& aggregation, token_batch<double> batch,
                const global_counts& counts, const nlohmann::json& one) {
  batch.logp = golden_data::shaped(d.logp);
  batch.advantage = d.advantage;
  std::vector<double> gradient(72, -7.0);
  const auto report =
      evaluate(serial{}, objective, aggregation, batch, counts, {.logp = golden_data::shaped(gradient)});
  EXPECT_NEAR(report.loss(), one["loss"].get<double>(), 1e-8);  // verl adds 1e-8 to its counts
  expect_equal(gradient, one["gradient"], "gradient", 1e-8);
}

}  // namespace

TEST(rollout_is, slope_is_that_of_the_piece) {
  std::mt19937_64 random(2);
  const rollout_is piece{dual_clip{}};
  static_assert(!contains(decltype(piece)::reads, field::old_logp));
  static_assert(contains(decltype(piece)::reads, field::rollout_logp));
  for (int i = 0; i < 300; ++i) {
    auto t = rlcore_test::random_token(random);
    rlcore_test::check_slope(piece, t);
    auto moved = t;
    moved.old_logp = t.rollout_logp;
    EXPECT_EQ(rlcore_test::at(piece, t).value, rlcore_test::at(dual_clip{}, moved).value);
    t.old_logp = NAN;  // not there
    EXPECT_EQ(rlcore_test::at(piece, t).value, rlcore_test::at(dual_clip{}, moved).value);
  }
}

TEST(rollout_is, decoupled_loss_of_verl) {
  golden_data d;
  const auto c = d.run(verl::decoupled_geo_rs_token_tis(2, wide));
  check_loss(d, weighted{dual_clip{}}, token_mean{}, c.batch, c.counts, d.cases["verl_losses"]["decoupled"]);
}

// Rejection inside of verl's bypass loss changes the mask; the counts come with it.
TEST(rollout_is, bypass_losses_of_verl) {
  golden_data d;
  const auto clip = d.run(verl::bypass_ppo_clip_k3_rs(0.1));
  check_loss(d, rollout_is{dual_clip{}}, token_mean{}, clip.batch, clip.counts,
             d.cases["verl_losses"]["bypass_ppo_clip"]);
  const auto reinforce = d.run(verl::bypass_pg_geo_rs_seq_tis(2, wide));
  check_loss(d, weighted{policy_gradient{}}, token_mean{}, reinforce.batch, reinforce.counts,
             d.cases["verl_losses"]["bypass_reinforce"]);
}

TEST(rollout_is, gspo_with_correction_of_open_rlhf) {
  golden_data d;
  const rollout_is gspo{sequence_is{ppo_clip{.low = 0.3, .high = 0.4}}};
  const auto c = d.run(bypass(no_weight{}));
  check_loss(d, gspo, sequence_mean_token_mean{}, c.batch, c.counts, d.cases["openrlhf_gspo"]);
}

// The weight cannot be applied on top of a ratio to the rollout policy: an objective with that ratio does not read
// old_logp, and weighted{} refuses it (tests/compile_fail/correction_applied_twice.cpp).
TEST(rollout_is, the_batch_of_a_bypass_has_no_old_logp) {
  golden_data d;
  auto c = d.run(verl::bypass_pg_is());
  c.batch.advantage = d.advantage;
  EXPECT_THROW(evaluate(serial{}, weighted{ppo_clip{}}, token_mean{}, c.batch, c.counts), std::invalid_argument);
}

}  // namespace RLCORE_TEST_ID
