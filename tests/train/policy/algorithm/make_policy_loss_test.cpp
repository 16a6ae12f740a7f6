// The run-time choices lead to the compositions they name.
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>

#include "objective/golden.hpp"
#include "rlcore/config/algorithm/policy_losses.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

/// The golden batch without its masked slots.
struct packed_golden {
  std::vector<std::int32_t> offsets{0};
  std::vector<float> logp, old_logp, ref_logp, entropy, advantage, dlogp, dentropy;
  std::vector<std::size_t> slot;  // where each token lies in the rectangle
  global_counts counts;

  packed_golden() {
    golden_batch<float> g;
    advantage = g.advantage;
    for (extent_t i = 0; i < g.rows; ++i) {
      for (extent_t t = 0; t < g.tokens; ++t) {
        const auto k = static_cast<std::size_t>(i * g.tokens + t);
        if (!g.mask[k]) continue;
        slot.push_back(k);
        logp.push_back(g.logp[k]), old_logp.push_back(g.old_logp[k]), ref_logp.push_back(g.ref_logp[k]);
        entropy.push_back(g.entropy[k]);
      }
      offsets.push_back(static_cast<std::int32_t>(logp.size()));
      counts.add_row(offsets.end()[-1] - offsets.end()[-2]);
    }
    dlogp.assign(logp.size(), -7.0f), dentropy = dlogp;
  }
  policy_rows rows() const {
    return {.offsets = offsets,
            .logp = logp,
            .old_logp = old_logp,
            .ref_logp = ref_logp,
            .advantage = advantage,
            .entropy = entropy};
  }
};

using train::policy_loss_settings;

policy_report evaluated(const policy_loss_settings& s, const policy_rows& rows, const global_counts& step,
                        std::span<float> dlogp, std::span<float> dentropy = {}) {
  return train::algorithm_of(s).loss(rows, step, dlogp, dentropy);
}

const policy_loss_settings verl{.clip = {.clip_high = 0.28}, .use_kl = true, .kl_coef = 0.05, .entropy_coeff = 0.01};

TEST(make_policy_loss, equals_pytorch) {
  packed_golden g;
  const auto& want = golden()["pieces"];
  for (const auto& [aggregation, name] :
       {std::pair<any_aggregation, const char*>{token_mean{}, "token_mean"},
        {sequence_mean_token_mean{}, "sequence_mean_token_mean"},
        {sequence_mean_token_sum{}, "sequence_mean_token_sum"},
        {fixed_length{48}, "fixed_length"}}) {  // words and versions: verl_versions_test.cpp
    policy_loss_settings loss = verl;
    loss.aggregation = aggregation;
    const policy_report r = evaluated(loss, g.rows(), g.counts, g.dlogp, g.dentropy);
    const auto near = [&, name = name](double got, double expected) {
      EXPECT_NEAR(got, expected, 1e-6 * std::abs(expected)) << name;
    };
    near(r.loss(), want["verl"]["loss"][name]);
    near(r.policy_loss(), want["dual_clipped_ratio"]["loss"][name]);
    near(r.kl_loss(), want["clamped_k3"]["loss"][name]);
    near(r.entropy_value(), want["entropy"]["loss"][name]);
    if (!want["verl"]["logp_gradient"].contains(name)) continue;
    for (std::size_t k = 0; k < g.slot.size(); ++k) {
      const double gradient = want["verl"]["logp_gradient"][name][g.slot[k]];
      EXPECT_NEAR(static_cast<double>(g.dlogp[k]), gradient, 1e-6 * (std::abs(gradient) + 1.0 / 89));
      EXPECT_NEAR(static_cast<double>(g.dentropy[k]), want["verl"]["entropy_gradient"][name][g.slot[k]].get<double>(),
                  1e-9);
    }
  }
  const policy_report r = evaluated(verl, g.rows(), g.counts, g.dlogp, g.dentropy);
  EXPECT_NEAR(r.clip_fraction(), golden()["metrics"]["clipfrac"], 1e-12);
  EXPECT_NEAR(r.clip_fraction_lower(), golden()["metrics"]["clipfrac_lower"], 1e-12);
  EXPECT_NEAR(r.ppo_kl_mean(), golden()["metrics"]["ppo_kl"], 1e-6);
}

TEST(make_policy_loss, has_every_kl_estimator) {
  packed_golden g;
  for (const auto& [kind, name] : {std::pair{kl_kind::k1, "k1"},
                                   {kl_kind::abs_kl, "absolute"},
                                   {kl_kind::k2, "k2"},
                                   {kl_kind::k3, "clamped_k3"}}) {
    const auto& want = golden()["pieces"];
    for (const bool straight : {false, true}) {
      const policy_loss_settings loss{
          .clip = {.clip_high = 0.28}, .use_kl = true, .kl = kind, .straight_through = straight, .kl_coef = 1.0};
      const policy_report r = evaluated(loss, g.rows(), g.counts, g.dlogp, g.dentropy);
      EXPECT_NEAR(r.kl_loss(), want[name]["loss"]["token_mean"], 1e-6 * (1 + std::abs(r.kl_loss()))) << name;
      const auto& slope = want[straight ? "k2" : name]["logp_gradient"]["token_mean"];
      const auto& policy = want["dual_clipped_ratio"]["logp_gradient"]["token_mean"];
      for (std::size_t k = 0; k < g.slot.size(); ++k) {
        const double expected = slope[g.slot[k]].get<double>() + policy[g.slot[k]].get<double>();
        EXPECT_NEAR(static_cast<double>(g.dlogp[k]), expected, 2e-6 * (std::abs(expected) + 1.0 / 89)) << name << k;
      }
      for (const float d : g.dentropy) EXPECT_EQ(d, 0.0f);  // the loss has no entropy
    }
  }
}

TEST(make_policy_loss, needs_only_what_it_uses) {
  packed_golden g;
  auto rows = g.rows();
  rows.ref_logp = {}, rows.entropy = {};
  const policy_loss_settings plain{}, with_kl{.use_kl = true}, with_entropy{.entropy_coeff = 0.1};
  EXPECT_EQ(evaluated(plain, rows, g.counts, g.dlogp).kl_loss(), 0);
  EXPECT_THROW(evaluated(with_kl, rows, g.counts, g.dlogp), std::invalid_argument);
  EXPECT_THROW(evaluated(with_entropy, rows, g.counts, g.dlogp, g.dentropy), std::invalid_argument);
  EXPECT_THROW(any_aggregation(fixed_length{0}), std::invalid_argument);
  EXPECT_THROW(train::algorithm_of(policy_loss_settings{.mode = "gspoo"}), config_error);
}

TEST(make_policy_loss, micro_batches_do_not_show) {
  packed_golden g;
  const policy_report whole = evaluated(verl, g.rows(), g.counts, g.dlogp, g.dentropy);
  const auto dlogp = g.dlogp, dentropy = g.dentropy;
  policy_report parts;
  for (std::size_t i = 6; i-- > 0;) {
    const auto begin = static_cast<std::size_t>(g.offsets[i]),
               size = static_cast<std::size_t>(g.offsets[i + 1]) - begin;
    const std::vector<std::int32_t> offsets{0, static_cast<std::int32_t>(size)};
    const auto cut = [&](auto& x) { return std::span(x).subspan(begin, size); };
    const policy_rows row{.offsets = offsets,
                          .logp = cut(g.logp),
                          .old_logp = cut(g.old_logp),
                          .ref_logp = cut(g.ref_logp),
                          .advantage = std::span(g.advantage).subspan(i, 1),
                          .entropy = cut(g.entropy)};
    parts += evaluated(verl, row, g.counts, cut(g.dlogp), cut(g.dentropy));
  }
  EXPECT_EQ(parts.loss(), whole.loss());
  EXPECT_EQ(parts.clip_fraction(), whole.clip_fraction());
  EXPECT_EQ(parts.ppo_kl_mean(), whole.ppo_kl_mean());
  EXPECT_EQ(std::memcmp(dlogp.data(), g.dlogp.data(), dlogp.size() * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(dentropy.data(), g.dentropy.data(), dentropy.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
