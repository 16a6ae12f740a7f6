// rlcore.verl: each version against the functions of its own release (tests/reference/verl_versions.py).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/config/algorithm/advantage_estimators.hpp"
#include "rlcore/config/algorithm/verl_version.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/trainer/policy/algorithm/make_policy_loss.hpp"

namespace {

using namespace rlcore;
using trainer::policy_loss_settings;

const nlohmann::json& reference() {
  static const nlohmann::json golden = [] {
    std::ifstream in(std::string(RLCORE_REFERENCE_DIR) + "/verl_versions.json");
    return nlohmann::json::parse(in);
  }();
  return golden;
}

trainer::aggregation_settings settings_of(std::size_t version) {
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
  for (std::size_t v = 0; v < trainer::verl_versions.size(); ++v) {
    const std::string version(trainer::verl_versions[v]);
    const nlohmann::json& want = all.at("versions").at(version);
    for (const auto& [mode, loss] : want.at("gspo").items()) {
      policy_loss_settings s{.mode = "gspo", .clip = {.clip_low = 0.1, .clip_high = 0.15}};
      s.version = static_cast<verl::version>(v);
      s.aggregation =
          trainer::aggregation_words::visit("mode", mode, [&](auto row) { return row.compose(settings_of(v)); });
      std::vector<float> slope(logp.size());
      const auto report = trainer::make_policy_loss(s).loss(rows, counts, slope, {});
      EXPECT_NEAR(report.policy_loss(), loss.at("loss").get<double>(), 2e-7 * (1 + std::abs(report.policy_loss())))
          << version << mode;
      for (std::size_t i = 0; i < slope.size(); ++i)
        EXPECT_NEAR(slope[i], loss.at("gradient")[i].get<double>(), 1e-6) << version << mode << i;
    }
    for (const auto& [mode, value] : want.at("aggregation").items()) {
      const any_aggregation mean =
          trainer::aggregation_words::visit("mode", mode, [&](auto row) { return row.compose(settings_of(v)); });
      double total = 0;
      for (std::size_t r = 0; r + 1 < offsets.size(); ++r)
        for (std::int32_t i = offsets[r]; i < offsets[r + 1]; ++i)
          total -= static_cast<double>(logp[static_cast<std::size_t>(i)]) *
                   mean.weight({.tokens = offsets[r + 1] - offsets[r]}, counts);
      EXPECT_NEAR(total, value.get<double>(), 1e-7 * std::abs(total)) << version << mode;
    }
  }
}

TEST(verl_versions, returns_end_at_other_tokens_through_0_8_0) {
  const nlohmann::json& turns = reference().at("turns");
  const auto reward = turns.at("reward").get<std::vector<float>>();
  const auto live = turns.at("mask").get<std::vector<std::uint8_t>>();
  const extents<2> shape{turns.at("rows").get<extent_t>(), turns.at("tokens").get<extent_t>()};
  for (std::size_t v = 0; v < trainer::verl_versions.size(); ++v) {
    const auto estimator = trainer::named::reinforce_plus_plus::compose(
        {.gamma = turns.at("gamma").get<double>(), .version = static_cast<verl::version>(v)});
    std::vector<float> advantages(live.size()), returns(live.size());
    estimator(matrix_view<const float>(reward.data(), shape),
              token_mask(matrix_view<const std::uint8_t>(live.data(), shape)),
              matrix_view<float>(advantages.data(), shape), matrix_view<float>(returns.data(), shape));
    const nlohmann::json& want =
        reference().at("versions").at(std::string(trainer::verl_versions[v])).at("reinforce_plus_plus");
    std::size_t at = 0;
    for (std::size_t i = 0; i < live.size(); ++i) {
      if (!live[i]) continue;
      EXPECT_NEAR(advantages[i], want.at("advantages")[at].get<double>(), 2e-6) << v << i;
      EXPECT_NEAR(returns[i], want.at("returns")[at++].get<double>(), 1e-6) << v << i;
    }
  }
}

}  // namespace
