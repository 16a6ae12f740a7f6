// Problems whose files are not in verl's columns, with the prompts that AISBench sends for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/data/jsonl.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/verify/gsm8k.hpp"

RLCORE_BEGIN
namespace trainer {

/// A problem as a plain text prompt.
struct plain_problem {
  std::string prompt, source, truth;
};

/// A row of aime.jsonl, {origin_prompt, gold_answer}: the question and the request that AISBench's aime2024_gen adds.
inline plain_problem aime2024_problem(const data::row& r, const std::string& where) {
  const data::row& truth = data::column(r, "gold_answer", where);
  return {data::string_column(r, "origin_prompt", where) +
              "\nPlease reason step by step, and put your final answer within \\boxed{}.",
          "aime2024", truth.is_string() ? truth.get<std::string>() : text::json_text(truth)};
}

/// A raw GSM8K row as a worked example: "Question: ...", then "Let's think step by step", then "Answer: ...".
inline std::string gsm8k_shot(const data::row& r, const std::string& where) {
  return "Question: " + data::string_column(r, "question", where) +
         "\nLet's think step by step\nAnswer: " + data::string_column(r, "answer", where) + "\n\n";
}
/// The question behind the worked examples `shots`, up to "Answer:"; the truth stands behind "#### ". Throws data_error
/// if no number does.
inline plain_problem gsm8k_problem(const data::row& r, const std::string& shots, const std::string& where) {
  const std::string& answer = data::string_column(r, "answer", where);
  const auto truth = verify::gsm8k_ground_truth(answer);
  if (!truth)
    throw data_error(where + ": the answer '" + data::printable(answer, 60) + "' has no number after '#### '");
  return {shots + "Question: " + data::string_column(r, "question", where) + "\nLet's think step by step\nAnswer:",
          "openai/gsm8k", *truth};
}

}  // namespace trainer
RLCORE_END
