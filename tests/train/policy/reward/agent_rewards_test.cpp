// The rewards of an agent, and where they are among a response's tokens.
#include "rlcore/train/policy/reward/reward_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/train/policy/algorithm/estimate_advantages.hpp"
#include "rlcore/train/policy/collect.hpp"
#include "rlcore/train/policy/trajectory/packed_trajectories.hpp"
#include "rlcore/train/policy/trajectory/surplus_file.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;

/// Turns of 2, 1 and 3 tokens, with 4 and 1 tokens of context between them.
train::trajectory three_turns() {
  train::trajectory t;
  t.tokens.assign(3 + 11, 7);
  t.prompt_length = 3;
  t.context = {{2, 4}, {7, 1}};
  t.turn_rewards = {0.5, 0, -1};
  t.talk.reward = -0.5, t.talk.score = 0.25;
  t.old_logp.assign(6, -1.0f), t.ref_logp.assign(6, -1.5f), t.rollout_logp.assign(6, -1.0f), t.entropy.assign(6, 0.0f);
  return t;
}

void score(train::reward_source& source, train::trajectory& t) {
  static const auto tokenizer = text::tokenizer::load(RLCORE_REFERENCE_DIR "/tool_loop_tokenizer");
  source.score({&t, 1}, {}, tokenizer);
}

TEST(agent_rewards, are_summed_at_the_end) {
  train::trajectory t = three_turns();
  train::agent_rewards source;
  score(source, t);
  EXPECT_EQ(t.reward, -0.5f);
  EXPECT_EQ(t.accuracy, 0.25);
  EXPECT_FALSE(t.rewarded_by_turn);
}

TEST(agent_rewards, are_at_the_ends_of_turns_if_asked_for) {
  train::trajectory t = three_turns();
  train::agent_rewards source(true);
  score(source, t);
  EXPECT_EQ(t.reward, -0.5f);
  EXPECT_THAT(t.score_by_token(), ElementsAre(0, 0.5f, 0, 0, 0, -1));
  std::vector<train::trajectory> batch{t};
  EXPECT_THAT(train::token_table(batch).rewards(batch), ElementsAre(0, 0.5f, 0, 0, 0, -1));
  for (int times = 0; times < 2; ++times) {  // the filter of dynamic sampling penalises before the step does
    train::penalise_rewards(batch, {kl_kind::k1, 0.5});  // old - ref is 0.5 everywhere
    EXPECT_THAT(batch[0].token_reward, ElementsAre(-0.25f, 0.25f, -0.25f, -0.25f, -0.25f, -1.25f));
    EXPECT_EQ(batch[0].reward, -0.5f - 6 * 0.25f);
  }
  t.rewarded_by_turn = false;
  batch = {t};
  for (int times = 0; times < 2; ++times) {
    train::penalise_rewards(batch, {kl_kind::k1, 0.5});
    EXPECT_THAT(batch[0].token_reward, ElementsAre(-0.25f, -0.25f, -0.25f, -0.25f, -0.25f, -0.75f));
  }
}

TEST(agent_rewards, at_the_ends_of_turns_are_discounted_from_there) {
  train::trajectory t = three_turns();
  train::agent_rewards source(true);
  score(source, t);
  t.value.assign(6, 0.0f);
  std::vector<train::trajectory> batch{t};
  train::estimate_advantages(gae{.gamma = 0.5, .lambda = 1}, batch, 1);
  const std::vector<float>& returns = batch[0].token_return;  // rewards 0 0.5 0 0 0 -1, each later one halved
  EXPECT_THAT(returns, ElementsAre(FloatEq(0.25f - 1.0f / 32), FloatEq(0.5f - 1.0f / 16), FloatEq(-1.0f / 8),
                                   FloatEq(-1.0f / 4), FloatEq(-1.0f / 2), FloatEq(-1)));
}

TEST(agent_rewards, have_the_overlong_penalty_at_the_last_token) {
  train::trajectory t = three_turns();
  train::agent_rewards source(true);
  train::managed_rewards managed(source, soft_overlong{.max_length = 10, .buffer = 4, .factor = 1});
  score(managed, t);
  EXPECT_LT(t.length_penalty, 0);
  EXPECT_FLOAT_EQ(t.score_by_token().back(), -1 + static_cast<float>(t.length_penalty));
}

TEST(agent_rewards, at_the_ends_of_turns_are_there_after_a_resume) {
  train::trajectory t = three_turns();
  train::agent_rewards source(true);
  score(source, t);
  t.talk.turns = 6;
  const scratch::folder folder;
  train::write_surplus(folder.path(), {&t, 1});
  const std::vector<train::trajectory> back = train::read_surplus(folder.path());
  ASSERT_EQ(back.size(), 1u);
  EXPECT_TRUE(back[0].rewarded_by_turn);
  EXPECT_EQ(back[0].score_by_token(), t.score_by_token());
  EXPECT_EQ(back[0].talk.reward, t.talk.reward);
}

TEST(agent_rewards, that_are_not_finite_are_refused) {
  train::trajectory t = three_turns();
  t.row = 4, t.talk.reward = std::numeric_limits<double>::infinity();
  train::agent_rewards source;
  EXPECT_THAT(thrown_by([&] { score(source, t); }), HasSubstr("row 4: the agent's reward is inf"));
}

TEST(trajectories, other_ids_than_the_sampled_ones_are_not_trained_on) {
  train::trajectory t = three_turns();
  train::packed_trajectories packed;
  packed.push_back(t);  // not known
  t.sampled_ids = t.ids_hash();
  packed.push_back(t);
  EXPECT_EQ(packed.targets.row.size(), 12u);
  t.context[1].begin = 8;
  EXPECT_THAT(thrown_by([&] { packed.push_back(t); }), HasSubstr("not those that were sampled"));
  t.context[1].begin = 7, t.tokens[5] = 8;
  EXPECT_THAT(thrown_by([&] { packed.push_back(t); }), HasSubstr("not those that were sampled"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
