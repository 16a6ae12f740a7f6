// The frame of the report: style sheet (light and dark), tables, cards with a chart.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/report/chart.hpp"
#include "rlcore/telemetry/report/text.hpp"

RLCORE_BEGIN
namespace train::html {

/// The CSS of the page, for light and dark screens.
std::string style_sheet();

inline constexpr std::size_t colour_count = 12;

/// The rules that give curve or part number k its colour.
std::string colour_rules();

/// The tokens of a rank in a step and the seconds that they took, without validation and checkpoints; 0 where the row
/// does not tell.
inline std::pair<double, double> trained_tokens(const metrics& row) {
  const double step = row.get("timing_s/step"), speed = row.get("perf/throughput"), update = row.get("timing_s/update");
  if (!std::isfinite(step) || !std::isfinite(speed)) return {0, 0};
  if (std::isfinite(update))
    return {speed * update, update};  // of supervised trainers: the speed is that of the update
  double trained = step;
  for (const char* other : {"timing_s/testing", "timing_s/save_checkpoint"})
    if (const double s = row.get(other); std::isfinite(s)) trained -= s;
  return {speed * step, trained};
}

/// The page up to and including the title and the line below it.
std::string page_head(const std::string& title, const std::string& about);

/// One entry per curve or part: colour, name, last value (may be empty).
std::string legend(const std::vector<std::pair<std::string, std::string>>& entries, bool boxes);

/// A card: title, unit, legend, chart. Empty without a chart.
inline std::string card(const std::string& title, const std::string& remark, const std::string& legend_text,
                        const std::string& chart) {
  if (chart.empty()) return {};
  return "<div class=\"card\"><h3>" + escape(title) + "<small>" + escape(remark) + "</small></h3>\n" + legend_text +
         chart + "</div>\n";
}

/// A table; columns from `first_number` on are numbers (right-aligned). The first cell of row k leads to the place
/// `links[k]` of the page, if that is given and not empty.
std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows,
                  std::size_t first_number, const std::vector<std::string>& links = {});

/// A number with its name above and a remark below.
inline std::string tile(const std::string& name, const std::string& number, const std::string& remark) {
  return "<div class=\"tile\"><span>" + escape(name) + "</span><b>" + escape(number) + "</b><small>" + escape(remark) +
         "</small></div>\n";
}

}  // namespace train::html
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train::html {

RLCORE_INLINE std::string style_sheet() {
  return R"css(
:root { color-scheme: light dark; --page: #f9f9f7; --card: #ffffff; --ink: #0b0b0b; --soft: #52514e;
  --mute: #77756f;
--grid: #e6e5df; --base: #c3c2b7; --c1: #2a78d6; --c2: #d9480f; --c3: #1a9e6e; --c4: #8a5cd1; --c5: #c98500;
  --c6: #d6336c; --c7: #8d8b84; --c8: #0b8f9c; --c9: #8a5a2b; --c10: #5b7f1d; --c11: #3c3f9e; --c12: #b01e9b; }
@media (prefers-color-scheme: dark) { :root { --page: #111110; --card: #1a1a19; --ink: #f4f4f1;
  --soft: #c3c2b7; --mute: #9a988f;
--grid: #2b2b29; --base: #4a4a46; --c1: #4c97f0; --c2: #f2743b; --c3: #2bb583; --c4: #a98bea; --c5: #d99a1c;
  --c6: #ec6a96; --c7: #85837b; --c8: #35b8c4; --c9: #bf8a55; --c10: #92b94a; --c11: #8b8ff0; --c12: #e05fce; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 28px 20px 48px; max-width: 1200px; background: var(--page); color: var(--ink);
font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 25px; margin: 0 0 4px; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 32px 0 10px; }
p.about { margin: 0 0 18px; color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 12px; }
.tile, .card { background: var(--card); border: 1px solid var(--grid); border-radius: 8px; padding: 12px 14px; }
.tile span { display: block; color: var(--soft); font-size: 13px; } .tile b { font-size: 23px;
  font-weight: 600; white-space: nowrap; margin-right: 6px; }
.tile small { color: var(--soft); font-size: 13px; display: inline-block; white-space: nowrap; }
.scroll + p.about { margin-top: 10px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 14px; }
.card { min-width: 0; padding: 12px 14px 6px; } .card h3 { font-size: 15px; margin: 0; display: flex;
  justify-content: space-between; gap: 12px; }
.card h3 small { font-weight: 400; color: var(--soft); } .legend { color: var(--soft); font-size: 13px;
  margin: 3px 0 5px; min-height: 19px; }
.legend b { color: var(--ink); font-weight: 600; } .legend span { margin-right: 14px; white-space: nowrap; }
.legend i { display: inline-block; width: 13px; height: 3px; border-radius: 2px; margin-right: 6px;
  vertical-align: middle; }
.legend i.box { height: 11px; border-radius: 3px; }
svg { display: block; width: 100%; height: auto; overflow: visible; } .grid { stroke: var(--grid); } .base { stroke: var(--base); }
.tick { fill: var(--mute); font-size: 12px; font-variant-numeric: tabular-nums; } .line { fill: none;
  stroke-width: 2; stroke-linejoin: round; }
.pale { stroke-width: 1; opacity: 0.28; } .dash { stroke-dasharray: 6 4; } .band { opacity: 0.16; } .dot { stroke: var(--card);
  stroke-width: 1.5; } .hover { fill: var(--ink); opacity: 0; } .hover:hover { opacity: 0.07; }
g:hover > rect { opacity: 0.8; }
.tables { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 14px;
  align-items: start; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { padding: 4px 14px 4px 0; text-align: left; border-bottom: 1px solid var(--grid); vertical-align: top; }
td { overflow-wrap: anywhere; } .numeric td { white-space: nowrap; } th { color: var(--soft); font-weight: 500;
  white-space: nowrap; } tr:last-child td { border-bottom: 0; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } th.n { padding-right: 14px; }
td a { color: inherit; text-decoration-color: var(--base); } tr:target td { background: var(--grid); }
.answers { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 14px; }
.answers pre { margin: 6px 0; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 15em; overflow-y: auto;
  font: 13px/1.4 ui-monospace, "DejaVu Sans Mono", monospace; } .answers pre.asked { color: var(--soft); }
.answers .tool { background: var(--grid); color: var(--soft); }
.answers img { max-width: 100%; margin: 8px 8px 0 0; border: 1px solid var(--grid); border-radius: 4px; }
@media (max-width: 560px) { body { padding: 18px 12px 36px; } h1 { font-size: 21px; } .tick { font-size: 16px; } .card { padding: 10px 10px 4px; }
  .charts, .answers { gap: 10px; } }
.definitions { min-width: 560px; } .definitions td:nth-child(2) { white-space: nowrap; }
code { font: 13px ui-monospace, "DejaVu Sans Mono", monospace; }
)css";
}

RLCORE_INLINE std::string colour_rules() {
  std::string out;
  for (std::size_t k = 1; k <= colour_count; ++k) {
    const std::string n = std::to_string(k);
    out += ".s" + n + " { stroke: var(--c" + n + "); } .f" + n + " { fill: var(--c" + n + "); } i.f" + n +
           " { background: var(--c" + n + "); }\n";
  }
  return out;
}

RLCORE_INLINE std::string page_head(const std::string& title, const std::string& about) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\">\n<title>" +
         escape(title) + "</title>\n<style>" + style_sheet() + colour_rules() + "</style>\n</head>\n<body>\n<h1>" +
         escape(title) + "</h1>\n<p class=\"about\">" + escape(about) + "</p>\n";
}

RLCORE_INLINE std::string legend(const std::vector<std::pair<std::string, std::string>>& entries, bool boxes) {
  std::string out = "<div class=\"legend\">";
  for (std::size_t i = 0; i < entries.size(); ++i)
    out += "<span><i class=\"" + std::string(boxes ? "box " : "") + "f" + std::to_string(i + 1) + "\"></i>" +
           escape(entries[i].first) + (entries[i].second.empty() ? "" : " <b>" + escape(entries[i].second) + "</b>") +
           "</span>";
  return out + "</div>\n";
}

RLCORE_INLINE std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows,
                                std::size_t first_number, const std::vector<std::string>& links) {
  const auto cells = [&](const std::vector<std::string>& row, const char* tag, const std::string& link = {}) {
    std::string out = "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool leads = i == 0 && !link.empty();
      out += "<" + std::string(tag) + (i >= first_number ? " class=\"n\">" : ">") +
             (leads ? "<a href=\"#" + link + "\">" : "") + escape(row[i]) + (leads ? "</a>" : "") + "</" + tag + ">";
    }
    return out + "</tr>\n";
  };
  std::string out = "<div class=\"scroll\"><table" + std::string(head.empty() ? "" : " class=\"numeric\"") + ">\n";
  if (!head.empty()) out += cells(head, "th");
  for (std::size_t k = 0; k < rows.size(); ++k) out += cells(rows[k], "td", k < links.size() ? links[k] : "");
  return out + "</table></div>\n";
}

}  // namespace train::html
RLCORE_END
#endif
