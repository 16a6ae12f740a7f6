// Compositions against OpenRLHF's compute_advantages_and_returns: baseline, clip, KL per token, returns, normalisation.
#include "objective/advantage/golden_advantage.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"
#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/advantage/token_rewards.hpp"
#include "rlcore/objective/advantage/whitening.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

struct openrlhf_batch {
  const nlohmann::json& all = advantages_of_systems().at("openrlhf");
  golden_matrix old_logp{all.at("old_logp")}, ref_logp{all.at("ref_logp")}, value{all.at("values")};
  golden_matrix mask{old_logp.rows, old_logp.tokens, 0}, reward = mask, advantage = mask, returns = mask;
  std::vector<double> score = numbers(all.at("scores"));
  std::int64_t group = all.at("group");
  reward_clip clip{all.at("clip")[0], all.at("clip")[1]};
  openrlhf_batch() {
    const auto length = integers(all.at("lengths"));
    for (extent_t i = 0; i < mask.rows; ++i)
      for (extent_t t = 0; t < mask.tokens; ++t) {
        mask.view()(i, t) = t < length[static_cast<std::size_t>(i)];
        if (mask.view()(i, t) == 0) old_logp.view()(i, t) = ref_logp.view()(i, t) = value.view()(i, t) = std::nan("");
      }
  }
  void rewards_from(const std::vector<double>& row) {
    token_rewards{.coefficient = all.at("coefficient")}(row, old_logp.view(), ref_logp.view(), mask.view(),
                                                        reward.view());
  }
  void check(const char* name) {
    SCOPED_TRACE(name);
    // Their normalisation is in float.
    expect_near(advantage.values, all.at("cases").at(name).at("advantages"), 1e-6);
    expect_near(returns.values, all.at("cases").at(name).at("returns"), 1e-12);
  }
};

const whitening population{.guard = variance_guard::floor, .sample_variance = false};

TEST(openrlhf_advantages, of_gae) {
  openrlhf_batch b;
  b.clip(b.score);
  b.rewards_from(b.score);
  gae{.gamma = 0.875, .lambda = 0.75, .turns = turn_policy::discount}(b.reward.view(), b.value.view(), b.mask.view(),
                                                                      b.advantage.view(), b.returns.view());
  population(b.advantage.view(), b.mask.view(), b.advantage.view());
  b.check("gae");
}
// OpenRLHF#830, #856, #924: the normalisation of REINFORCE++ is over the batch, that of GRPO over the group
TEST(openrlhf_advantages, of_reinforce_plus_plus) {
  openrlhf_batch b;
  auto score = b.score;
  b.clip(score);
  b.rewards_from(score);
  reinforce_plus_plus how{.gamma = 0.875, .turns = turn_policy::discount, .whiten = population};
  how(b.reward.view(), b.mask.view(), b.advantage.view(), b.returns.view());
  b.check("reinforce");
  how.whiten.scale = false;
  how(b.reward.view(), b.mask.view(), b.advantage.view(), b.returns.view());
  b.check("reinforce_centred");

  in_order(group_relative{.normalize_by_std = false}, b.clip)(b.score, b.group, score);
  b.rewards_from(score);
  how = {.turns = turn_policy::discount, .whiten = population};
  how(b.reward.view(), b.mask.view(), b.advantage.view(), b.returns.view());
  b.check("reinforce_baseline");
}
TEST(openrlhf_advantages, of_groups) {
  openrlhf_batch b;
  std::vector<double> score(b.score.size());
  const auto finish = [&](const char* name) {
    b.rewards_from(score);
    discounted_return{.turns = turn_policy::discount}(b.reward.view(), b.mask.view(), b.returns.view());
    b.advantage = b.returns;
    b.check(name);
  };
  in_order(rloo{}, b.clip)(b.score, b.group, score);
  finish("rloo");
  in_order(group_relative{.epsilon = 1e-9}, b.clip)(b.score, b.group, score);
  finish("group_norm");
  in_order(group_relative{.normalize_by_std = false}, b.clip)(b.score, b.group, score);
  finish("dr_grpo");
  // The whole batch as one group.
  in_order(group_relative{.normalize_by_std = false}, b.clip)(b.score, 8, score);
  finish("flash_reinforce");
}

TEST(token_rewards, put_the_score_at_the_last_live_token) {
  const double nan = std::nan("");
  const std::vector<double> old_logp{-1, nan, -2, nan, nan, nan, nan, nan}, ref{-1.5, nan, -1, nan, nan, nan, nan, nan};
  const std::vector<int> mask{1, 0, 1, 0, 0, 0, 0, 0};
  std::vector<double> out(8, -9), totals(2);
  token_rewards{.coefficient = 0.5}(std::vector<double>{3, 5}, matrix(old_logp, 2, 4), matrix(ref, 2, 4),
                                    matrix(mask, 2, 4), matrix(out, 2, 4));
  expect_near(out, std::vector<double>{-0.25, 0, 3.5, 0, 0, 0, 0, 0});
  token_rewards{}(std::vector<double>{3, 5}, matrix(mask, 2, 4), matrix(out, 2, 4));
  EXPECT_EQ(out, (std::vector<double>{0, 0, 3, 0, 0, 0, 0, 0}));
  token_rewards{}(std::vector<double>{nan, 5}, matrix(mask, 2, 4), matrix(out, 2, 4));
  EXPECT_EQ(out, std::vector<double>(8, 0.0));
}
// verl's outcome estimators add up whatever stands in masked slots; here the sum is over live tokens.
TEST(row_totals, leave_masked_slots_out) {
  const std::vector<double> reward{1, std::nan(""), 2, 100};
  const std::vector<int> mask{1, 0, 1, 0};
  std::vector<double> totals(2);
  row_totals(matrix(reward, 2, 2), matrix(mask, 2, 2), totals);
  EXPECT_EQ(totals, (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
