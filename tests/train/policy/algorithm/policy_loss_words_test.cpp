// The policy loss that a word names against the algorithm of namespace verl with the same name, which is held against
// verl itself.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/verl.hpp"
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::policy_loss_settings;

/// Rows of 3, 1, 0, 7 and 40 tokens.
struct example {
  std::vector<std::int32_t> offsets{0, 3, 4, 4, 11, 51};
  std::vector<float> logp, old_logp, ref_logp, entropy, selected, advantage{1, -0.5f, 2, -1.5f, 0.25f}, by_token;
  global_counts counts;

  example() {
    const random_key key{6};
    for (std::uint32_t i = 0; i < 51; ++i) {
      const auto u = [&](std::uint32_t what) { return static_cast<float>(key.below(10'000, i, what)) * 1e-4f; };
      logp.push_back(-3 * u(0) - 0.01f), old_logp.push_back(logp[i] + 1.6f * u(1) - 0.8f);
      ref_logp.push_back(logp[i] + u(2) - 0.5f), entropy.push_back(2 * u(3));
      selected.push_back(u(4) < 0.2f ? 1.f : 0.f), by_token.push_back(2 * u(5) - 1);
    }
    for (std::size_t r = 0; r + 1 < offsets.size(); ++r) counts.add_row(offsets[r + 1] - offsets[r]);
  }
  policy_rows rows() const {
    policy_rows b;
    b.offsets = offsets, b.logp = logp, b.old_logp = old_logp, b.ref_logp = ref_logp, b.advantage = advantage;
    b.selected = selected;
    return b;
  }
};

constexpr verl::clip_settings clip{.clip_low = 0.2, .clip_high = 0.28};

policy_loss_settings loss_of(const char* word) { return {.mode = word, .clip = clip}; }

policy_report evaluated(const policy_loss_settings& s, const policy_rows& rows, const global_counts& step,
                        std::span<float> dlogp, std::span<float> dentropy = {}) {
  return train::algorithm_of(s).loss(rows, step, dlogp, dentropy);
}

template <class Named, class Aggregation>
void expect_same(const policy_loss_settings& loss, const Named& named, const Aggregation& aggregation, bool by_token) {
  const example e;
  policy_rows rows = e.rows();
  if (by_token) rows.token_advantage = e.by_token;
  std::vector<float> slope(51, 7.f), expected(51, 7.f);
  const policy_report report = evaluated(loss, rows, e.counts, slope);
  token_batch<float> batch{.logp = e.logp, .old_logp = e.old_logp, .selected = e.selected};
  if (by_token)
    batch.advantage = e.by_token;
  else
    batch.advantage = per_row(e.advantage);
  batch.offsets = e.offsets;
  const auto r = evaluate(serial{}, named, aggregation, batch, e.counts, {.logp = expected});
  EXPECT_NEAR(report.policy_loss(), r.loss(), 1e-6 * (1 + std::abs(r.loss())));
  for (std::size_t i = 0; i < 51; ++i) EXPECT_NEAR(slope[i], expected[i], 1e-7 + 2e-6 * std::abs(expected[i])) << i;
  double kl = 0;
  for (std::size_t i = 0; i < 51; ++i) {
    const double d = static_cast<double>(e.old_logp[i]) - static_cast<double>(e.logp[i]);
    kl += (loss.mode == "kl_cov" ? std::abs(d) : d) / 51;
  }
  EXPECT_NEAR(report.ppo_kl_mean(), kl, 1e-6);
  EXPECT_EQ(report.tokens, 51);
}

TEST(policy_loss_words, equal_the_bundles) {
  for (const bool by_token : {false, true}) {
    expect_same(loss_of("gspo"), verl::gspo(clip), token_mean{}, by_token);
    expect_same(loss_of("gpg"), verl::gpg(), token_mean{}, by_token);
    expect_same(loss_of("clip_cov"), verl::clip_cov(clip), token_mean{}, by_token);
    expect_same(loss_of("kl_cov"), verl::kl_cov(), token_mean{}, by_token);
    expect_same(loss_of("sapo"), verl::sapo(), row_mean_token_mean{}, by_token);
    expect_same(loss_of("cispo"), verl::cispo(clip), token_mean{}, by_token);
    expect_same(loss_of("dppo_tv"), verl::dppo_tv(clip), token_mean{}, by_token);
    expect_same(loss_of("dppo_kl"), verl::dppo_kl(clip), token_mean{}, by_token);
    policy_loss_settings dro = loss_of("dro");
    dro.dro_beta = 0.5;
    expect_same(dro, verl::dro(0.5), token_mean{}, by_token);
  }
  expect_same(loss_of("geo_mean"), verl::gmpo(clip), row_mean_token_mean{}, false);
}

TEST(policy_loss_words, settings_reach_the_loss) {
  policy_loss_settings loss = loss_of("sapo");
  loss.gate = {.temperature_positive = 2, .temperature_negative = 3};
  expect_same(loss, verl::sapo({.temperature_positive = 2, .temperature_negative = 3}), row_mean_token_mean{}, false);
  loss = loss_of("kl_cov");
  loss.ppo_kl_coef = 0.5;
  expect_same(loss, verl::kl_cov(0.5), token_mean{}, false);
  loss = loss_of("gpg");
  loss.aggregation = sequence_mean_token_sum{};
  expect_same(loss, verl::gpg(), sequence_mean_token_sum{}, false);
}

/// KL and entropy are added with loss_agg_mode, also where the policy loss has an average of its own.
TEST(policy_loss_words, penalties_are_those_of_the_vanilla_loss) {
  const example e;
  policy_rows rows = e.rows();
  rows.entropy = e.entropy;
  for (const bool with_kl : {false, true})
    for (const char* word : {"gspo", "gpg"}) {
      policy_loss_settings loss = loss_of(word), vanilla;
      loss.use_kl = vanilla.use_kl = with_kl;
      loss.kl_coef = vanilla.kl_coef = 0.25, loss.entropy_coeff = vanilla.entropy_coeff = 0.125;
      std::vector<float> alone(51), with(51), by_entropy(51), plain(51), penalised(51), by_entropy_too(51);
      policy_rows bare = e.rows();
      bare.ref_logp = {};
      evaluated(loss_of(word), bare, e.counts, alone);
      const policy_report r = evaluated(loss, rows, e.counts, with, by_entropy);
      evaluated({}, bare, e.counts, plain);
      const policy_report v = evaluated(vanilla, rows, e.counts, penalised, by_entropy_too);
      EXPECT_EQ(r.kl_loss(), v.kl_loss());
      EXPECT_EQ(r.kl_coefficient, v.kl_coefficient);
      EXPECT_EQ(r.entropy_value(), v.entropy_value());
      EXPECT_EQ(by_entropy, by_entropy_too);
      for (std::size_t i = 0; i < 51; ++i) EXPECT_NEAR(with[i] - alone[i], penalised[i] - plain[i], 1e-7) << i;
    }
}

/// A response without a chance under the policy, and entropy without KL: no infinity may meet a coefficient of 0.
TEST(policy_loss_words, a_term_that_is_switched_off_makes_no_nan) {
  example e;
  e.logp[5] = -std::numeric_limits<float>::infinity();
  policy_rows rows = e.rows();
  rows.ref_logp = {}, rows.entropy = e.entropy;
  policy_loss_settings loss = loss_of("gspo");
  loss.entropy_coeff = 0.125;
  std::vector<float> slope(51), by_entropy(51);
  const policy_report r = evaluated(loss, rows, e.counts, slope, by_entropy);
  EXPECT_TRUE(std::isfinite(r.entropy_value()));
  for (const float d : by_entropy) EXPECT_TRUE(std::isfinite(d));
}

TEST(policy_loss_words, vanilla_takes_token_advantages) {
  const example e;
  policy_rows rows = e.rows();
  std::vector<float> expected(51), slope(51), repeated;
  evaluated({}, rows, e.counts, expected);
  for (std::size_t r = 0; r + 1 < e.offsets.size(); ++r)
    repeated.insert(repeated.end(), static_cast<std::size_t>(e.offsets[r + 1] - e.offsets[r]), e.advantage[r]);
  rows.token_advantage = repeated, rows.advantage = {};
  evaluated({}, rows, e.counts, slope);
  EXPECT_EQ(slope, expected);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
