// Console lines and reductions against Python (tests/reference/trainer_metrics.py) and against a published log line.
#include "rlcore/telemetry/metrics.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "rlcore/telemetry/metric_names.hpp"
#include "rlcore/train/evaluation/validation_metrics.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

const nlohmann::ordered_json& golden() {
  static const auto data = nlohmann::ordered_json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/trainer_metrics.json"));
  return data;
}

TEST(metrics, numbers_are_printed_as_python_prints_them) {
  for (const auto& pair : golden()["numbers"]) {
    const double x =
        std::bit_cast<double>(static_cast<std::uint64_t>(std::stoull(pair[0].get<std::string>(), nullptr, 16)));
    EXPECT_EQ(real_text(x), pair[1].get<std::string>());
  }
}

TEST(metrics, console_line) {
  metrics m;
  m.set("actor/lr", 1e-6);
  m.set("training/global_step", 3);
  m.set("critic/rewards/mean", 0.5f);
  m.set("perf/throughput", 69.39390000000001);
  m.set("actor/grad_norm", std::nan(""));
  EXPECT_EQ(console_line(3, m), golden()["line"].get<std::string>());
  EXPECT_EQ(console_line(0, {}), "step:0");
}

TEST(metrics, keeps_order_and_place) {
  metrics m, more;
  m.set("b", 1);
  m.set("a", 2.5);
  m.set("b", std::size_t{7});
  more.set("c", true);
  more.set("a", 1);
  m.merge(more);
  EXPECT_EQ(console_line(1, m), "step:1 - b:7 - a:1 - c:1");
  EXPECT_EQ(m.get("b"), 7);
  EXPECT_TRUE(std::isnan(m.get("nosuch")));
  EXPECT_TRUE(m.contains("c"));
}

TEST(metrics, reduce_by_name) {
  const std::vector<double> xs = {1, 4, 2.5};
  EXPECT_EQ(reduce_metric("x/max", xs), 4);
  EXPECT_EQ(reduce_metric("min_x", xs), 1);
  EXPECT_EQ(reduce_metric("actor/pg_loss", xs), 2.5);
  EXPECT_TRUE(std::isnan(reduce_metric("x", {})));
}

// 1024 trajectories of 7385.140625 + 152.890625 tokens in 1738.027497 s on 64 devices, printed as 69.3939 tokens/s;
// generation 1315.24517 s, printed as 0.17391938503519522 ms per token.
TEST(metrics, published_log_line) {
  EXPECT_NEAR(throughput((7385.140625 + 152.890625) * 1024, 1738.027497, 64), 69.3939, 5e-5);
  EXPECT_NEAR(milliseconds_per_token(1315.24517, 7385.140625 * 1024), 0.17391938503519522, 1e-9);
}

TEST(metrics, memory_of_this_process) {
  const double gib = resident_memory_gib();
  EXPECT_GT(gib, 0.0005);
  EXPECT_LT(gib, 16);
}

TEST(validation_scores, equal_the_enumeration_of_all_draws) {
  for (const auto& test : golden()["validation"]) {
    validation_scores scores;
    std::uint64_t prompt = 0;
    for (const auto& group : test["groups"]) {
      for (const double x : group) scores.add("openai/gsm8k", prompt, x);
      ++prompt;
    }
    metrics m;
    scores.write(m);
    EXPECT_EQ(m.size(), test["expected"].size());
    const std::size_t n = test["groups"][0].size();
    for (const auto& [name, expected] : test["expected"].items()) {
      const bool core = name.find("@" + std::to_string(n)) != std::string::npos &&
                        (name.starts_with("mean") || name.starts_with("best"));
      const std::string full = (core ? "val-core/openai/gsm8k/reward/" : "val-aux/openai/gsm8k/reward/") + name;
      EXPECT_NEAR(m.get(full), expected.get<double>(), 1e-12) << full;
      EXPECT_TRUE(is_defined_metric(full)) << full;
    }
  }
}

TEST(validation_scores, accuracy_is_the_core_field_where_there_is_one) {
  validation_scores scores;
  scores.add("math_dapo", 0, -1);
  scores.add("math_dapo", 0, 0, "acc");
  scores.add("openai/gsm8k", 1, 1);
  metrics m;
  scores.write(m);
  EXPECT_EQ(console_line(0, m),
            "step:0 - val-aux/math_dapo/reward/mean@1:-1.0 - val-core/math_dapo/acc/mean@1:0.0 - "
            "val-core/openai/gsm8k/reward/mean@1:1.0");
}

TEST(majority_of, equals_the_enumeration_of_all_draws) {
  for (const auto& test : golden()["votes"]) {
    std::vector<std::int32_t> answers;
    for (const char c : test["preds"].get<std::string>()) answers.push_back(c - 'a');
    const std::vector<double> values = test["values"];
    for (const auto& [k, expected] : test["expected"].items()) {
      const auto [mean, deviation] = majority_of(values, answers, std::stoi(k));
      EXPECT_NEAR(mean, expected[0].get<double>(), 1e-12) << test["preds"] << k;
      EXPECT_NEAR(deviation, expected[1].get<double>(), 1e-7) << test["preds"] << k;
    }
  }
}

// Of 2 N samples with every answer twice as often the chances are the same; above 64 samples they are estimated.
TEST(majority_of, large_numbers) {
  std::vector<double> values;
  std::vector<std::int32_t> answers;
  for (int i = 0; i < 60; ++i) {
    answers.push_back(i % 4 == 3 ? 100 + i : i % 3);
    values.push_back(answers.back() == 1);
  }
  const auto exact = majority_of(values, answers, 16);
  values.insert(values.end(), values.begin(), values.begin() + 60);
  answers.insert(answers.end(), answers.begin(), answers.begin() + 60);
  for (std::size_t i = 60; i < 120; ++i)
    if (answers[i] >= 100) answers[i] = answers[i - 60];
  const auto estimate = majority_of(values, answers, 16);
  EXPECT_NEAR(estimate.first, exact.first, 4 * exact.second / std::sqrt(1000.0));
  EXPECT_EQ(majority_of(values, answers, 16), estimate);
}

TEST(validation_scores, votes_are_counted_where_there_are_answers) {
  validation_scores scores;
  using rlcore::verify::reason;
  scores.add("math_dapo", 0, {1, reason::correct, true, "5"});
  scores.add("math_dapo", 0, {-1, reason::wrong, false, "6"});
  scores.add("math_dapo", 0, {1, reason::correct, true, "5"});
  scores.add("math_dapo", 1, {-1, reason::no_match, false, std::nullopt});
  scores.add("math_dapo", 1, {-1, reason::no_match, false, std::nullopt});
  scores.add("math_dapo", 1, {1, reason::correct, true, "7"});
  scores.add("other", 0, 1);
  scores.add("other", 0, 0);
  metrics m;
  scores.write(m);
  // Two of three: with 3 draws the majority is right in 20 of 27 cases, with 2 in 2 of 3.
  EXPECT_NEAR(m.get("val-core/math_dapo/acc/maj@3/mean"), (20.0 / 27 + 7.0 / 27) / 2, 1e-12);
  EXPECT_NEAR(m.get("val-aux/math_dapo/acc/maj@2/mean"), (2.0 / 3 + 1.0 / 3) / 2, 1e-12);
  EXPECT_TRUE(m.contains("val-aux/math_dapo/reward/maj@3/std"));
  EXPECT_TRUE(is_defined_metric("val-core/math_dapo/acc/maj@3/mean"));
  EXPECT_FALSE(m.contains("val-core/other/reward/maj@2/mean"));
}

TEST(validation_scores, samples_may_come_in_any_order) {
  validation_scores mixed, sorted;
  for (int k = 0; k < 3; ++k)
    for (std::uint64_t p = 0; p < 4; ++p)
      mixed.add("x", p, static_cast<double>((p + 1) * static_cast<std::uint64_t>(k)));
  for (std::uint64_t p = 0; p < 4; ++p)
    for (int k = 0; k < 3; ++k) sorted.add("x", p, static_cast<double>((p + 1) * static_cast<std::uint64_t>(k)));
  metrics a, b;
  mixed.write(a);
  sorted.write(b);
  EXPECT_EQ(console_line(0, a), console_line(0, b));
}

TEST(metric_names, patterns) {
  EXPECT_TRUE(is_defined_metric("critic/rewards/mean"));
  EXPECT_FALSE(is_defined_metric("critic/rewards/median"));
  EXPECT_TRUE(is_defined_metric("val-aux/openai/gsm8k/reward/worst@4/std"));
  EXPECT_FALSE(is_defined_metric("timing_s/nosuch"));
  std::string many = "val-core/";
  for (int i = 0; i < 110; ++i) many += "a/b@1/";
  EXPECT_FALSE(is_defined_metric(many + "mean@")) << "in no time";
  EXPECT_TRUE(is_defined_metric(many + "mean@1"));
}

// docs/metrics.md is generated; RLCORE_UPDATE_DOCS=1 writes it.
TEST(metric_names, documentation_is_up_to_date) {
  const std::string path = RLCORE_REFERENCE_DIR "/../../docs/metrics.md";
  if (std::getenv("RLCORE_UPDATE_DOCS") != nullptr) std::ofstream(path) << metrics_markdown();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), metrics_markdown()) << "run this test with RLCORE_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace RLCORE_TEST_ID
