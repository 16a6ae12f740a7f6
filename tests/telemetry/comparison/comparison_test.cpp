// Several runs side by side: hand-computed numbers, and a page that shows every one of them.
#include "rlcore/telemetry/comparison/comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

const std::string validation = "val-core/openai/gsm8k/reward/mean@1";

/// Step 0 is a validation alone; every second step has one.
compared_run run(const std::string& name, std::uint64_t seed, std::vector<double> rewards, double entropy) {
  compared_run out{name, seed, {}};
  for (std::size_t k = 0; k < rewards.size(); ++k) {
    metrics m;
    if (k % 2 == 0) m.set(validation, rewards[k]);
    if (k > 0) {
      m.set("critic/rewards/mean", rewards[k]);
      m.set("actor/entropy", entropy + static_cast<double>(k));
      m.set("actor/pg_clipfrac", 0.25 * static_cast<double>(k));
      m.set("timing_s/step", 1.5);
    }
    out.rows.push_back({static_cast<std::int64_t>(k), m});
  }
  return out;
}

std::vector<compared_run> example() {
  return {run("a", 1, {0.1, 0.2, 0.3}, 1), run("b<&>", 1, {0.1, 0.5, 0.75}, 2), run("a", 2, {0.3, 0.2, 0.6}, 2)};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++n;
  return n;
}

TEST(comparison, means_over_runs_and_steps) {
  const auto all = summarize(example());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "a");
  EXPECT_EQ(all[0].runs, 2u);
  EXPECT_NEAR(all[0].first_reward, 0.2, 1e-12);
  EXPECT_NEAR(all[0].last_reward, 0.45, 1e-12);
  EXPECT_EQ(all[0].lowest, 0.3);
  EXPECT_EQ(all[0].highest, 0.6);
  EXPECT_NEAR(all[0].entropy, (2.5 + 3.5) / 2, 1e-12);
  EXPECT_NEAR(all[0].clipped, 0.375, 1e-12);
  EXPECT_NEAR(all[0].seconds, 3, 1e-12);
  EXPECT_EQ(all[1].name, "b<&>");
  EXPECT_EQ(all[1].runs, 1u);
  EXPECT_EQ(all[1].last_reward, 0.75);
}

TEST(comparison, text_table_is_aligned) {
  EXPECT_EQ(comparison_table(summarize(example())),
            "algorithm  validation reward  lowest..highest  entropy  clipped  seconds\n"
            "a             0.200 -> 0.450     0.300..0.600    3.000   0.3750      3.0\n"
            "b<&>          0.100 -> 0.750     0.750..0.750    3.500   0.3750      3.0\n");
  const std::vector<compared_run> one{run("short", 1, {0.5}, 0)};
  EXPECT_EQ(comparison_table(summarize(one)),
            "algorithm  validation reward  entropy  clipped  seconds\n"
            "short         0.500 -> 0.500        -        -        -\n");
}

TEST(comparison, page_has_a_mean_per_variant_and_a_thin_line_per_run) {
  const comparison_info info{"x & y", "somewhere", {"name", "what"}, {{"a", "k3"}}, {{"data.seed", "1"}}};
  const std::string page = comparison_html(info, example());
  for (const char* part : {"http:", "https:", "src=", "url(", "@import", "<script", "nan", "inf\""})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  EXPECT_NE(page.find("<h1>x &amp; y</h1>"), std::string::npos);
  EXPECT_EQ(page.find("b<&>"), std::string::npos);
  EXPECT_EQ(count(page, "<div class=\"card\">"), 4u);  // validation, training, entropy, clipped
  EXPECT_EQ(count(page, "class=\"line s1\""), 4u);
  EXPECT_EQ(count(page, "class=\"line s2\""), 4u);
  EXPECT_EQ(count(page, "class=\"line pale s1\""), 8u);
  EXPECT_EQ(count(page, "class=\"line pale s2\""), 0u);  // one run is its own mean
  EXPECT_NE(page.find("b&lt;&amp;&gt; <b>0.75</b>"), std::string::npos);
  EXPECT_NE(page.find("step 2\na: 0.45\nb&lt;&amp;&gt;: 0.75</title>"), std::string::npos);
  EXPECT_NE(page.find("<td>k3</td>"), std::string::npos);
  EXPECT_NE(page.find("<td>data.seed</td>"), std::string::npos);
  EXPECT_EQ(page, comparison_html(info, example()));
}

TEST(comparison, shows_what_there_is) {
  EXPECT_NE(comparison_html({}, {}).find("No run has ended yet."), std::string::npos);
  auto broken = example();
  for (metric_row& row : broken[1].rows) row.values.set("actor/entropy", std::nan(""));
  const std::string page = comparison_html({}, broken);
  EXPECT_EQ(page.find("nan"), std::string::npos);
  EXPECT_EQ(count(page, "class=\"line s2\""), 3u);
  EXPECT_TRUE(std::isnan(summarize(broken)[1].entropy));
}

TEST(comparison, more_variants_than_colours_are_dashed) {
  std::vector<compared_run> many;
  for (int k = 0; k < 13; ++k) many.push_back(run("v" + std::to_string(k), 1, {0.1, 0.2, 0.3}, k));
  const std::string page = comparison_html({}, many);
  EXPECT_EQ(count(page, "class=\"line dash s1\""), 4u);
  EXPECT_EQ(count(page, "class=\"line s1\""), 4u);
  EXPECT_EQ(count(page, "class=\"line s12\""), 4u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
