// Parts of a report: sample answers, and explanations of its metrics.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/telemetry/metric_names.hpp"
#include "rlcore/telemetry/report/page.hpp"
#include "rlcore/telemetry/report/text.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace train {

/// One validation response and its score.
struct sample_answer {
  std::int64_t step = 0;  ///< of the validation
  double score = 0;
  std::string prompt, answer, ground_truth;
  std::vector<std::string> images = {};  ///< of the prompt: PNG files in data URIs
  /// Bytes of the answer that the policy wrote, that tools wrote, and so on in turn; empty: all are the policy's.
  std::vector<std::uint64_t> runs = {};
};

/// Bytes that are kept of a text at most.
inline constexpr std::size_t sample_text_bytes = 2000;

/// The beginning of `text`, at most `limit` bytes of whole UTF-8 characters, with an ellipsis where it was cut.
inline std::string beginning_of(std::string_view text, std::size_t limit = sample_text_bytes) {
  if (text.size() <= limit) return std::string(text);
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return std::string(text.substr(0, limit)) + "\xE2\x80\xA6";
}

/// Whether `text` is a PNG in a data URI and nothing else, fit for an attribute of a page.
bool is_png_uri(std::string_view text);

/// Where the answers of a run in `root` are kept: one JSON object per line.
inline std::filesystem::path sample_answers_path(const std::filesystem::path& root) { return root / "samples.jsonl"; }

/// The answers that are kept in `root`, by step; lines that cannot be read are left out.
std::vector<sample_answer> read_sample_answers(const std::filesystem::path& root);

/// Keeps `answers`, all of one validation, as the last ones of `root` beside those of the first validation. Answers of
/// this or a later step, which a resumed run repeats, are replaced. Throws file_error.
void keep_sample_answers(const std::filesystem::path& root, std::vector<sample_answer> answers);

}  // namespace train

namespace train::html {

/// The name of the row of metric_table() that defines metric `name`; empty if nothing defines it.
inline std::string definition_anchor(std::string_view name) {
  const metric_definition* m = definition_of(name);
  return m == nullptr ? "" : "metric-" + std::to_string(m - metric_definitions);
}

/// The definitions of metrics `names`, in the order and the words of docs/metrics.md. Empty without any.
std::string metric_table(const std::vector<std::string>& names);

/// A card for each answer, those of the first validation before those of the last. Empty without any.
std::string answer_cards(const std::vector<sample_answer>& answers);

}  // namespace train::html
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE bool is_png_uri(std::string_view text) {
  constexpr std::string_view begins = "data:image/png;base64,";
  return text.starts_with(begins) &&
         text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=", begins.size()) ==
             text.npos;
}

RLCORE_INLINE std::vector<sample_answer> read_sample_answers(const std::filesystem::path& root) {
  std::vector<sample_answer> out;
  std::error_code none;
  if (!std::filesystem::is_regular_file(sample_answers_path(root), none)) return out;
  std::ifstream in(sample_answers_path(root));
  for (std::string line; std::getline(in, line);) {
    try {
      const auto j = text::try_parse_json(line);
      out.push_back({text::get_exactly<std::int64_t>(j.at("step")), j.at("score").get<double>(),
                     j.at("prompt").get<std::string>(), j.at("answer").get<std::string>(),
                     j.at("ground_truth").get<std::string>(), j.value("images", std::vector<std::string>()),
                     j.contains("runs") ? text::get_exactly<std::vector<std::uint64_t>>(j["runs"])
                                        : std::vector<std::uint64_t>()});
      std::erase_if(out.back().images, [](const std::string& p) { return !is_png_uri(p); });
    } catch (const nlohmann::json::exception&) {
      continue;
    }
  }
  return out;
}

RLCORE_INLINE void keep_sample_answers(const std::filesystem::path& root, std::vector<sample_answer> answers) {
  if (answers.empty()) return;
  std::vector<sample_answer> kept = read_sample_answers(root);
  std::erase_if(kept, [&](const sample_answer& a) { return a.step >= answers.front().step; });
  if (!kept.empty()) {
    const std::int64_t first = kept.front().step;
    std::erase_if(kept, [&](const sample_answer& a) { return a.step != first; });
  }
  std::move(answers.begin(), answers.end(), std::back_inserter(kept));
  std::string lines;
  for (const sample_answer& a : kept) {
    nlohmann::ordered_json line{{"step", a.step},
                                {"score", a.score},
                                {"prompt", beginning_of(a.prompt)},
                                {"answer", beginning_of(a.answer)},
                                {"ground_truth", beginning_of(a.ground_truth)}};
    if (!a.images.empty()) line["images"] = a.images;
    if (!a.runs.empty()) line["runs"] = a.runs;
    lines += text::json_text(line) + "\n";
  }
  std::filesystem::create_directories(root);
  checkpoint::write_file_atomically(sample_answers_path(root), lines);
}

}  // namespace train

namespace train::html {

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
    for (const std::string& p : a.images) images += "<img alt=\"an image of the prompt\" src=\"" + p + "\">\n";
    return images;
  };
  const auto answer = [](const sample_answer& a) {
    if (a.runs.empty()) return escape(a.answer);
    std::string all;
    std::string_view rest = a.answer;
    for (std::size_t i = 0; i < a.runs.size() && !rest.empty(); ++i) {
      std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(a.runs[i], rest.size()));
      while (count < rest.size() && (static_cast<unsigned char>(rest[count]) & 0xC0) == 0x80) ++count;
      const std::string part = escape(rest.substr(0, count));
      all += i % 2 == 0 ? part : "<span class=\"tool\">" + part + "</span>";
      rest.remove_prefix(count);
    }
    return all + escape(rest);
  };
  std::string out;
  for (const sample_answer& a : answers)
    out += "<div class=\"card\"><h3>step " + std::to_string(a.step) + "<small>reward " + escape(brief(a.score)) +
           "</small></h3>\n" + shown(a) + "<pre class=\"asked\">" + escape(a.prompt) + "</pre>\n<pre>" + answer(a) +
           "</pre>\n" +
           (a.ground_truth.empty() ? "" : "<p class=\"about\">right answer: " + escape(a.ground_truth) + "</p>\n") +
           "</div>\n";
  return out.empty() ? out : "<div class=\"answers\">\n" + out + "</div>\n";
}

}  // namespace train::html
RLCORE_END
#endif
