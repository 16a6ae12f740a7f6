// From the data_source of a row to the rule that scores its responses.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/verify/gsm8k.hpp"

RLCORE_BEGIN
namespace verify {

enum class scorer { gsm8k };

/// Sources that verl scores and this version does not yet, with the name of their rule; a '*' at the end stands for
/// anything.
inline constexpr std::array<std::array<std::string_view, 2>, 17> sources_without_scorer{
    {{"lighteval/MATH", "math"},
     {"DigitalLearningGmbH/MATH-lighteval", "math"},
     {"HuggingFaceH4/MATH-500", "math"},
     {"math_dapo", "math_dapo"},
     {"aime*", "math_dapo"},
     {"numina_aops_forum", "prime_math"},
     {"numina_synthetic_math", "prime_math"},
     {"numina_amc_aime", "prime_math"},
     {"numina_synthetic_amc", "prime_math"},
     {"numina_cn_k12", "prime_math"},
     {"numina_olympiads", "prime_math"},
     {"codecontests", "sandboxed code"},
     {"apps", "sandboxed code"},
     {"codeforces", "sandboxed code"},
     {"taco", "sandboxed code"},
     {"hiyouga/geometry3k", "geo3k"},
     {"searchR1_*", "search answer"}}};

/// Throws data_error for a source without a rule: a known one says that its rule is not there yet, an unknown one gets
/// the nearest names. Call it for all rows before training starts.
inline scorer scorer_of(std::string_view data_source) {
  if (data_source == "openai/gsm8k") return scorer::gsm8k;
  const std::string what = "data_source '" + data::printable(data_source) + "' ";
  std::vector<std::string> names{"openai/gsm8k"};
  for (const auto& [name, rule] : sources_without_scorer) {
    const bool prefix = name.ends_with('*');
    if (prefix ? data_source.starts_with(name.substr(0, name.size() - 1)) : data_source == name)
      throw data_error(what + "needs the reward '" + std::string(rule) +
                       "', which this version does not have; it has 'openai/gsm8k'");
    if (!prefix) names.emplace_back(name);
  }
  throw data_error(what + "has no reward function; expected 'openai/gsm8k'" + did_you_mean(data_source, names));
}

/// Scores a response by the rule of its source; throws data_error as scorer_of does.
inline verdict score(std::string_view data_source, std::string_view response, std::string_view ground_truth) {
  switch (scorer_of(data_source)) {
    case scorer::gsm8k:
      return score_gsm8k(response, ground_truth);
  }
  return {};
}

}  // namespace verify
RLCORE_END
