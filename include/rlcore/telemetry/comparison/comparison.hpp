// Comparison of several runs of several variants: the numbers of each variant, and one page with all curves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/report/page.hpp"
#include "rlcore/telemetry/report/report.hpp"

RLCORE_BEGIN
namespace train {

/// One run and its logged metrics.
struct compared_run {
  std::string variant;
  std::uint64_t seed = 0;
  std::vector<metric_row> rows;
};

/// Summary of a variant: means over its runs; NaN if nothing was logged.
struct variant_summary {
  std::string name;
  std::size_t runs = 0;
  double first_reward = 0, last_reward = 0;  ///< of the validation
  double lowest = 0, highest = 0;            ///< last validation reward of the worst and of the best run
  double entropy = 0, clipped = 0;           ///< means over the steps of actor/entropy and actor/pg_clipfrac
  double seconds = 0;                        ///< sum of timing_s/step
};

/// Texts of a comparison. The table of variants has a header and one row per variant.
struct comparison_info {
  std::string name, about;
  std::vector<std::string> variant_head;
  std::vector<std::vector<std::string>> variants;
  std::vector<std::pair<std::string, std::string>> settings;
};

namespace detail {

/// `x` with `decimals` digits after the point, "-" if it is not finite.
inline std::string fixed(double x, int decimals) { return std::isfinite(x) ? html::decimal(x, decimals) : "-"; }

class comparison {
 public:
  /// Variants are numbered in the order in which they first appear.
  explicit comparison(std::span<const compared_run> runs);

  std::vector<variant_summary> summary() const;

  std::string page(const comparison_info& info) const;

 private:
  struct variant {
    std::string name;
    std::vector<std::vector<metric_row>> runs;
  };

  static std::vector<html::point> curve(const std::vector<metric_row>& rows, std::string_view name);

  std::vector<std::string> validation_names() const;

  std::string result() const;

  /// The mean over the runs, at every step logged by at least one run.
  static html::series mean_of(const std::vector<std::vector<html::point>>& curves);

  /// One colour per variant; with several runs, each is a thin line behind their mean.
  std::string chart_of(const std::string& title, const std::string& unit, const std::string& metric,
                       bool dots = false) const;

  std::string charts() const;

  std::vector<variant> variants_;
  std::size_t most_runs_ = 0;
};

}  // namespace detail

/// One summary per variant, in the order of their first runs.
inline std::vector<variant_summary> summarize(std::span<const compared_run> runs) {
  return detail::comparison(runs).summary();
}

/// The page as text; the same runs give the same text. It needs no external resources.
inline std::string comparison_html(const comparison_info& info, std::span<const compared_run> runs) {
  return detail::comparison(runs).page(info);
}

/// Writes the page in one piece. Throws file_error.
inline void write_comparison(const std::filesystem::path& path, const comparison_info& info,
                             std::span<const compared_run> runs) {
  checkpoint::write_file_atomically(path, comparison_html(info, runs));
}

/// The summaries as an aligned text table.
std::string comparison_table(std::span<const variant_summary> variants);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE comparison::comparison(std::span<const compared_run> runs) {
  for (const compared_run& run : runs) {
    const auto known =
        std::find_if(variants_.begin(), variants_.end(), [&](const variant& v) { return v.name == run.variant; });
    variant& v = known != variants_.end() ? *known : variants_.emplace_back(variant{run.variant, {}});
    v.runs.push_back(merged_rows(run.rows));
    most_runs_ = std::max(most_runs_, v.runs.size());
  }
}

RLCORE_INLINE std::vector<variant_summary> comparison::summary() const {
  const std::vector<std::string> rewards = validation_names();
  const auto over_steps = [](const std::vector<html::point>& points, bool mean) {
    double sum = 0, count = 0;
    for (const html::point& p : points)
      if (std::isfinite(p.y)) sum += p.y, ++count;
    return count > 0 ? (mean ? sum / count : sum) : std::numeric_limits<double>::quiet_NaN();
  };
  std::vector<variant_summary> out;
  for (const variant& v : variants_) {
    variant_summary s{v.name, v.runs.size()};
    s.lowest = s.highest = std::numeric_limits<double>::quiet_NaN();
    for (const auto& rows : v.runs) {
      const auto reward = rewards.empty() ? std::vector<html::point>() : curve(rows, rewards.front());
      const double nothing = std::numeric_limits<double>::quiet_NaN();
      const double last = reward.empty() ? nothing : reward.back().y;
      s.first_reward += reward.empty() ? nothing : reward.front().y;
      s.last_reward += last;
      s.lowest = std::fmin(s.lowest, last), s.highest = std::fmax(s.highest, last);
      s.entropy += over_steps(curve(rows, "actor/entropy"), true);
      s.clipped += over_steps(curve(rows, "actor/pg_clipfrac"), true);
      s.seconds += over_steps(curve(rows, "timing_s/step"), false);
    }
    for (double* x : {&s.first_reward, &s.last_reward, &s.entropy, &s.clipped, &s.seconds})
      *x /= static_cast<double>(s.runs);
    out.push_back(std::move(s));
  }
  return out;
}

RLCORE_INLINE std::string comparison::page(const comparison_info& info) const {
  std::string out = html::page_head(
      info.name, info.about + (info.about.empty() ? "" : "  \xC2\xB7  ") + "rlcore " RLCORE_VERSION_STRING);
  const auto section = [&](const std::string& title, const std::string& content) {
    if (!content.empty()) out += "<div><h2>" + title + "</h2>\n" + content + "</div>\n";
  };
  section("Result", variants_.empty() ? "<p>No run has ended yet.</p>\n" : result());
  section("Curves", variants_.empty() ? "" : "<div class=\"charts\">\n" + charts() + "</div>\n");
  if (!info.variants.empty()) section("Variants", html::table(info.variant_head, info.variants, ~std::size_t{0}));
  std::vector<std::vector<std::string>> settings;
  for (const auto& [name, text] : info.settings) settings.push_back({name, text});
  if (!settings.empty()) section("Settings", html::table({}, settings, 2));
  return out + "</body>\n</html>\n";
}

RLCORE_INLINE std::vector<html::point> comparison::curve(const std::vector<metric_row>& rows, std::string_view name) {
  std::vector<html::point> out;
  for (const metric_row& row : rows)
    if (row.values.contains(name)) out.push_back({static_cast<double>(row.step), row.values.get(name)});
  return out;
}

RLCORE_INLINE std::vector<std::string> comparison::validation_names() const {
  std::vector<std::string> out;
  for (const variant& v : variants_)
    for (const auto& rows : v.runs)
      for (const metric_row& row : rows)
        for (const auto& [name, x] : row.values)
          if (name.starts_with("val-core/") && name.find("/mean@") != name.npos &&
              std::find(out.begin(), out.end(), name) == out.end())
            out.push_back(name);
  return out;
}

RLCORE_INLINE std::string comparison::result() const {
  std::vector<std::string> head{"algorithm", "validation reward, first", "last"};
  if (most_runs_ > 1) head.insert(head.end(), {"lowest", "highest", "runs"});
  head.insert(head.end(), {"entropy", "clipped", "seconds"});
  std::vector<std::vector<std::string>> rows;
  for (const variant_summary& s : summary()) {
    std::vector<std::string> row{s.name, fixed(s.first_reward, 3), fixed(s.last_reward, 3)};
    if (most_runs_ > 1) row.insert(row.end(), {fixed(s.lowest, 3), fixed(s.highest, 3), std::to_string(s.runs)});
    row.insert(row.end(), {fixed(s.entropy, 3), fixed(s.clipped, 4), fixed(s.seconds, 1)});
    rows.push_back(std::move(row));
  }
  return html::table(head, rows, 1);
}

RLCORE_INLINE html::series comparison::mean_of(const std::vector<std::vector<html::point>>& curves) {
  std::vector<std::pair<double, std::pair<double, double>>> sums;  // step -> sum, count
  for (const auto& points : curves)
    for (const html::point& p : points) {
      auto at = std::lower_bound(sums.begin(), sums.end(), p.x, [](const auto& s, double x) { return s.first < x; });
      if (at == sums.end() || at->first != p.x) at = sums.insert(at, {p.x, {0, 0}});
      if (std::isfinite(p.y)) at->second.first += p.y, ++at->second.second;
    }
  html::series mean;
  for (const auto& [x, sum] : sums)
    mean.points.push_back({x, sum.second > 0 ? sum.first / sum.second : std::numeric_limits<double>::quiet_NaN()});
  return mean;
}

RLCORE_INLINE std::string comparison::chart_of(const std::string& title, const std::string& unit,
                                               const std::string& metric, bool dots) const {
  html::chart c{title, unit, {}, true};
  std::vector<html::series> means;
  std::string legend = "<div class=\"legend\">";
  for (std::size_t k = 0; k < variants_.size(); ++k) {
    std::vector<std::vector<html::point>> curves;
    for (const auto& rows : variants_[k].runs)
      if (auto points = curve(rows, metric); !points.empty()) curves.push_back(std::move(points));
    html::series mean = mean_of(curves);
    if (std::none_of(mean.points.begin(), mean.points.end(), [](const html::point& p) { return std::isfinite(p.y); }))
      continue;
    mean.label = variants_[k].name, mean.dots = dots;
    mean.colour = k % html::colour_count + 1, mean.dashed = k / html::colour_count % 2 == 1;
    if (curves.size() > 1)
      for (auto& points : curves) {
        html::series one = mean;
        one.points = std::move(points), one.behind = true;
        c.curves.push_back(std::move(one));
      }
    legend += "<span><i class=\"f" + std::to_string(mean.colour) + "\"></i>" + html::escape(mean.label) + " <b>" +
              html::brief(mean.points.back().y) + "</b></span>";
    means.push_back(std::move(mean));
  }
  if (means.empty()) return {};
  c.curves.insert(c.curves.end(), std::make_move_iterator(means.begin()), std::make_move_iterator(means.end()));
  const std::string remark = most_runs_ > 1 ? unit + "  \xC2\xB7  thin: single runs" : unit;
  return html::card(title, remark, legend + "</div>\n", html::line_chart(c));
}

RLCORE_INLINE std::string comparison::charts() const {
  std::string out;
  for (const std::string& name : validation_names())
    out += chart_of("Validation reward", name.substr(std::string_view("val-core/").size()), name, true);
  out += chart_of("Training reward", "mean of the step", "critic/rewards/mean");
  out += chart_of("Entropy", "nats per token", "actor/entropy");
  out += chart_of("Clipped tokens", "share of response tokens", "actor/pg_clipfrac");
  out += chart_of("Old to new policy", "KL, nats per token", "actor/ppo_kl");
  out += chart_of("KL to the reference, in the loss", "nats per token", "actor/kl_loss");
  out += chart_of("Response length", "tokens, mean", "response_length/mean");
  out += chart_of("Gradient norm", "before clipping", "actor/grad_norm");
  return out + chart_of("Time of an update phase", "seconds", "timing_s/update_actor");
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE std::string comparison_table(std::span<const variant_summary> variants) {
  const bool several = std::any_of(variants.begin(), variants.end(), [](const auto& s) { return s.runs > 1; });
  std::vector<std::vector<std::string>> rows{{"algorithm", "validation reward", "entropy", "clipped", "seconds"}};
  if (several) rows.front().insert(rows.front().begin() + 2, "lowest..highest");
  using detail::fixed;
  for (const variant_summary& s : variants) {
    rows.push_back({s.name, fixed(s.first_reward, 3) + " -> " + fixed(s.last_reward, 3), fixed(s.entropy, 3),
                    fixed(s.clipped, 4), fixed(s.seconds, 1)});
    if (several) rows.back().insert(rows.back().begin() + 2, fixed(s.lowest, 3) + ".." + fixed(s.highest, 3));
  }
  std::vector<std::size_t> width(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  std::string out;
  for (const auto& row : rows) {
    out += row[0] + std::string(width[0] - row[0].size(), ' ');
    for (std::size_t i = 1; i < row.size(); ++i) out += "  " + std::string(width[i] - row[i].size(), ' ') + row[i];
    out += "\n";
  }
  return out;
}

}  // namespace train
RLCORE_END
#endif
