// Text sections of the report: metric definitions, and responses of the first and the last validation.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/telemetry/metric_names.hpp"
#include "rlcore/telemetry/report/page.hpp"
#include "rlcore/telemetry/report/sample_answers.hpp"
#include "rlcore/telemetry/report/text.hpp"

RLCORE_BEGIN
namespace trainer::html {

/// The name of the row of metric_table() that defines metric `name`; empty if nothing defines it.
inline std::string definition_anchor(std::string_view name) {
  const metric_definition* m = definition_of(name);
  return m == nullptr ? "" : "metric-" + std::to_string(m - metric_definitions);
}

/// The definitions of metrics `names`, in the order and the words of docs/metrics.md. Empty without any.
std::string metric_table(const std::vector<std::string>& names);

/// A card for each answer, those of the first validation before those of the last. Empty without any.
std::string answer_cards(const std::vector<sample_answer>& answers);

}  // namespace trainer::html
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace trainer::html {

RLCORE_INLINE std::string metric_table(const std::vector<std::string>& names) {
  std::vector<bool> used(std::size(metric_definitions), false);
  for (const std::string& name : names)
    if (const metric_definition* m = definition_of(name)) used[static_cast<std::size_t>(m - metric_definitions)] = true;
  std::string rows;
  for (std::size_t i = 0; i < used.size(); ++i) {
    const metric_definition& m = metric_definitions[i];
    if (used[i])
      rows += "<tr id=\"metric-" + std::to_string(i) + "\"><td><code>" + escape(m.name) + "</code></td><td>" +
              escape(m.unit) + "</td><td>" + escape(m.definition) + "</td></tr>\n";
  }
  if (rows.empty()) return {};
  return "<div class=\"scroll\"><table "
         "class=\"definitions\">\n<tr><th>metric</th><th>unit</th><th>definition</th></tr>\n" +
         rows + "</table></div>\n";
}

RLCORE_INLINE std::string answer_cards(const std::vector<sample_answer>& answers) {
  const auto shown = [](const sample_answer& a) {
    std::string images;
    for (const std::string& p : a.pictures) images += "<img alt=\"a picture of the prompt\" src=\"" + p + "\">\n";
    return images;
  };
  std::string out;
  for (const sample_answer& a : answers)
    out += "<div class=\"card\"><h3>step " + std::to_string(a.step) + "<small>reward " + escape(brief(a.score)) +
           "</small></h3>\n" + shown(a) + "<pre class=\"asked\">" + escape(a.prompt) + "</pre>\n<pre>" +
           escape(a.answer) + "</pre>\n" +
           (a.ground_truth.empty() ? "" : "<p class=\"about\">right answer: " + escape(a.ground_truth) + "</p>\n") +
           "</div>\n";
  return out.empty() ? out : "<div class=\"answers\">\n" + out + "</div>\n";
}

}  // namespace trainer::html
RLCORE_END
#endif
