// Algorithms of the policy loop: composed ones against the loss that a command line names (itself held against
// PyTorch) and by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "rlcore/core/random.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/algorithm/gspo.hpp"
#include "rlcore/objective/algorithm/ppo.hpp"
#include "rlcore/objective/algorithm/reinforce.hpp"
#include "rlcore/objective/algorithm/reinforce_plus_plus.hpp"
#include "rlcore/objective/algorithm/rloo.hpp"
#include "rlcore/objective/piece/combine/reweighted.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/objective/selection/tokens.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::any_algorithm;
using train::trajectory;

/// Rows of 3, 1, 0, 7 and 40 tokens.
struct example {
  std::vector<std::int32_t> offsets{0, 3, 4, 4, 11, 51};
  std::vector<float> logp, old_logp, ref_logp, entropy, advantage{1, -0.5f, 2, -1.5f, 0.25f}, dlogp, dentropy;
  global_counts counts;

  example() {
    const random_key key{5};
    for (std::uint32_t i = 0; i < 51; ++i) {
      const auto u = [&](std::uint32_t what) { return static_cast<float>(key.below(10'000, i, what)) * 1e-4f; };
      logp.push_back(-3 * u(0) - 0.01f), old_logp.push_back(logp[i] + u(1) - 0.5f);
      ref_logp.push_back(logp[i] + u(2) - 0.5f), entropy.push_back(2 * u(3));
    }
    for (std::size_t r = 0; r + 1 < offsets.size(); ++r) counts.add_row(offsets[r + 1] - offsets[r]);
    dlogp.assign(51, 7), dentropy.assign(51, 7);
  }
  policy_rows rows(bool with_entropy = false) const {
    policy_rows b;
    b.offsets = offsets, b.logp = logp, b.old_logp = old_logp, b.ref_logp = ref_logp, b.advantage = advantage;
    if (with_entropy) b.entropy = entropy;
    return b;
  }
};

struct nothing {
  void operator()(std::span<trajectory>, std::int64_t) const {}
};

TEST(policy_algorithm, composed_of_verls_pieces_is_verls_loss) {
  const train::any_algorithm verl =
      train::algorithm_of(train::policy_loss_settings{.use_kl = true, .kl_coef = 0.25, .entropy_coeff = 0.125});
  const any_algorithm composed(
      group_relative{},
      sum{dual_clip{.low = 0.2, .high = 0.2, .bound = 3}, scaled{0.25, clamped_k3{}}, entropy_bonus(0.125)},
      token_mean{});
  EXPECT_TRUE(contains(verl.reads(), field::ref_logp) && contains(verl.reads(), field::entropy));
  EXPECT_TRUE(contains(composed.reads(), field::ref_logp) && contains(composed.reads(), field::entropy));
  example a, b;
  const policy_report x = verl.loss(a.rows(true), a.counts, a.dlogp, a.dentropy);
  const policy_report y = composed.loss(b.rows(true), b.counts, b.dlogp, b.dentropy);
  EXPECT_EQ(a.dlogp, b.dlogp);
  EXPECT_EQ(a.dentropy, b.dentropy);
  EXPECT_EQ(x.policy_loss(), y.policy_loss());
  EXPECT_EQ(x.kl_loss(), y.kl_loss());
  EXPECT_EQ(x.entropy_value(), y.entropy_value());
  EXPECT_EQ(x.loss(), y.loss());
  EXPECT_EQ(x.clip_fraction(), y.clip_fraction());
  EXPECT_GT(x.clip_fraction(), 0);
  EXPECT_EQ(x.clip_fraction_lower(), y.clip_fraction_lower());
  EXPECT_EQ(x.ppo_kl_mean(), y.ppo_kl_mean());
  EXPECT_EQ(x.tokens, 51);
}

// A term that is switched off costs nothing: its fields are not read, and the loop is the one without it.
TEST(policy_algorithm, absent_terms_are_not_in_the_loop) {
  const auto with = [](bool kl, bool entropy) {
    return any_algorithm(
        group_relative{},
        sum{dual_clip{}, when{kl, scaled{0.25, any_divergence{}}}, when{entropy, entropy_bonus(0.125)}},
        any_aggregation(token_mean{}));
  };
  const any_algorithm alone = with(false, false);
  EXPECT_FALSE(contains(alone.reads(), field::ref_logp) || contains(alone.reads(), field::entropy));
  EXPECT_TRUE(contains(with(true, false).reads(), field::ref_logp));
  EXPECT_TRUE(contains(with(false, true).reads(), field::entropy));
  example one, other;
  const policy_report x = alone.loss(one.rows(), one.counts, one.dlogp, {});
  const policy_report y = any_algorithm(group_relative{}, sum{dual_clip{}}, any_aggregation(token_mean{}))
                              .loss(other.rows(), other.counts, other.dlogp, {});
  EXPECT_EQ(x.loss(), y.loss());
  EXPECT_EQ(x.kl_coefficient, 0);
  EXPECT_EQ(one.dlogp, other.dlogp);
}

TEST(policy_algorithm, kl_to_the_old_policy_is_reported_whatever_the_objective) {
  example e;
  const any_algorithm reinforce(group_relative{}, policy_gradient{}, token_mean{});
  EXPECT_FALSE(contains(reinforce.reads(), field::ref_logp));
  EXPECT_FALSE(contains(reinforce.reads(), field::entropy));
  const policy_report r = reinforce.loss(e.rows(), e.counts, e.dlogp, {});
  double kl = 0, loss = 0;
  for (std::size_t row = 0; row < 5; ++row)
    for (auto i = static_cast<std::size_t>(e.offsets[row]); i < static_cast<std::size_t>(e.offsets[row + 1]); ++i) {
      kl += (static_cast<double>(e.old_logp[i]) - static_cast<double>(e.logp[i])) / 51;
      loss -= static_cast<double>(e.advantage[row]) * static_cast<double>(e.logp[i]) / 51;
      EXPECT_NEAR(e.dlogp[i], -e.advantage[row] / 51, 1e-7);
    }
  EXPECT_NEAR(r.ppo_kl_mean(), kl, 1e-7);  // differences of floats, as in verl
  EXPECT_NEAR(r.policy_loss(), loss, 1e-6);
  EXPECT_EQ(r.clip_fraction(), 0);
  EXPECT_EQ(r.kl_coefficient, 0);
}

TEST(policy_algorithm, advantages_per_token_replace_those_per_row) {
  const any_algorithm grpo(nothing{}, ppo_clip{}, token_mean{});
  example a, b;
  std::vector<float> per_token;
  for (std::size_t row = 0; row < 5; ++row)
    per_token.insert(per_token.end(), static_cast<std::size_t>(a.offsets[row + 1] - a.offsets[row]), a.advantage[row]);
  policy_rows rows = b.rows();
  rows.token_advantage = per_token, rows.advantage = {};
  const policy_report x = grpo.loss(a.rows(), a.counts, a.dlogp, {}), y = grpo.loss(rows, b.counts, b.dlogp, {});
  EXPECT_EQ(a.dlogp, b.dlogp);
  EXPECT_EQ(x.loss(), y.loss());
}

TEST(policy_algorithm, a_clipped_sequence_counts_all_its_tokens) {
  const any_algorithm gspo(with_advantage(paper::gspo({.clip_low = 0.2, .clip_high = 0.2}), nothing{}));
  example e;
  for (std::size_t i = 0; i < e.logp.size(); ++i) e.old_logp[i] = e.logp[i];
  for (std::size_t i = 4; i < 11; ++i) e.old_logp[i] = e.logp[i] + 1;  // ratio e^-1 with A < 0: clipped
  const policy_report r = gspo.loss(e.rows(), e.counts, e.dlogp, {});
  EXPECT_NEAR(r.clip_fraction(), 7.0 / 51, 1e-12);
  EXPECT_NEAR(r.policy_loss(), (-1 + 0.5 + 1.5 * 0.8 - 0.25) / 4, 1e-6);
  EXPECT_NEAR(e.dlogp[0], -1.0 / 3 / 4, 1e-7);
  EXPECT_EQ(e.dlogp[5], 0);
  // Row by row it is the same, to the bit.
  policy_report sum;
  std::vector<float> slopes;
  for (std::size_t row = 0; row < 5; ++row) {
    const auto first = static_cast<std::size_t>(e.offsets[row]);
    const std::vector<std::int32_t> ends{0, e.offsets[row + 1] - e.offsets[row]};
    const auto n = static_cast<std::size_t>(ends[1]);
    policy_rows one;
    one.offsets = ends, one.logp = std::span(e.logp).subspan(first, n);
    one.old_logp = std::span(e.old_logp).subspan(first, n), one.advantage = std::span(e.advantage).subspan(row, 1);
    std::vector<float> slope(n);
    sum += gspo.loss(one, e.counts, slope, {});
    slopes.insert(slopes.end(), slope.begin(), slope.end());
  }
  EXPECT_EQ(slopes, e.dlogp);
  EXPECT_EQ(sum.loss(), r.loss());
  EXPECT_EQ(sum.clip_fraction(), r.clip_fraction());
}

std::vector<trajectory> rewarded(const std::vector<float>& rewards) {
  std::vector<trajectory> batch(rewards.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i].reward = rewards[i];
    batch[i].prompt_length = 1;
    batch[i].tokens.assign(2 + i, 0);  // responses of 1, 2, 3, ... tokens
  }
  return batch;
}

/// Tells what it was called with: the sum of the lengths before it.
struct with_lengths {
  template <class R, class G, class L, class A>
  void operator()(const R& rewards, const G& group, const L& lengths, A&& advantages) const {
    std::int64_t before = 0;
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      advantages[i] = rewards[i] + static_cast<float>(10 * group) + static_cast<float>(100 * before);
      before += lengths[i];
    }
  }
};

struct by_token {
  void operator()(std::span<trajectory> batch, std::int64_t samples) const {
    for (trajectory& t : batch)
      t.token_advantage.assign(static_cast<std::size_t>(t.response_length()), static_cast<float>(samples));
  }
};

TEST(policy_algorithm, advantages_of_every_form) {
  auto batch = rewarded({1, 0, 0, 1});
  any_algorithm(group_relative{.normalize_by_std = false}, policy_gradient{}, token_mean{})
      .advantages(batch, 2, random_key{});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(batch[i].advantage, i % 3 == 0 ? 0.5f : -0.5f);
  any_algorithm(with_lengths{}, policy_gradient{}, token_mean{}).advantages(batch, 2, random_key{});
  EXPECT_EQ(batch[0].advantage, 21);
  EXPECT_EQ(batch[3].advantage, 621);
  EXPECT_TRUE(batch[0].token_advantage.empty());
  any_algorithm(by_token{}, policy_gradient{}, token_mean{}).advantages(batch, 4, random_key{});
  EXPECT_EQ(batch[2].token_advantage, (std::vector<float>{4, 4, 4}));
}

TEST(policy_algorithm, reinforce_plus_plus_whitens_over_the_tokens_of_the_batch) {
  auto batch = rewarded({1, 0, 0, 2});  // with 1, 2, 3 and 4 tokens
  const any_algorithm a(paper::reinforce_plus_plus());
  a.advantages(batch, 2, random_key{});
  // Returns are 1, 0 0, 0 0 0, 2 2 2 2: mean 0.9, sum of squares 17.
  const double mean = 0.9, deviation = std::sqrt((17 - 10 * 0.81) / 9 + 1e-8);
  const double returns[] = {1, 0, 0, 2};
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(batch[i].token_advantage.size(), i + 1);
    for (const float x : batch[i].token_advantage) EXPECT_NEAR(x, (returns[i] - mean) / deviation, 1e-6);
  }
  // A penalty of a token counts for the tokens up to it.
  for (trajectory& t : batch) t.token_reward.assign(static_cast<std::size_t>(t.response_length()), 0);
  batch[3].token_reward = {0, 3, 0, -3};
  a.advantages(batch, 2, random_key{});
  EXPECT_EQ(batch[3].token_advantage[0], batch[0].token_advantage[0]);
  EXPECT_EQ(batch[3].token_advantage[0], batch[3].token_advantage[1]);
  EXPECT_LT(batch[3].token_advantage[2], batch[0].token_advantage[0]);
  EXPECT_EQ(batch[3].token_advantage[2], batch[3].token_advantage[3]);
}

TEST(policy_algorithm, gae_asks_for_a_critic_and_reads_its_values) {
  auto batch = rewarded({1, 0, 0, 2});  // with 1, 2, 3 and 4 tokens
  for (trajectory& t : batch)
    for (std::int64_t i = 0; i < t.response_length(); ++i) t.value.push_back(0.25f * static_cast<float>(i + 1));
  const any_algorithm a(gae{.gamma = 1, .lambda = 1}, ppo_clip{}, token_mean{});
  EXPECT_EQ(a.inputs(), advantage_input::values);
  EXPECT_EQ(any_algorithm(paper::rloo()).inputs(), advantage_input::none);
  a.advantages(batch, 2, random_key{});
  // With gamma = lambda = 1 the return of every token is the reward, the advantage what the value was short of it.
  for (const trajectory& t : batch)
    for (std::size_t i = 0; i < t.value.size(); ++i) {
      EXPECT_NEAR(t.token_return[i], t.reward, 1e-6);
      EXPECT_NEAR(t.token_advantage[i], t.reward - t.value[i], 1e-6);
    }
}

TEST(policy_algorithm, estimators_of_rows_stay_with_rows) {
  auto batch = rewarded({1, 0, 0, 1});
  any_algorithm(paper::rloo()).advantages(batch, 2, random_key{});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(batch[i].advantage, i % 3 == 0 ? 1 : -1);
  any_algorithm(paper::opo()).advantages(batch, 2, random_key{});  // lengths 1, 2 and 3, 4
  EXPECT_NEAR(batch[0].advantage, 1 - 1.0 / 3, 1e-7);
  EXPECT_NEAR(batch[3].advantage, 1 - 4.0 / 7, 1e-7);
  for (const trajectory& t : batch) EXPECT_TRUE(t.token_advantage.empty());
}

TEST(policy_algorithm, a_selection_sees_the_whole_step) {
  auto batch = rewarded({1, 0, 0, 1});  // with 1, 2, 3 and 4 tokens
  float h = 0;
  for (trajectory& t : batch) {
    t.old_logp.assign(static_cast<std::size_t>(t.response_length()), -1);
    for (std::size_t k = 0; k < t.old_logp.size(); ++k) t.entropy.push_back(h += 1);  // 1, 2, ... 10
  }
  const any_algorithm a(algorithm{group_relative{}, token_filter{ppo_clip{}}, token_mean{}},
                        high_entropy{.share = 0.2});
  EXPECT_TRUE(contains(a.reads(), field::selected));
  a.advantages(batch, 2, random_key{1});  // the 0.8-quantile of 1 ... 10 is 8.2
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(batch[i].selected, std::vector<float>(i + 1, 0)) << i;
  EXPECT_EQ(batch[3].selected, (std::vector<float>{0, 0, 1, 1}));

  example e, plain;
  std::vector<float> selected(51, 0);
  for (std::size_t i = 0; i < 51; i += 3) selected[i] = 1;
  policy_rows rows = e.rows();
  rows.selected = selected;
  a.loss(rows, e.counts, e.dlogp, {});
  any_algorithm(nothing{}, ppo_clip{}, token_mean{}).loss(plain.rows(), plain.counts, plain.dlogp, {});
  for (std::size_t i = 0; i < 51; ++i) EXPECT_EQ(e.dlogp[i], i % 3 == 0 ? plain.dlogp[i] : 0) << i;
  EXPECT_THROW(a.loss(e.rows(), e.counts, e.dlogp, {}), std::invalid_argument);
}

TEST(policy_algorithm, a_random_selection_draws_with_the_key_of_the_step) {
  const auto drawn = [](std::uint64_t seed) {
    auto batch = rewarded({1, 0, 1, 0});
    for (trajectory& t : batch) t.tokens.assign(51, 0), t.old_logp.assign(50, -0.25f);
    for (std::size_t k = 0; k < 10; ++k) batch[0].old_logp[5 * k] = 2, batch[2].old_logp[5 * k] = 2;
    const any_algorithm a(paper::clip_cov(), clip_covariance{.share = 0.02});
    a.advantages(batch, 2, random_key{seed});
    std::vector<float> all;
    for (const trajectory& t : batch) all.insert(all.end(), t.selected.begin(), t.selected.end());
    EXPECT_EQ(std::count(all.begin(), all.end(), 1.0f), 4);  // of 200 tokens; 20 have a covariance of 1.4
    return all;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(policy_algorithm, a_named_algorithm_is_taken_as_a_whole) {
  const any_algorithm grpo(algorithm{group_relative{}, ppo_clip{.low = 0.1, .high = 0.3}, token_mean{}});
  example a, b;
  grpo.loss(a.rows(), a.counts, a.dlogp, {});
  any_algorithm(group_relative{}, ppo_clip{.low = 0.1, .high = 0.3}, token_mean{})
      .loss(b.rows(), b.counts, b.dlogp, {});
  EXPECT_EQ(a.dlogp, b.dlogp);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
