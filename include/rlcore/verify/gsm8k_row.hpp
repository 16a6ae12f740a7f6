// Conversion of raw GSM8K problems to verl's columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "rlcore/core/error.hpp"
#include "rlcore/data/row.hpp"
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

}  // namespace verify
RLCORE_END
