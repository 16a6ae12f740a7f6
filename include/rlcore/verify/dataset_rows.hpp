// Rows of the prepared data sets GSM8K and Geometry3K.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/verify/gsm8k.hpp"

RLCORE_BEGIN
namespace verify {

/// The instruction after the question, identical to verl's.
inline constexpr std::string_view gsm8k_instruction =
    "Let's think step by step and output the final answer after \"####\".";

/// data_source, prompt, ability, reward_model {style, ground_truth} and extra_info {split, index, answer, question}.
/// Throws data_error starting with `where` when the solution has no "#### number".
inline data::row gsm8k_row(const std::string& question, const std::string& answer, const std::string& split,
                           std::size_t index, const std::string& where) {
  const auto truth = gsm8k_ground_truth(answer);
  if (!truth)
    throw data_error(where + ": the answer '" + data::printable(answer, 60) + "' has no number after '#### '");
  return {
      {"data_source", "openai/gsm8k"},
      {"prompt", data::row::array({{{"role", "user"}, {"content", question + " " + std::string(gsm8k_instruction)}}})},
      {"ability", "math"},
      {"reward_model", {{"style", "rule"}, {"ground_truth", *truth}}},
      {"extra_info", {{"split", split}, {"index", index}, {"answer", answer}, {"question", question}}}};
}

/// The prompt of the system and the instruction of rows that call verl's GSM8K tool, identical to verl's.
inline constexpr std::string_view gsm8k_tool_system =
    "You are a math expert. You are given a question and you need to solve it step by step. Reasoning step by step "
    "before any tool call. You should use the `calc_gsm8k_reward` tool after step by step solving the question, before "
    "generate final answer at least once and refine your answer if necessary. Put your final answer in the format of "
    "`#### <answer>`.";
inline constexpr std::string_view gsm8k_tool_instruction =
    "Let's think step by step and output the final answer after `####`.";

/// gsm8k_row() with agent_name, the system's prompt, and tools_kwargs and interaction_kwargs in extra_info, as verl's
/// gsm8k_tool_agent_loop writes them.
inline data::row gsm8k_tool_row(const std::string& question, const std::string& answer, const std::string& split,
                                std::size_t index, const std::string& where) {
  data::row row{{"data_source", nullptr}, {"agent_name", "tool_agent"}};
  row.update(gsm8k_row(question, answer, split, index, where));
  const std::string asked = question + " " + std::string(gsm8k_tool_instruction);
  const data::row truth = row["reward_model"]["ground_truth"];
  row["prompt"] = {{{"role", "system"}, {"content", gsm8k_tool_system}}, {{"role", "user"}, {"content", asked}}};
  row["extra_info"]["need_tools_kwargs"] = true;
  row["extra_info"]["tools_kwargs"] = {{"calc_gsm8k_reward", {{"create_kwargs", {{"ground_truth", truth}}}}}};
  row["extra_info"]["interaction_kwargs"] = {{"query", asked}, {"ground_truth", truth}};
  return row;
}

/// The instruction after the problem, identical to verl's.
inline constexpr std::string_view geo3k_instruction =
    R"(You FIRST think about the reasoning process as an internal monologue and then provide the final answer. )"
    R"(The reasoning process MUST BE enclosed within <think> </think> tags. The final answer MUST BE put in \boxed{}.)";

/// data_source, prompt, images, ability, reward_model {style, ground_truth} and extra_info {split, index, answer,
/// question} of a row of the hub (images, problem, answer). Images are copied unchanged. Throws data_error starting
/// with `where` for another row, and for a problem with another number of <image> marks than images.
inline data::row geo3k_row(const data::row& from, const std::string& split, std::size_t index,
                           const std::string& where) {
  const std::string& problem = data::string_column(from, "problem", where);
  const std::string& answer = data::string_column(from, "answer", where);
  const data::row& images = data::column(from, "images", where);
  const std::size_t marks = text::count_image_marks(problem), count = images.is_array() ? images.size() : 0;
  if (!images.is_array() || marks != count)
    throw data_error(where + ": the problem has " + std::to_string(marks) + " <image> marks, column 'images' " +
                     std::to_string(count) + " images");
  return {
      {"data_source", "hiyouga/geometry3k"},
      {"prompt", data::row::array({{{"role", "user"}, {"content", problem + " " + std::string(geo3k_instruction)}}})},
      {"images", images},
      {"ability", "math"},
      {"reward_model", {{"style", "rule"}, {"ground_truth", answer}}},
      {"extra_info", {{"split", split}, {"index", index}, {"answer", answer}, {"question", problem}}}};
}

/// One model's solution of a question.
struct judged_solution {
  std::string text;  ///< its last line is "#### answer", as in GSM8K's training data
  bool correct = false;
};

/// One line of the file; equal solutions once.
struct solved_question {
  std::string question;
  std::vector<std::string> results;  ///< the calculator results <<...=x>> and the answer of the reference solution
  std::vector<judged_solution> solutions;
};

/// The lines of a text, empty ones left out.
std::vector<std::string> solution_steps(std::string_view text);

/// x of each <<...=x>>, without thousands separators.
std::vector<std::string> calculator_results(std::string_view text);

/// "A: 18" at the start of the last line becomes "#### 18".
std::string with_answer_mark(std::string text);

/// Throws data_error, starting with `where`, for a row of another form.
solved_question read_solved_question(const data::row& from, const std::string& where);

/// Labels each step of a solution. The data labels whole solutions only, so: all steps of a right solution are good; in
/// a wrong solution, the steps before the first one whose calculator result does not occur in the reference solution
/// are good, and the last line, which holds the answer, never is.
std::vector<bool> good_steps(const solved_question& q, const judged_solution& s);

}  // namespace verify
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify {

RLCORE_INLINE std::vector<std::string> solution_steps(std::string_view text) {
  std::vector<std::string> steps;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) steps.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return steps;
}

RLCORE_INLINE std::vector<std::string> calculator_results(std::string_view text) {
  std::vector<std::string> results;
  for (std::size_t at = text.find("<<"); at != text.npos; at = text.find("<<", at + 2)) {
    const std::size_t end = text.find(">>", at), equal = text.rfind('=', end);
    if (end == text.npos) break;
    if (equal == text.npos || equal < at) continue;
    std::string result;
    for (const char c : text.substr(equal + 1, end - equal - 1))
      if (c != ',') result += c;
    results.push_back(std::move(result));
  }
  return results;
}

RLCORE_INLINE std::string with_answer_mark(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  const std::size_t line = text.rfind('\n') + 1;
  if (text.compare(line, 3, "A: ") == 0) text.replace(line, 2, "####");
  return text;
}

RLCORE_INLINE solved_question read_solved_question(const data::row& from, const std::string& where) {
  solved_question out;
  out.question = data::string_column(from, "question", where);
  const std::string& truth = data::string_column(from, "ground_truth", where);
  out.results = calculator_results(truth);
  const std::size_t answer = truth.rfind("A: ");
  if (answer != truth.npos) out.results.push_back(truth.substr(answer + 3));
  std::set<std::string> seen;
  for (const auto& [name, value] : from.items()) {
    if (!value.is_object()) continue;
    const std::string inside = where + ": column '" + data::printable(name) + "'";
    const data::row& correct = data::column(value, "is_correct", inside);
    if (!correct.is_boolean())
      throw data_error(inside + ": is_correct is " + text::json_text(correct) + "; expected true or false");
    std::string text = with_answer_mark(data::string_column(value, "solution", inside));
    if (!text.empty() && seen.insert(text).second) out.solutions.push_back({std::move(text), correct.get<bool>()});
  }
  if (out.solutions.empty()) throw data_error(where + ": no column of the form {is_correct, solution}");
  return out;
}

RLCORE_INLINE std::vector<bool> good_steps(const solved_question& q, const judged_solution& s) {
  const std::vector<std::string> steps = solution_steps(s.text);
  std::vector<bool> good(steps.size(), true);
  bool on_the_way = true;
  for (std::size_t i = 0; i < steps.size() && !s.correct; ++i) {
    for (const std::string& result : calculator_results(steps[i]))
      on_the_way = on_the_way && std::find(q.results.begin(), q.results.end(), result) != q.results.end();
    good[i] = on_the_way && i + 1 < steps.size();
  }
  return good;
}

}  // namespace verify
RLCORE_END
#endif
