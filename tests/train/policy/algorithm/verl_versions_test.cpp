// rlcore.verl: each version against the functions of its own release (tests/reference/verl_versions.py).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/config/algorithm/advantage_estimators.hpp"
#include "rlcore/config/algorithm/verl_version.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::policy_loss_settings;

const nlohmann::json& reference() {
  static const nlohmann::json golden = [] {
    std::ifstream in(std::string(RLCORE_REFERENCE_DIR) + "/verl_versions.json");
    return nlohmann::json::parse(in);
  }();
  return golden;
}

train::aggregation_settings settings_of(std::size_t version) {
  return {reference().at("width").get<double>(), static_cast<verl::version>(version)};
}

TEST(verl_versions, gspo_and_aggregations_are_those_of_each_release) {
  const nlohmann::json& all = reference();
  std::vector<std::int32_t> offsets{0};
  global_counts counts;
  for (const std::int32_t n : all.at("lengths")) offsets.push_back(offsets.back() + n), counts.add_row(n);
  const auto logp = all.at("logp").get<std::vector<float>>(), old_logp = all.at("old_logp").get<std::vector<float>>(),
             advantage = all.at("advantage").get<std::vector<float>>();
  const policy_rows rows{.offsets = offsets, .logp = logp, .old_logp = old_logp, .advantage = advantage};
  for (std::size_t v = 0; v < train::verl_versions.size(); ++v) {
    const std::string version(train::verl_versions[v]);
    const nlohmann::json& want = all.at("versions").at(version);
    for (const auto& [mode, loss] : want.at("gspo").items()) {
      policy_loss_settings s{.mode = "gspo", .clip = {.clip_low = 0.1, .clip_high = 0.15}};
      s.version = static_cast<verl::version>(v);
      s.aggregation =
          train::aggregation_words::visit("mode", mode, [&](auto row) { return row.compose(settings_of(v)); });
      std::vector<float> slope(logp.size());
      const auto report = train::algorithm_of(s).loss(rows, counts, slope, {});
      EXPECT_NEAR(report.policy_loss(), loss.at("loss").get<double>(), 2e-7 * (1 + std::abs(report.policy_loss())))
          << version << mode;
      for (std::size_t i = 0; i < slope.size(); ++i)
        EXPECT_NEAR(slope[i], loss.at("gradient")[i].get<double>(), 1e-6) << version << mode << i;
    }
    for (const auto& [mode, value] : want.at("aggregation").items()) {
      const any_aggregation mean =
          train::aggregation_words::visit("mode", mode, [&](auto row) { return row.compose(settings_of(v)); });
      double total = 0;
      for (std::size_t r = 0; r + 1 < offsets.size(); ++r)
        for (std::int32_t i = offsets[r]; i < offsets[r + 1]; ++i)
          total -= static_cast<double>(logp[static_cast<std::size_t>(i)]) *
                   mean.weight({.tokens = offsets[r + 1] - offsets[r]}, counts);
      EXPECT_NEAR(total, value.get<double>(), 1e-7 * std::abs(total)) << version << mode;
    }
  }
}

double number(const nlohmann::json& x) {
  if (x.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!x.is_string()) return x.get<double>();
  return x == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

/// A batch of "losses" without its masked slots, and what verl made of it.
struct loss_batch {
  const nlohmann::json& golden;
  std::vector<std::int32_t> offsets{0};
  std::vector<float> logp, old_logp, ref_logp, entropy, token_advantage, advantage, selected;
  global_counts counts;

  explicit loss_batch(const nlohmann::json& from) : golden(from) {
    for (std::size_t row = 0; row < from.at("mask").size(); ++row) {
      advantage.push_back(0);
      for (std::size_t t = 0; t < from.at("mask")[row].size(); ++t) {
        if (from.at("mask")[row][t] == 0) continue;
        const auto read = [&, row, t](const char* key) { return static_cast<float>(number(from.at(key)[row][t])); };
        logp.push_back(read("logp")), old_logp.push_back(read("old_logp")), ref_logp.push_back(read("ref_logp"));
        entropy.push_back(read("entropy")), token_advantage.push_back(read("advantage"));
        advantage.back() = token_advantage.back();
      }
      offsets.push_back(static_cast<std::int32_t>(logp.size()));
      counts.add_row(offsets.end()[-1] - offsets.end()[-2]);
    }
    selected.resize(logp.size());
  }
  policy_rows rows() const {
    policy_rows r;
    r.offsets = offsets, r.logp = logp, r.old_logp = old_logp, r.ref_logp = ref_logp;
    r.entropy = entropy, r.selected = selected;
    if (golden.at("by_token"))
      r.token_advantage = token_advantage;
    else
      r.advantage = advantage;
    return r;
  }
  /// verl's numbers, or null where this version has none.
  const nlohmann::json& want(std::string version, const std::string& loss, const std::string& mode) const {
    static const nlohmann::json none;
    for (;;) {
      const nlohmann::json& all = golden.at("versions").at(version);
      if (!all.contains(loss) || !all.at(loss).contains(mode)) return none;
      const nlohmann::json& entry = all.at(loss).at(mode);
      if (!entry.is_string()) return entry;
      version = entry;
    }
  }
};

policy_loss_settings settings_of(const loss_batch& b, const std::string& loss, const std::string& mode, std::size_t v) {
  const auto clip = b.golden.at("clip").get<std::vector<double>>();
  policy_loss_settings s{.mode = loss, .clip = {.clip_low = clip[0], .clip_high = clip[1], .clip_c = clip[2]}};
  s.version = static_cast<verl::version>(v);
  s.clip_cov = {.low = 0.25, .high = 5, .share = 1}, s.kl_cov = {.share = 0.25}, s.ppo_kl_coef = 0.5, s.dro_beta = 0.75;
  s.aggregation = train::aggregation_words::visit("mode", mode, [&](auto row) {
    return row.compose({static_cast<double>(b.golden.at("mask")[0].size()), s.version});
  });
  return s;
}

/// `got` is verl's number to float's digits; a NaN of verl's asks for nothing, and neither does what comes with such a
/// loss.
void expect_number(double got, const nlohmann::json& want, double scale, const char* what) {
  const double x = number(want);
  if (std::isnan(x)) return;
  if (std::isinf(x))
    EXPECT_EQ(got, x) << what;
  else
    EXPECT_NEAR(got, x, 2e-6 * (std::abs(x) + scale)) << what;
}

void expect_policy(const loss_batch& b, const policy_loss_settings& s, const nlohmann::json& want) {
  std::vector<float> slope(b.logp.size(), 7);
  const policy_report report = train::algorithm_of(s).loss(b.rows(), b.counts, slope, {});
  if (want.at("loss").is_null()) return;
  double scale = 1;
  for (std::size_t i = 0; i < slope.size(); ++i) {
    const nlohmann::json& expected = want.at("gradient")[i];
    expect_number(slope[i], expected, 0.2, "gradient");
    if (std::isfinite(number(expected))) scale += std::abs(number(expected));
  }
  expect_number(report.policy_loss(), want.at("loss"), scale, "loss");
  expect_number(report.clip_fraction(), want.at("pg_clipfrac"), 0, "pg_clipfrac");
  expect_number(report.clip_fraction_lower(), want.at("pg_clipfrac_lower"), 0, "pg_clipfrac_lower");
  if (want.contains("ppo_kl")) expect_number(report.ppo_kl_mean(), want.at("ppo_kl"), 20, "ppo_kl");
}

/// KL and entropy add their own numbers and slopes to any policy loss.
void expect_penalties(const loss_batch& b, policy_loss_settings s, const nlohmann::json& policy,
                      const nlohmann::json& want) {
  std::string word = b.golden.at("kl");
  s.straight_through = word.back() == '+';
  if (s.straight_through) word.pop_back();
  s.kl = word == "k1" ? kl_kind::k1 : word == "abs" ? kl_kind::abs_kl : word == "k2" ? kl_kind::k2 : kl_kind::k3;
  s.use_kl = true, s.kl_coef = 0.5, s.entropy_coeff = 0.25;
  std::vector<float> slope(b.logp.size(), 7), by_entropy(b.logp.size(), 7);
  const policy_report report = train::algorithm_of(s).loss(b.rows(), b.counts, slope, by_entropy);
  expect_number(report.kl_loss(), want.at("kl"), 1, "kl");
  expect_number(report.entropy_value(), want.at("entropy"), 0, "entropy");
  double entropy = 0;
  for (std::size_t i = 0; i < slope.size(); ++i) {
    entropy -= static_cast<double>(by_entropy[i] * b.entropy[i]);
    if (policy.at("loss").is_null()) continue;
    const double of_policy = number(policy.at("gradient")[i]), of_kl = number(want.at("gradient")[i]);
    expect_number(slope[i], of_policy + 0.5 * of_kl, 0.2 + std::abs(of_policy) + std::abs(of_kl), "gradient with KL");
  }
  expect_number(entropy / 0.25, want.at("entropy"), 1, "slope by the entropy");
}

TEST(verl_versions, every_loss_mode_and_loss_agg_mode_is_that_of_each_release) {
  std::size_t compared = 0;
  for (std::size_t k = 0; k < reference().at("losses").size(); ++k) {
    loss_batch b(reference().at("losses")[k]);
    for (std::size_t v = 0; v < train::verl_versions.size(); ++v)
      for (const char* loss :
           {"vanilla", "gspo", "gpg", "clip_cov", "kl_cov", "geo_mean", "sapo", "cispo", "dppo_tv", "dppo_kl", "dro"})
        for (const char* mode :
             {"token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
          const std::string version(train::verl_versions[v]);
          const nlohmann::json& want = b.want(version, loss, mode);
          if (want.is_null()) continue;
          SCOPED_TRACE(testing::Message() << "batch " << k << ", " << version << ", " << loss << ", " << mode);
          policy_loss_settings s = settings_of(b, loss, mode, v);
          b.selected.assign(b.logp.size(), 1);  // what was selected before limits the choice
          if (s.mode == "clip_cov")
            select(train::named::clip_cov::selection(s), batch_of(b.rows()), flat_view(std::span(b.selected)));
          if (s.mode == "kl_cov")
            select(train::named::kl_cov::selection(s), batch_of(b.rows()), flat_view(std::span(b.selected)));
          expect_policy(b, s, want);
          const nlohmann::json& penalties = b.want(version, "penalties", mode);
          if (!penalties.is_null()) expect_penalties(b, s, want, penalties);
          ++compared;
        }
  }
  EXPECT_GE(compared, 150 * reference().at("losses").size() / 2);
}

TEST(verl_versions, returns_end_at_other_tokens_through_0_8_0) {
  const nlohmann::json& turns = reference().at("turns");
  const auto reward = turns.at("reward").get<std::vector<float>>();
  const auto live = turns.at("mask").get<std::vector<std::uint8_t>>();
  const extents<2> shape{turns.at("rows").get<extent_t>(), turns.at("tokens").get<extent_t>()};
  for (std::size_t v = 0; v < train::verl_versions.size(); ++v) {
    const auto estimator = train::named::reinforce_plus_plus::compose(
        {.gamma = turns.at("gamma").get<double>(), .version = static_cast<verl::version>(v)});
    std::vector<float> advantages(live.size()), returns(live.size());
    estimator(matrix_view<const float>(reward.data(), shape),
              token_mask(matrix_view<const std::uint8_t>(live.data(), shape)),
              matrix_view<float>(advantages.data(), shape), matrix_view<float>(returns.data(), shape));
    const nlohmann::json& want =
        reference().at("versions").at(std::string(train::verl_versions[v])).at("reinforce_plus_plus");
    std::size_t at = 0;
    for (std::size_t i = 0; i < live.size(); ++i) {
      if (!live[i]) continue;
      EXPECT_NEAR(advantages[i], want.at("advantages")[at].get<double>(), 2e-6) << v << i;
      EXPECT_NEAR(returns[i], want.at("returns")[at++].get<double>(), 1e-6) << v << i;
    }
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
