// The report of a run: one HTML file without any outside resource, made from the rows of metrics.jsonl and
// samples.jsonl.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/telemetry/metric_names.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/telemetry/report/page.hpp"
#include "rlcore/telemetry/report/sample_answers.hpp"
#include "rlcore/telemetry/report/text.hpp"

RLCORE_BEGIN
namespace train {

/// The information about a run that a report shows besides its metrics. Pairs are rows of a table, in this order.
struct run_info {
  std::string name;                                           ///< project/experiment
  std::string model;                                          ///< path or id, size
  std::string device;                                         ///< e.g. "CPU, 2 threads"
  std::vector<std::pair<std::string, std::string>> settings;  ///< key, value
  std::vector<std::pair<std::string, std::string>> derived;   ///< trajectories per step, ... with their numbers
  std::vector<sample_answer> answers = {};                    ///< of the first and the last validation
};

namespace detail {

class report_writer {
 public:
  report_writer(const run_info& info, std::span<const metric_row> rows) : info_(info), rows_(merged_rows(rows)) {
    std::set<std::string> known;
    for (const metric_row& row : rows_)
      for (const auto& [name, x] : row.values)
        if (known.insert(name).second) names_.push_back(name);
  }

  std::string run() const;

 private:
  static std::string section(const std::string& title, const std::string& content) {
    return content.empty() ? "" : "<div><h2>" + title + "</h2>\n" + content + "</div>\n";
  }
  static std::string pairs(const std::vector<std::pair<std::string, std::string>>& rows);

  /// Answers of steps with a validation in the metrics; a resumed run has not reached later ones yet.
  std::string answers() const;

  std::string about() const;

  /// The steps at which a metric was logged.
  std::vector<html::point> curve(std::string_view name) const;
  /// The names in the order of their first logging.
  std::vector<std::string> names_with(std::string_view prefix, std::string_view part = {}) const;
  /// "openai/gsm8k reward mean@1" for a validation metric.
  static std::string validation_label(const std::string& name);

  std::string tiles() const;

  /// The labels and names of the metrics that a rule finds in this run.
  std::vector<std::pair<std::string, std::string>> curves_of(const html::chart_rule& rule) const;
  std::string chart_of(const html::chart_rule& rule) const {
    return chart_of(std::string(rule.title), std::string(rule.unit), curves_of(rule), rule.from_zero);
  }
  std::string chart_of(const std::string& title, const std::string& unit,
                       const std::vector<std::pair<std::string, std::string>>& curves, bool from_zero = true) const;
  static std::string finished(const html::chart& c, const std::vector<std::string>& labels);

  std::string charts() const;

  /// The metrics that change and that no chart shows yet.
  std::string further_charts() const;

  std::string lengths() const;

  /// Stages by their total time, largest first in `shown`; at most 6, the rest of the step is "other".
  struct stage_times {
    std::vector<double> steps, total;
    std::vector<std::string> labels;
    std::vector<std::vector<double>> seconds;  ///< by label and step
  };
  stage_times stages() const;
  std::string stages_chart() const;
  std::string times() const;

  std::string numbers() const;

  const run_info& info_;
  std::vector<metric_row> rows_;
  std::vector<std::string> names_;
  mutable std::vector<std::string> drawn_;   ///< names that have a chart
  mutable std::vector<std::string> listed_;  ///< names that have a row of numbers
};

}  // namespace detail

/// The report as text; the same rows give the same text.
inline std::string report_html(const run_info& info, std::span<const metric_row> rows) {
  return detail::report_writer(info, rows).run();
}

/// The report of one run, in one piece, with the answers that are kept in its folder. Throws file_error.
inline void write_report(const std::filesystem::path& path, run_info info, std::span<const metric_row> rows) {
  info.answers = read_sample_answers(path.parent_path());
  checkpoint::write_file_atomically(path, report_html(info, rows));
}

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE std::string report_writer::run() const {
  using namespace html;
  std::string out = page_head(info_.name, about());
  out += "<div class=\"tiles\">\n" + tiles() + "</div>\n";
  const std::string drawn = charts();
  out += "<h2>Curves</h2>\n<div class=\"charts\">\n" +
         (drawn.empty() ? "<p>No step has been logged yet.</p>\n" : drawn) + "</div>\n";
  out += section("Answers of the first and the last validation: the best two and the worst two", answers());
  out += section("Numbers", numbers()) + "<div class=\"tables\">\n" + section("Time", times());
  out += section("Derived", pairs(info_.derived)) + section("Settings", pairs(info_.settings)) + "</div>\n";
  out += section("What the metrics mean", html::metric_table(listed_));
  return out + "</body>\n</html>\n";
}

RLCORE_INLINE std::string report_writer::pairs(const std::vector<std::pair<std::string, std::string>>& rows) {
  if (rows.empty()) return {};
  std::vector<std::vector<std::string>> cells;
  for (const auto& [name, text] : rows) cells.push_back({name, text});
  return html::table({}, cells, 2);
}

RLCORE_INLINE std::string report_writer::answers() const {
  std::vector<sample_answer> known;
  for (const sample_answer& a : info_.answers)
    for (const metric_row& row : rows_)
      if (row.step == a.step) {
        known.push_back(a);
        break;
      }
  return html::answer_cards(known);
}

RLCORE_INLINE std::string report_writer::about() const {
  std::string out;
  for (const std::string& part : {info_.model, info_.device}) out += part.empty() ? "" : part + "  \xC2\xB7  ";
  const std::int64_t last = rows_.empty() ? 0 : rows_.back().step;
  return out + std::to_string(last) + (last == 1 ? " step" : " steps") + "  \xC2\xB7  rlcore " RLCORE_VERSION_STRING;
}

RLCORE_INLINE std::vector<html::point> report_writer::curve(std::string_view name) const {
  std::vector<html::point> out;
  for (const metric_row& row : rows_)
    if (row.values.contains(name)) out.push_back({static_cast<double>(row.step), row.values.get(name)});
  return out;
}

RLCORE_INLINE std::vector<std::string> report_writer::names_with(std::string_view prefix, std::string_view part) const {
  std::vector<std::string> out;
  for (const std::string& name : names_)
    if (name.starts_with(prefix) && name.find(part) != std::string::npos) out.push_back(name);
  return out;
}

RLCORE_INLINE std::string report_writer::validation_label(const std::string& name) {
  std::string text = name.substr(std::string_view("val-core/").size());
  const std::size_t statistic = text.rfind('/');
  if (statistic == std::string::npos) return text;
  text[statistic] = ' ';
  if (const std::size_t field = text.rfind('/', statistic); field != std::string::npos) text[field] = ' ';
  return text;
}

RLCORE_INLINE std::string report_writer::tiles() const {
  using namespace html;
  std::string out;
  const auto from_to = [&](const std::string& title, const std::string& name) {
    const auto points = curve(name);
    if (points.empty()) return;
    out += tile(title, brief(points.back().y), points.size() > 1 ? "from " + brief(points.front().y) : "");
  };
  for (const std::string& name : names_with("val-core/", "/mean@"))
    from_to("Validation, " + validation_label(name), name);
  from_to("Training reward", "critic/rewards/mean");
  for (const html::chart_rule& rule : {html::loss_charts[0], html::loss_charts[1]})
    for (auto [label, name] : curves_of(rule)) {
      if (label.find(',') == label.npos)
        label += " " + std::string(1, static_cast<char>(rule.title[0] | 0x20)) + std::string(rule.title.substr(1));
      label[0] = static_cast<char>(label[0] & ~0x20);
      from_to(label, name);
    }
  from_to("Response tokens, mean", "response_length/mean");
  double seconds = 0, tokens = 0, trained = 0;
  for (const metric_row& row : rows_) {
    if (const double step = row.values.get("timing_s/step"); std::isfinite(step)) seconds += step;
    const auto [of_row, time] = html::trained_tokens(row.values);
    tokens += of_row, trained += time;
  }
  if (trained > 0) out += tile("Tokens per second of a rank", brief(tokens / trained), "without validation");
  if (seconds > 0) out += tile("Time in steps", duration_text(seconds), seconds < 3600 ? "min:s" : "h:min:s");
  return out;
}

RLCORE_INLINE std::vector<std::pair<std::string, std::string>> report_writer::curves_of(
    const html::chart_rule& rule) const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const html::curve_rule& c : rule.curves)
    for (const std::string& name : names_)
      if (html::covers(c.name, name))
        out.emplace_back(c.label.empty() ? html::curve_label(name, rule.title) : std::string(c.label), name);
  return out;
}

RLCORE_INLINE std::string report_writer::chart_of(const std::string& title, const std::string& unit,
                                                  const std::vector<std::pair<std::string, std::string>>& curves,
                                                  bool from_zero) const {
  using namespace html;
  chart c{title, unit, {}, from_zero};
  std::vector<std::string> labels;
  for (const auto& [label, name] : curves) {
    drawn_.push_back(name);
    auto points = curve(name);
    if (points.empty()) continue;
    const bool finite = std::any_of(points.begin(), points.end(), [](const point& p) { return std::isfinite(p.y); });
    if (!finite) continue;
    labels.push_back(label);
    const bool few = name.starts_with("val-core/") || name.starts_with("val/") || name.starts_with("eval/");
    c.curves.push_back({label, std::move(points), few});
  }
  c.smooth = !title.starts_with("Learning");
  return finished(c, labels);
}

RLCORE_INLINE std::string report_writer::finished(const html::chart& c, const std::vector<std::string>& labels) {
  if (c.curves.empty()) return {};
  std::vector<std::pair<std::string, std::string>> entries;
  for (std::size_t i = 0; i < labels.size(); ++i)
    entries.emplace_back(labels[i], html::brief(c.curves[i].points.back().y));
  const std::size_t window = c.smooth ? html::smoothing_window(c.curves.front().points.size()) : 0;
  const std::string remark = window > 0 ? (c.unit.empty() ? "" : c.unit + "  \xC2\xB7  ") + "bold: mean of " +
                                              std::to_string(window) + " steps"
                                        : c.unit;
  return html::card(c.title, remark, html::legend(entries, false), html::line_chart(c));
}

RLCORE_INLINE std::string report_writer::charts() const {
  std::vector<std::pair<std::string, std::string>> rewards = {{"training, mean of the step", "critic/rewards/mean"}};
  for (const std::string& name : names_with("val-core/", "/mean@"))
    if (rewards.size() < 6) rewards.push_back({"validation, " + validation_label(name), name});
  std::string out = chart_of("Reward", "mean score", rewards);
  for (const html::chart_rule& rule : html::loss_charts) out += chart_of(rule);
  out += lengths();
  for (const html::chart_rule& rule : html::policy_charts) out += chart_of(rule);
  out += stages_chart();
  out += chart_of("Throughput", "tokens per second of a rank", {{"tokens of the step", "perf/throughput"}});
  return out + further_charts();
}

RLCORE_INLINE std::string report_writer::further_charts() const {
  drawn_.insert(drawn_.end(), {"critic/score/mean", "critic/advantages/mean", "critic/returns/mean",
                               "response_length/mean", "prompt_length/mean"});
  std::string out;
  std::size_t count = 0;
  for (const std::string& name : names_) {
    if (!html::is_further_curve(name) || count == 16 || std::find(drawn_.begin(), drawn_.end(), name) != drawn_.end())
      continue;
    const auto points = curve(name);
    if (std::all_of(points.begin(), points.end(), [&](const html::point& p) { return p.y == points.front().y; }))
      continue;
    const metric_definition* known = definition_of(name);
    const bool validated = name.starts_with("val-core/");
    out += chart_of(validated ? "Validation, " + validation_label(name) : html::metric_title(name),
                    known == nullptr ? "" : std::string(known->unit),
                    {{validated || known == nullptr ? name : std::string(known->definition), name}}, false);
    ++count;
  }
  return out;
}

RLCORE_INLINE std::string report_writer::lengths() const {
  using namespace html;
  chart c{"Response length", "tokens", {}, true};
  series s{"mean", {}, false, {}, {}};
  for (const metric_row& row : rows_) {
    if (!row.values.contains("response_length/mean")) continue;
    s.points.push_back({static_cast<double>(row.step), row.values.get("response_length/mean")});
    s.low.push_back(row.values.get("response_length/min"));
    s.high.push_back(row.values.get("response_length/max"));
  }
  if (s.points.empty()) return {};
  c.curves.push_back(std::move(s));
  return finished(c, {"mean (band: shortest to longest)"});
}

RLCORE_INLINE auto report_writer::stages() const -> stage_times {
  stage_times out;
  std::vector<const metric_row*> rows;
  for (const metric_row& row : rows_)
    if (std::isfinite(row.values.get("timing_s/step"))) rows.push_back(&row);
  std::vector<std::pair<double, std::string>> ranked;
  double whole = 0;
  for (const metric_row* row : rows)
    out.steps.push_back(static_cast<double>(row->step)), whole += row->values.get("timing_s/step");
  for (const std::string& name : names_with("timing_s/")) {
    if (name == "timing_s/step") continue;
    double sum = 0;
    for (const metric_row* row : rows)
      if (row->values.contains(name)) sum += row->values.get(name);
    if (sum >= 0.005 * whole && sum > 0) ranked.emplace_back(-sum, name);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (ranked.size() > 6) ranked.resize(6);
  std::vector<double> other;
  for (const metric_row* row : rows) other.push_back(row->values.get("timing_s/step"));
  for (const auto& [sum, name] : ranked) {
    out.labels.push_back(name.substr(std::string_view("timing_s/").size()));
    out.total.push_back(-sum);
    auto& part = out.seconds.emplace_back();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      part.push_back(rows[i]->values.contains(name) ? rows[i]->values.get(name) : 0);
      other[i] = std::max(0.0, other[i] - part.back());
    }
  }
  if (rows.empty()) return out;
  out.labels.push_back("other");
  double sum = 0;
  for (const double x : other) sum += x;
  out.total.push_back(sum);
  out.seconds.push_back(std::move(other));
  return out;
}

RLCORE_INLINE std::string report_writer::stages_chart() const {
  const stage_times t = stages();
  if (t.steps.empty()) return {};
  std::vector<std::pair<std::string, std::string>> entries;
  for (const std::string& label : t.labels) entries.emplace_back(label, "");
  return html::card("Time of a step", "seconds", html::legend(entries, true),
                    html::stacked_chart("Time of a step", t.steps, t.labels, t.seconds));
}

RLCORE_INLINE std::string report_writer::times() const {
  const stage_times t = stages();
  if (t.steps.empty()) return {};
  double whole = 0;
  for (const double x : t.total) whole += x;
  const auto row = [&](const std::string& name, double sum) {
    return std::vector<std::string>{name, duration_text(sum), html::brief(sum / static_cast<double>(t.steps.size())),
                                    html::decimal(100 * sum / whole, 1) + " %"};
  };
  std::vector<std::vector<std::string>> rows;
  for (std::size_t k = 0; k < t.labels.size(); ++k) rows.push_back(row(t.labels[k], t.total[k]));
  rows.push_back(row("all", whole));
  return html::table({"stage", "total", "s per step", "share"}, rows, 1);
}

RLCORE_INLINE std::string report_writer::numbers() const {
  std::vector<std::string> names = names_with("val-core/", "/mean@");
  for (const char* name :
       {"critic/rewards/mean", "critic/score/mean", "train/loss", "val/loss", "eval/eval_loss", "actor/kl_loss",
        "actor/reward_kl_penalty", "actor/ppo_kl", "actor/entropy", "actor/pg_loss", "actor/pg_clipfrac",
        "actor/grad_norm", "actor/lr", "response_length/mean", "response_length/clip_ratio", "prompt_length/mean",
        "perf/throughput", "perf/time_per_step", "perf/cpu_memory_used_gb"})
    names.emplace_back(name);
  for (const std::string& name : names_)
    if (html::is_further_curve(name) && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> links;
  for (const std::string& name : names) {
    double low = std::numeric_limits<double>::quiet_NaN(), high = low;
    const auto points = curve(name);
    for (const html::point& p : points) low = std::fmin(low, p.y), high = std::fmax(high, p.y);
    if (points.empty()) continue;
    rows.push_back(
        {name, html::brief(points.front().y), html::brief(points.back().y), html::brief(low), html::brief(high)});
    links.push_back(html::definition_anchor(name));
    listed_.push_back(name);
  }
  return rows.empty() ? "" : html::table({"metric", "first", "last", "smallest", "largest"}, rows, 1, links);
}

}  // namespace train::detail
RLCORE_END
#endif
