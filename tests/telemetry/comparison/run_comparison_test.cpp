// Comparing two runs: NumPy's figures, the published formula, what a log may look like.
#include "rlcore/telemetry/comparison/run_comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "data/scratch.hpp"
#include "rlcore/telemetry/comparison/run_log.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

std::vector<metric_row> curve(const std::string& key, const std::vector<double>& values, std::int64_t first = 1) {
  std::vector<metric_row> rows;
  for (const double x : values) {
    metrics m;
    m.set(key, x);
    rows.push_back({first++, m});
  }
  return rows;
}

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const rlcore::error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(run_comparison, says_how_many_steps_the_throughput_is_of) {
  const auto table = [](const std::vector<double>& a, const std::vector<double>& b) {
    const speed_ratio s = compare_speed(curve("perf/throughput", a), curve("perf/throughput", b));
    return run_comparison_table({"p", "q", {}, s}) + run_comparison_html({"p", "q", {}, s});
  };
  EXPECT_NE(table({4, 6}, {5, 5}).find("(5 / 5 tokens/s, mean of the first 2 steps)"), std::string::npos);
  EXPECT_NE(table({5}, {5}).find("mean of the first step)"), std::string::npos);
  EXPECT_NE(table({5}, {5, 5, 5, 5, 9}).find("mean of the first 1 and 4 steps)"), std::string::npos);
  EXPECT_NE(table({5, 5}, {5, 5, 5}).find(">first 2 and 3 steps<"), std::string::npos);
}

TEST(run_comparison, equals_numpy_on_random_logs) {
  const auto golden = nlohmann::json::parse(scratch::read(RLCORE_REFERENCE_DIR "/run_comparison.json"));
  const scratch::folder place;
  for (const auto& c : golden.at("cases")) {
    scratch::write(place / "a", c.at("a").get<std::string>());
    scratch::write(place / "b", c.at("b").get<std::string>());
    const auto a = read_run(place / "a"), b = read_run(place / "b");
    const curve_distance d = compare_curve(a, b, "critic/rewards/mean", c.at("limit").get<std::int64_t>());
    EXPECT_EQ(d.steps, c.at("steps").get<std::int64_t>());
    EXPECT_NEAR(d.mean_error, c.at("mean_error").get<double>(), 1e-12);
    EXPECT_NEAR(d.relative, c.at("relative").get<double>(), 1e-12 * (1 + d.relative));
    EXPECT_EQ(d.largest, c.at("largest").get<double>());
    EXPECT_EQ(d.largest_step, c.at("largest_step").get<std::int64_t>());
    EXPECT_EQ(d.first_above.value_or(-1), c.at("first_above").is_null() ? -1 : c.at("first_above").get<std::int64_t>());
    EXPECT_EQ(d.zero_reference, c.at("zero_reference").get<std::int64_t>());
    EXPECT_EQ(d.not_finite, c.at("not_finite").get<std::int64_t>());
    EXPECT_EQ(d.one_not_finite, 0);
    EXPECT_EQ(d.within(), d.mean_error <= 0.04);
    const curve_distance validation = compare_curve(a, b, "val-core/a:b/mean@1", c.at("limit").get<std::int64_t>());
    EXPECT_NEAR(validation.mean_error, d.mean_error / 2, 1e-12);
    const speed_ratio speed = compare_speed(a, b);
    EXPECT_NEAR(speed.throughput(), c.at("throughput").get<double>(), 1e-12);
    EXPECT_NEAR(speed.time(), c.at("time").get<double>(), 1e-12);
  }
}

/// Mean Error = 1/N sum |a - b| x 100 %, not divided by the reference: 0.0038 of reward is published as 0.38 %.
TEST(run_comparison, the_published_formula) {
  const auto a = curve("critic/rewards/mean", {0.5, -0.4, 0.9}),
             b = curve("critic/rewards/mean", {0.5 - 0.0038, -0.4 + 0.0038, 0.9 + 0.0038});
  const curve_distance d = compare_curve(a, b, "critic/rewards/mean");
  EXPECT_NEAR(d.mean_error, 0.0038, 1e-15);
  EXPECT_EQ(d.threshold, 0.04);
  EXPECT_TRUE(d.within());
  EXPECT_NE(run_comparison_table({"x", "y", {d}, {}}).find("0.38 %"), std::string::npos);
  EXPECT_EQ(default_threshold("train/loss"), 0.02);
  EXPECT_EQ(default_threshold("actor/pg_loss"), 0.02);
  EXPECT_EQ(default_threshold("rm/reward_loss"), 0.02);
  EXPECT_EQ(default_threshold("val-core/openai/gsm8k/reward/mean@1"), 0.04);
  const curve_distance at =
      compare_curve(curve("train/loss", {1.25}), curve("train/loss", {1.0}), "train/loss", 0, 0.25);
  EXPECT_TRUE(at.within());  // at the threshold, not above
  EXPECT_FALSE(at.first_above);
  const curve_distance over = compare_curve(curve("train/loss", {1, 1.5}), curve("train/loss", {1, 1.0}), "train/loss");
  EXPECT_FALSE(over.within());
  EXPECT_EQ(over.first_above, 2);
}

TEST(run_comparison, relative_and_not_finite) {
  const double nan = std::nan("");
  const auto relative = compare_curve(curve("x", {11, 90}), curve("x", {10, 100}), "x", 0, 0.1, true);
  EXPECT_NEAR(relative.relative, 0.1, 1e-15);
  EXPECT_NEAR(relative.gated(), 0.1, 1e-15);
  const auto zero = compare_curve(curve("x", {1, 90}), curve("x", {0, 100}), "x", 0, 0.5, true);
  EXPECT_FALSE(zero.within());  // no relative error can be given for the first step
  EXPECT_TRUE(compare_curve(curve("x", {0, 90}), curve("x", {0, 100}), "x", 0, 0.5, true).within());
  const auto one = compare_curve(curve("x", {1, nan}), curve("x", {1, 2}), "x");
  EXPECT_EQ(one.mean_error, 0);
  EXPECT_FALSE(one.within());
  EXPECT_EQ(one.first_above, 2);
  EXPECT_TRUE(compare_curve(curve("x", {1, nan}), curve("x", {1, nan}), "x").within());
  const std::string table = run_comparison_table({"p", "q", {zero, one}, {}});
  EXPECT_NE(table.find("note: x: 1 steps have no relative error, B is 0 there and A is not\n"), std::string::npos);
  EXPECT_NE(table.find("note: x: 1 steps are not finite in one run only\n"), std::string::npos);
}

TEST(run_comparison, says_what_is_missing) {
  const auto a = curve("critic/rewards/mean", {1, 2}), late = curve("critic/rewards/mean", {1, 2}, 7),
             other = curve("actor/entropy", {1, 2});
  EXPECT_EQ(refusal([&] { compare_curve(a, a, "critic/reward/mean"); }),
            "--key critic/reward/mean: neither run has such a metric (did you mean 'critic/rewards/mean'?)");
  EXPECT_EQ(refusal([&] { compare_curve(a, other, "critic/rewards/mean"); }),
            "--key critic/rewards/mean: B has no such metric");
  EXPECT_EQ(refusal([&] { compare_curve(a, other, "entropy"); }),
            "--key entropy: neither run has such a metric (there are actor/entropy)");
  EXPECT_EQ(refusal([&] { compare_curve(a, late, "critic/rewards/mean"); }),
            "--key critic/rewards/mean: no step in common; A has steps 1 to 2, B 7 to 8");
  EXPECT_NE(refusal([&] { expand_key("b*", a, a); }).find("no such metric in common"), std::string::npos);
  EXPECT_EQ(expand_key("critic/*", a, a), std::vector<std::string>{"critic/rewards/mean"});
}

/// The line of the founding documents: T per sequence x 1024 / seconds / 64 devices, and 1000 x gen / response tokens.
TEST(run_log, the_published_line) {
  const auto row = parse_console_line(
      "step:1 - actor/grad_norm:0.04106094129383564 - critic/rewards/mean:-0.4141845703125 - "
      "response_length/mean:7385.140625 - prompt_length/mean:152.890625 - "
      "timing_s/generate_sequences:1081.803466796875 - timing_s/gen:1315.2451746799998 - "
      "timing_s/update_actor:303.92059642999993 - timing_s/step:1738.0274970199998 - "
      "timing_per_token_ms/gen:0.17391938503519522 - perf/throughput:69.3938963605546");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->step, 1);
  EXPECT_EQ(row->values.size(), 10u);
  const double response = row->values.get("response_length/mean"), prompt = row->values.get("prompt_length/mean");
  const double tokens = 1024 * (response + prompt);
  EXPECT_NEAR(throughput(tokens, row->values.get("timing_s/step"), 64), row->values.get("perf/throughput"), 1e-9);
  EXPECT_NEAR(milliseconds_per_token(row->values.get("timing_s/gen"), 1024 * response),
              row->values.get("timing_per_token_ms/gen"), 1e-12);
}

TEST(run_log, lines_of_consoles) {
  const auto row = parse_console_line(
      "\x1b[36m(TaskRunner pid=1:2)\x1b[0m step:12 - a/b:c:0.5 - n:np.int64(3) - f:np.float64(-1e-05) - i:inf - x:nan "
      "- "
      "s:word - ratio:1.5 ");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->step, 12);
  EXPECT_EQ(row->values.get("a/b:c"), 0.5);
  EXPECT_EQ(std::get<std::int64_t>(*row->values.find("n")), 3);
  EXPECT_EQ(row->values.get("f"), -1e-05);
  EXPECT_TRUE(std::isinf(row->values.get("i")));
  EXPECT_TRUE(row->values.contains("x"));
  EXPECT_FALSE(row->values.contains("s"));
  EXPECT_EQ(row->values.get("ratio"), 1.5);
  for (const char* line : {"", "step:", "step:x - a:1", "substep:3 - a:1", "global step 3", "step 3 - loss: 1"})
    EXPECT_FALSE(parse_console_line(line)) << line;
  EXPECT_TRUE(parse_console_line("step:3"));
  // Names are what metrics.jsonl can hold: UTF-8, each once, and none of them "step".
  const auto broken = parse_console_line("step:3 - a\xf3:1 - a\xf4:2 - step:7");
  ASSERT_TRUE(broken);
  EXPECT_EQ(json_line(broken->step, broken->values), "{\"step\":3,\"a\xEF\xBF\xBD\":2}");
  // What we print ourselves comes back.
  metrics m;
  m.set("a:b", 0.1);
  m.set("count", 7);
  const auto again = parse_console_line(console_line(5, m));
  ASSERT_TRUE(again);
  EXPECT_EQ(console_line(again->step, again->values), console_line(5, m));
}

TEST(run_log, files_and_folders) {
  const scratch::folder place;
  std::filesystem::create_directories(place / "run");
  scratch::write(place / "run" / "metrics.jsonl",
                 "{\"step\":2,\"a\":1}\n{\"step\":1,\"a\":0.5}\n{\"step\":2,\"a\":3}\n");
  const auto rows = read_run(place / "run");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].values.get("a"), 3);
  scratch::write(place / "verl.jsonl", "{\"step\":1,\"data\":{\"critic/rewards/mean\":0.25,\"step\":9}}\n");
  EXPECT_EQ(read_run(place / "verl.jsonl")[0].values.get("critic/rewards/mean"), 0.25);
  EXPECT_NE(refusal([&] { read_run(place / "nosuch"); }).find("nosuch: cannot open"), std::string::npos);
  std::filesystem::create_directories(place / "empty");
  EXPECT_NE(refusal([&] { read_run(place / "empty"); }).find("no metrics.jsonl"), std::string::npos);
  scratch::write(place / "text", "hello\n");
  EXPECT_NE(refusal([&] { read_run(place / "text"); }).find("text: no step in it"), std::string::npos);
}

TEST(run_comparison, page) {
  const auto a = curve("critic/rewards/mean", {0.5, std::nan(""), 0.75}),
             b = curve("critic/rewards/mean", {0.5, 0.5, 0.5});
  const run_pair pair{"<a>", "b", {compare_curve(a, b, "critic/rewards/mean")}, compare_speed(a, b)};
  const std::string page = run_comparison_html(pair);
  for (const char* part : {"http:", "https:", "src=", "url(", "<script", "nan", "inf\"", "<a>"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  EXPECT_NE(page.find("<h1>Above a threshold</h1>"), std::string::npos);
  EXPECT_NE(page.find("critic/rewards/mean, difference"), std::string::npos);
  EXPECT_EQ(page, run_comparison_html(pair));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
