// Reads stored responses: from evaluate, from a trainer (trainer.rollout_data_dir), or from external tools.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace train {

/// One response with the inputs of its rule.
struct stored_response {
  std::string source, truth, prompt, text;
  std::uint64_t problem = 0;  ///< equal prompts of one source are one problem
};

namespace detail {

/// The first of `names` that the row has and that is not null.
inline const data::row* first_of(const data::row& from, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto at = from.find(name); at != from.end() && !at->is_null()) return &*at;
  return nullptr;
}

inline std::string text_of(const data::row& value) {
  return value.is_string() ? value.get<std::string>() : text::exact_dump(value);
}

}  // namespace detail

/// One row per line: the response(s) under response, output, completion or responses (a text or a list), the answer
/// under ground_truth, gts, gold_answer, answer or reward_model.ground_truth, the prompt under prompt, input or
/// question, and data_source. With `any_rule` rows without data_source are named after their file; otherwise that is a
/// data_error.
std::vector<stored_response> read_stored_responses(const std::vector<std::string>& files, bool any_rule);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::vector<stored_response> read_stored_responses(const std::vector<std::string>& files, bool any_rule) {
  std::vector<stored_response> out;
  std::unordered_map<std::string, std::uint64_t> problems;
  for (const std::string& file : files) {
    const std::vector<data::row> rows = data::read_jsonl(checkpoint::expand_home(file));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const data::row& r = rows[i];
      const std::string where = data::row_text(file, i);
      const data::row* texts = detail::first_of(r, {"response", "responses", "output", "completion"});
      if (texts == nullptr) data::column(r, "response", where);  // reports the columns present
      const data::row* truth = detail::first_of(r, {"ground_truth", "gts", "gold_answer", "answer"});
      if (truth == nullptr && r.contains("reward_model") && r["reward_model"].is_object())
        truth = detail::first_of(r["reward_model"], {"ground_truth"});
      if (truth == nullptr) data::column(r, "ground_truth", where);
      const data::row* prompt = detail::first_of(r, {"prompt", "input", "question", "origin_prompt"});
      stored_response s;
      if (const data::row* named = detail::first_of(r, {"data_source"}); named != nullptr && named->is_string())
        s.source = named->get<std::string>();
      else if (any_rule)
        s.source = std::filesystem::path(file).filename().string();
      else
        throw data_error(where + ": no column 'data_source' to choose a rule by; give rule=gsm8k, math or math_dapo");
      s.truth = detail::text_of(*truth);
      if (prompt != nullptr) s.prompt = detail::text_of(*prompt);
      const std::string key = s.source + '\0' + (prompt != nullptr ? s.prompt : where);
      s.problem = problems.try_emplace(key, problems.size()).first->second;
      const data::row list = texts->is_array() ? *texts : data::row::array({*texts});
      for (const data::row& text : list) {
        if (!text.is_string())
          throw data_error(where + ": a response is " + data::printable(text::json_text(text)) + "; expected a text");
        s.text = text.get<std::string>();
        out.push_back(s);
      }
    }
    if (rows.empty()) throw data_error(file + ": no rows");
  }
  return out;
}

}  // namespace train
RLCORE_END
#endif
