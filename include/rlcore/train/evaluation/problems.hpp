// Problems of an evaluation: rows grouped by problem, and data sets whose files are not in verl's columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "rlcore/data/jsonl.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/verify/gsm8k.hpp"

RLCORE_BEGIN
namespace train {

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

/// The number of the problem of each row. Rows of one prompt are one problem where all prompts of their data source
/// stand in equally many rows (AIME 2024 is published with 32 of each); elsewhere every row is a problem of its own.
/// verl merges in both cases, so that a single duplicate makes val-core/*@2 the score of that one prompt.
std::vector<std::uint32_t> problems_of(const data::prompt_dataset& rows);

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::vector<std::uint32_t> problems_of(const data::prompt_dataset& rows) {
  struct occurrences {
    std::uint32_t first = 0;
    std::size_t count = 0;
  };
  using identity = std::tuple<std::string, std::vector<std::int32_t>, std::vector<data::content_hash>>;
  const auto identity_of = [&](std::size_t i) {
    return identity{rows[i].data_source, rows[i].ids, data::image_hashes(rows[i])};
  };
  std::map<identity, occurrences> prompts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    occurrences& o = prompts.try_emplace(identity_of(i), occurrences{}).first->second;
    if (o.count++ == 0) o.first = static_cast<std::uint32_t>(i);
  }
  std::map<std::string, std::size_t> count_of;  // 0: they differ
  for (const auto& [prompt, o] : prompts) {
    const auto [at, fresh] = count_of.try_emplace(std::get<0>(prompt), o.count);
    if (!fresh && at->second != o.count) at->second = 0;
  }
  std::vector<std::uint32_t> problem(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    problem[i] = count_of[rows[i].data_source] == 0 ? static_cast<std::uint32_t>(i) : prompts[identity_of(i)].first;
  return problem;
}

}  // namespace train
RLCORE_END
#endif
