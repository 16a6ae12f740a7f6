// The report: whole, self-contained, the same text for the same rows, true to the numbers.
#include "rlcore/telemetry/report/report.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
namespace fs = std::filesystem;

std::vector<metric_row> rows(int steps) {
  std::vector<metric_row> out;
  metrics before;
  before.set("val-core/openai/gsm8k/reward/mean@1", 0.25);
  out.push_back({0, before});
  for (int s = 1; s <= steps; ++s) {
    metrics m;
    m.set("critic/rewards/mean", s == 3 ? std::nan("") : 0.5 + 0.01 * s);
    m.set("actor/entropy", 1.0 / s);
    m.set("response_length/mean", 50.0);
    m.set("response_length/min", 3);
    m.set("response_length/max", 128);
    m.set("timing_s/gen", 2.0);
    m.set("timing_s/update_actor", 1.0);
    m.set("timing_s/step", 4.0);
    out.push_back({s, m});
  }
  return out;
}

run_info info() { return {"proj/<run> & co", "a \"model\"", "CPU", {{"trainer.nnodes", "1"}}, {{"total steps", "5"}}}; }

/// Walks the tags; every one that opens must close.
std::string unbalanced(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t i = text.find('<'); i != std::string::npos; i = text.find('<', i + 1)) {
    if (text[i + 1] == '!') continue;
    const std::size_t end = text.find('>', i);
    const bool closing = text[i + 1] == '/';
    const std::size_t first = i + (closing ? 2 : 1);
    const std::string name = text.substr(first, text.find_first_of(" />\n", first) - first);
    if (closing) {
      if (open.empty() || open.back() != name) return "</" + name + "> at " + std::to_string(i);
      open.pop_back();
    } else if (text[end - 1] != '/' && name != "meta") {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : open.back();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++n;
  return n;
}

TEST(report, is_one_well_formed_page_without_outside_resources) {
  for (const int steps : {0, 1, 5, 300, 3000}) {
    const std::string text = report_html(info(), rows(steps));
    EXPECT_EQ(unbalanced(text), "") << steps;
    for (const char* part : {"http:", "https:", "src=", "url(", "@import", "<script", "nan", "inf\""})
      EXPECT_EQ(text.find(part), std::string::npos) << part << " with " << steps << " steps";
    EXPECT_NE(text.find("prefers-color-scheme: dark"), std::string::npos);
    EXPECT_NE(text.find("<h1>proj/&lt;run&gt; &amp; co</h1>"), std::string::npos);
    EXPECT_EQ(text, report_html(info(), rows(steps)));
    EXPECT_LT(text.size(), 1u << 20);
  }
  EXPECT_EQ(unbalanced(report_html({}, {})), "");
}

TEST(report, shows_what_there_is_and_nothing_else) {
  const std::string text = report_html(info(), rows(5));
  EXPECT_EQ(count(text, "<div class=\"card\">"), 4u);  // reward, length, entropy, time
  EXPECT_NE(text.find("validation, openai/gsm8k reward mean@1 <b>0.25</b>"), std::string::npos);
  EXPECT_NE(text.find("critic/rewards/mean</a></td><td class=\"n\">0.51</td><td class=\"n\">0.55</td><td "
                      "class=\"n\">0.51</td><td class=\"n\">0.55</td>"),
            std::string::npos);
  EXPECT_NE(text.find("<td>gen</td><td class=\"n\">0:10</td><td class=\"n\">2</td><td class=\"n\">50.0 %</td>"),
            std::string::npos);
  EXPECT_NE(text.find("<td>other</td><td class=\"n\">0:05</td><td class=\"n\">1</td><td class=\"n\">25.0 %</td>"),
            std::string::npos);
  EXPECT_NE(text.find("response_length/mean"), std::string::npos);
  EXPECT_EQ(text.find("actor/kl_loss"), std::string::npos);
}

/// Supervised and preference runs: loss, accuracy and rewards share charts; what is not known gets its own.
TEST(report, groups_what_any_trainer_logs) {
  std::vector<metric_row> all;
  for (int s = 1; s <= 3; ++s) {
    metrics m;
    m.set("train/loss", 1.0 / s);
    m.set("train/loss_mean", 0.5);
    m.set("train/acc", 0.5);
    m.set("train/chosen_reward", 0.1 * s);
    m.set("train/reject_reward", s == 2 ? std::nan("") : -0.1 * s);  // two points without a line between them
    m.set("train/lr", 1e-6);
    m.set("critic/vf_loss", 0.1);
    m.set("something/of_tomorrow", s);
    m.set("something/that_stays", 4);
    if (s == 3) m.set("eval/eval_loss", 0.75), m.set("eval/acc_mean", 0.625);
    all.push_back({s, m});
  }
  const std::string text = report_html(info(), all);
  EXPECT_EQ(unbalanced(text), "");
  EXPECT_EQ(count(text, "<div class=\"card\">"), 6u);  // loss, accuracy, rewards, critic, learning rate, of_tomorrow
  EXPECT_NE(text.find("training <b>0.3333</b>"), std::string::npos);
  EXPECT_NE(text.find("evaluation <b>0.75</b>"), std::string::npos);
  EXPECT_NE(text.find("<span>Evaluation accuracy</span><b>0.625</b>"), std::string::npos);
  EXPECT_NE(text.find("<h3>Something, of tomorrow<"), std::string::npos);
  EXPECT_EQ(text.find("<h3>Something, that stays<"), std::string::npos);
  EXPECT_NE(text.find("<td>something/that_stays</td>"), std::string::npos);
  EXPECT_EQ(text.find("train/loss_mean"), std::string::npos);
  EXPECT_EQ(count(text, "<circle class=\"dot f2\""), 4u);  // both evaluations, both lone rewards
  EXPECT_EQ(text.find("nan"), std::string::npos);
}

/// A number that is logged leads to its definition in the page.
TEST(report, links_metrics_to_their_definitions) {
  const std::string text = report_html(info(), rows(5));
  const std::string anchor = html::definition_anchor("response_length/mean");
  EXPECT_EQ(html::definition_anchor("something/of_tomorrow"), "");
  EXPECT_EQ(count(text, "<a href=\"#" + anchor + "\">response_length/mean</a>"), 1u);
  EXPECT_EQ(count(text, "<tr id=\"" + anchor + "\"><td><code>response_length/{mean,max,min}</code></td>"), 1u);
  for (std::size_t at = text.find("href=\"#"); at != text.npos; at = text.find("href=\"#", at + 1)) {
    const std::string name = text.substr(at + 7, text.find('"', at + 7) - at - 7);
    EXPECT_EQ(count(text, "id=\"" + name + "\""), 1u) << name;
  }
  EXPECT_EQ(text.find("actor/pg_clipfrac_lower"), std::string::npos);  // not logged, not explained
}

/// 100 tokens a second in 4 s of which validation and saving took 2: 200 while it trained.
TEST(report, throughput_is_that_of_training) {
  std::vector<metric_row> all;
  for (int s = 1; s <= 2; ++s) {
    metrics m;
    m.set("perf/throughput", 100);
    m.set("timing_s/step", 4.0);
    m.set("timing_s/testing", 1.5);
    m.set("timing_s/save_checkpoint", 0.5);
    all.push_back({s, m});
  }
  EXPECT_NE(report_html(info(), all).find("<span>Tokens per second of a rank</span><b>200</b>"), std::string::npos);
}

/// A supervised trainer's speed is that of the update, whatever else a step holds.
TEST(report, throughput_of_updates_is_taken_as_it_is) {
  std::vector<metric_row> all;
  for (int s = 1; s <= 2; ++s) {
    metrics m;
    m.set("perf/throughput", s == 1 ? 100 : 300);
    m.set("timing_s/step", s == 1 ? 1.0 : 9.0);
    m.set("timing_s/update", 1.0);
    if (s == 2) m.set("timing_s/testing", 8.0);
    all.push_back({s, m});
  }
  EXPECT_NE(report_html(info(), all).find("<span>Tokens per second of a rank</span><b>200</b>"), std::string::npos);
}

TEST(report, further_charts_have_titles_in_words) {
  std::vector<metric_row> all;
  for (int s = 1; s <= 2; ++s) {
    metrics m;
    m.set("reward/no_match", 0.25 * s);
    all.push_back({s, m});
  }
  const std::string text = report_html(info(), all);
  EXPECT_NE(text.find("<h3>Reward, no match<small>share</small>"), std::string::npos);
  EXPECT_NE(text.find("responses in which the rule found no answer"), std::string::npos);
  EXPECT_EQ(text.find("<h3>reward/no_match"), std::string::npos);
}

/// A phone shows a drawing of 480 units in about 330 pixels.
TEST(report, is_for_phones_too) {
  const std::string text = report_html(info(), rows(5));
  EXPECT_EQ(count(text, "<div class=\"scroll\"><table"), count(text, "<table"));
  EXPECT_NE(text.find("@media (max-width: 560px)"), std::string::npos);
  EXPECT_GE(16 * 330 / html::plot_area::width, 11);
}

TEST(report_curves, names) {
  using namespace html;
  EXPECT_TRUE(covers("train/*loss", "train/kto_loss"));
  EXPECT_TRUE(covers("train/*loss", "train/loss"));
  EXPECT_FALSE(covers("train/*loss", "train/loss_mean"));
  EXPECT_FALSE(covers("train/*loss", "train/a/loss"));
  EXPECT_FALSE(covers("", ""));
  EXPECT_EQ(curve_label("train/loss", "Loss"), "training");
  EXPECT_EQ(curve_label("eval/eval_loss", "Loss"), "evaluation");
  EXPECT_EQ(curve_label("train/kto_loss", "Loss"), "training, kto_loss");
}

TEST(report, merges_rows_of_one_step) {
  auto twice = rows(5);
  metrics m;
  m.set("critic/rewards/mean", 0.75);
  twice.push_back({2, m});
  const std::string text = report_html(info(), twice);
  EXPECT_NE(text.find("<td class=\"n\">0.75</td></tr>"), std::string::npos);
  EXPECT_EQ(count(text, "<title>step 2"), count(report_html(info(), rows(5)), "<title>step 2"));
}

TEST(report, is_written_in_one_piece) {
  const fs::path folder = fs::temp_directory_path() / ("rlcore_report_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const fs::path path = folder / "report.html";
  write_report(path, info(), rows(2));
  write_report(path, info(), rows(3));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), report_html(info(), rows(3)));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  fs::remove_all(folder);
  EXPECT_THROW(write_report(path, info(), rows(2)), rlcore::file_error);
}

TEST(axis, ticks_are_round_and_cover_the_range) {
  using html::axis;
  const auto labels = [](const axis& a) {
    std::string out;
    for (const double t : a.ticks()) out += a.label(t) + " ";
    return out;
  };
  EXPECT_EQ(labels(axis::covering(0, 1, 5)), "0 0.2 0.4 0.6 0.8 1.0 ");
  EXPECT_EQ(labels(axis::covering(0, 0.0023, 5)), "0 0.0005 0.0010 0.0015 0.0020 ");
  EXPECT_EQ(labels(axis::covering(-3, 11, 5)), "-5 0 5 10 ");
  EXPECT_EQ(labels(axis::covering(0, 5e-7, 5)), "0 1e-07 2e-07 3e-07 4e-07 5e-07 ");
  EXPECT_EQ(labels(axis::covering(0, 48000, 5)), "0 10k 20k 30k 40k 50k ");
  EXPECT_EQ(labels(axis::covering(1, 3, 7, true)), "1 2 3 ");
  EXPECT_EQ(labels(axis::covering(0, 4000, 7, true)), "0 1000 2000 3000 4000 ");
  // Where the next tick is far from the data, the axis ends with these.
  const axis fitted = axis::covering(-0.0002, 0.0916, 5);
  EXPECT_EQ(labels(fitted), "0 0.02 0.04 0.06 0.08 ");
  EXPECT_GT(fitted.low, -0.005);
  EXPECT_EQ(labels(axis::covering(0.15, 0.61, 5)), "0.2 0.3 0.4 0.5 0.6 ");
  const axis flat = axis::covering(5, 5, 5);
  EXPECT_LT(flat.low, 5);
  EXPECT_GT(flat.high, 5);
  for (double low : {-7.3, 0.0, 1e-9, 123.0})
    for (double extent : {1e-8, 0.37, 5.0, 1234567.0}) {
      const axis a = axis::covering(low, low + extent, 5);
      EXPECT_LE(a.low, low + a.step * 1e-6);
      EXPECT_GE(a.high, low + extent - a.step * 1e-6);
      EXPECT_LE(a.ticks().size(), 9u);
      EXPECT_GE(a.ticks().size(), 3u);
    }
}

TEST(report_text, numbers) {
  EXPECT_EQ(html::brief(0.9375), "0.9375");
  EXPECT_EQ(html::brief(-0.030118), "-0.03012");
  EXPECT_EQ(html::brief(1234.4), "1234");
  EXPECT_EQ(html::brief(5e-7), "5e-07");
  EXPECT_EQ(html::brief(12), "12");
  EXPECT_EQ(html::brief(100), "100");
  EXPECT_EQ(html::brief(2.5e8), "2.5e+08");
  EXPECT_EQ(html::brief(std::nan("")), "\xE2\x80\x93");
  EXPECT_EQ(html::coordinate(-0.01), "0.0");
}

TEST(report_chart, smoothing_keeps_a_straight_line_and_skips_nan) {
  std::vector<html::point> line;
  for (int i = 0; i < 300; ++i) line.push_back({double(i), i == 150 ? std::nan("") : 2.0 * i});
  const auto mean = html::detail::smoothed(line, html::smoothing_window(line.size()));
  EXPECT_EQ(html::smoothing_window(200), 0u);
  EXPECT_NEAR(mean[100].y, 200, 1e-9);
  EXPECT_TRUE(std::isfinite(mean[150].y));
  EXPECT_EQ(html::detail::thinned(line).size(), line.size());
}

/// Zero belongs to the drawing where the data are near it or do not move, and not where they would be squeezed.
TEST(report_chart, starts_at_zero_where_that_shows_something) {
  const auto starts_at_zero = [](double low, double high) {
    const html::chart c{"", "", {{"a", {{1, low}, {2, high}}}}};
    return html::line_chart(c).find(">0</text>") != std::string::npos;
  };
  EXPECT_TRUE(starts_at_zero(0.2, 0.9));
  EXPECT_TRUE(starts_at_zero(3e-4, 3e-4));
  EXPECT_FALSE(starts_at_zero(0.93, 0.97));
  EXPECT_TRUE(starts_at_zero(-0.2, 0.97));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
