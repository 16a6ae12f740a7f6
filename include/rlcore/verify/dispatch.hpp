// Reward dispatch: selects the scoring rule of a row by its data_source.
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/objective/algorithm/verl.hpp"
#include "rlcore/verify/geo3k.hpp"
#include "rlcore/verify/gsm8k.hpp"
#include "rlcore/verify/math.hpp"
#include "rlcore/verify/math_dapo.hpp"
#include "rlcore/verify/prime_math.hpp"
#include "rlcore/verify/search_answer.hpp"

RLCORE_BEGIN
namespace verify {

/// The scoring rules. scorer_of() refuses `code`, which verl runs in a sandbox.
enum class scorer { gsm8k, math, math_dapo, prime_math, geo3k, search, code, last_number };

/// A data source and the rule of its rows.
struct scored_source {
  std::string_view name;  ///< a '*' at the end matches anything
  scorer rule;
  verl::version since = verl::version::august_2025;  ///< the first version that scores it
};

/// verl's table (default_compute_score).
inline constexpr std::array<scored_source, 20> scored_sources{
    {{"openai/gsm8k", scorer::gsm8k},
     {"lighteval/MATH", scorer::math},
     {"DigitalLearningGmbH/MATH-lighteval", scorer::math},
     {"HuggingFaceH4/MATH-500", scorer::math},
     {"math_dapo", scorer::math_dapo},
     {"math", scorer::math_dapo, verl::version::v0_6_1},
     {"math_dapo_reasoning", scorer::math_dapo, verl::version::v0_6_1},
     {"aime*", scorer::math_dapo},
     {"numina_aops_forum", scorer::prime_math},
     {"numina_synthetic_math", scorer::prime_math},
     {"numina_amc_aime", scorer::prime_math},
     {"numina_synthetic_amc", scorer::prime_math},
     {"numina_cn_k12", scorer::prime_math},
     {"numina_olympiads", scorer::prime_math},
     {"codecontests", scorer::code},
     {"apps", scorer::code},
     {"codeforces", scorer::code},
     {"taco", scorer::code},
     {"hiyouga/geometry3k", scorer::geo3k},
     {"searchR1_*", scorer::search}}};

/// The settings of the rules; the defaults are verl's.
struct rule_settings {
  gsm8k_settings gsm8k{};
  math_settings math{};
  math_dapo_settings math_dapo{};
  prime_math_settings prime_math{};
  geo3k_settings geo3k{};
  search_settings search{};
  verl::version version = verl::newest;  ///< the version of verl whose data sources are supported
};

/// The settings of a version of verl: which data sources have a rule, and whether math_dapo falls back to the last box.
constexpr rule_settings rules_of(verl::version version) {
  rule_settings rules;
  rules.version = version;
  rules.math_dapo.box_fallback = version >= verl::version::v0_9_1;
  return rules;
}

/// The rule of a source in a version of verl. Throws data_error for a source without a rule: the message has the reason
/// for an unsupported rule, the nearest names for an unknown source. Call it for all rows before training starts.
scorer scorer_of(std::string_view data_source, verl::version version = verl::newest);

/// Scores a response by a rule.
verdict score(scorer rule, std::string_view response, std::string_view ground_truth,
              const rule_settings& settings = {});

/// Scores a response by the rule of its source; throws data_error as scorer_of does.
inline verdict score(std::string_view data_source, std::string_view response, std::string_view ground_truth,
                     const rule_settings& settings = {}) {
  return score(scorer_of(data_source, settings.version), response, ground_truth, settings);
}

}  // namespace verify
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify {

RLCORE_INLINE scorer scorer_of(std::string_view data_source, verl::version version) {
  const std::string source = "data_source '" + data::printable(data_source) + "' ";
  std::vector<std::string> names;
  for (const auto& [name, rule, since] : scored_sources) {
    const bool prefix = name.ends_with('*');
    if (prefix ? data_source.starts_with(name.substr(0, name.size() - 1)) : data_source == name) {
      if (rule == scorer::code)
        throw data_error(source +
                         "is scored by running code in a sandbox, which this version does not have; give a "
                         "reward function of your own");
      if (version < since)
        throw data_error(source +
                         "has no reward function in verl before 0.6, which rlcore.verl asks for; expected "
                         "rlcore.verl=0.6.1 or later, or a reward function of your own");
      return rule;
    }
    if (!prefix) names.emplace_back(name);
  }
  throw data_error(source +
                   "has no reward function; expected one such as 'openai/gsm8k' or 'math_dapo', or a reward "
                   "function of your own" +
                   did_you_mean(data_source, names));
}

RLCORE_INLINE verdict score(scorer rule, std::string_view response, std::string_view ground_truth,
                            const rule_settings& settings) {
  switch (rule) {
    case scorer::gsm8k:
      return score_gsm8k(response, ground_truth, settings.gsm8k);
    case scorer::math:
      return score_math(response, ground_truth, settings.math);
    case scorer::math_dapo:
      return score_math_dapo(response, ground_truth, settings.math_dapo);
    case scorer::prime_math:
      return score_prime_math(response, ground_truth, settings.prime_math);
    case scorer::geo3k:
      return score_geo3k(response, ground_truth, settings.geo3k);
    case scorer::search:
      return score_search_answer(response, ground_truth, settings.search);
    case scorer::last_number:
      return score_last_number(response, ground_truth);
    default:
      throw std::invalid_argument("rlcore: score by a rule that this version does not have");
  }
}

}  // namespace verify
RLCORE_END
#endif
