// Rows whose steps are judged one by one, for process reward models.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/data/blend.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/trainer/preference/preference_rows.hpp"
#include "rlcore/trainer/preference/row_text.hpp"
#include "rlcore/trainer/preference/row_types.hpp"
#include "rlcore/training/model_images.hpp"

RLCORE_BEGIN
namespace trainer {

/// The one token of a text. Throws config_error, naming `name` and the number of tokens, if there are more or none.
std::int32_t single_token(const text::tokenizer& tokenizer, const std::string& text, const std::string& name);

/// Throws config_error: a word that is not one token, repeated reward tokens.
step_tokens find_step_tokens(const text::tokenizer& tokenizer, const step_columns& keys);

/// Reads the labels of one row, all hard or all soft.
void read_step_labels(const data::row& value, const step_columns& keys, const step_tokens& words,
                      const text::tokenizer& tokenizer, judged_row& to, const std::string& where);

/// Reads every row. A row has one label for each placeholder; only a text that max_len cut may have more labels, and
/// the surplus is dropped. Rows without a step are left out. Throws data_error naming file, row and both counts.
preference_rows<judged_row> read_steps(const data::blend& from, const step_columns& keys, const step_tokens& words,
                                       const row_rules& rules);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::int32_t single_token(const text::tokenizer& tokenizer, const std::string& text,
                                        const std::string& name) {
  const auto ids = tokenizer.encode(text);
  if (ids.size() == 1) return ids.front();
  throw config_error(name + " '" + data::printable(text) + "' is " + std::to_string(ids.size()) +
                     " tokens; expected one token of this model's vocabulary");
}

RLCORE_INLINE step_tokens find_step_tokens(const text::tokenizer& tokenizer, const step_columns& keys) {
  if (keys.placeholder.empty())
    throw config_error("--placeholder_token is needed: the token that stands after every step");
  step_tokens out{single_token(tokenizer, keys.placeholder, "--placeholder_token"), {}};
  for (const std::string& word : keys.reward_tokens) {
    const std::int32_t id = single_token(tokenizer, word, "--reward_tokens");
    if (std::find(out.rewards.begin(), out.rewards.end(), id) != out.rewards.end())
      throw config_error("--reward_tokens names '" + data::printable(word) + "' twice");
    out.rewards.push_back(id);
  }
  if (out.rewards.size() == 1) throw config_error("--reward_tokens needs two tokens or more, got one");
  return out;
}

RLCORE_INLINE void read_step_labels(const data::row& value, const step_columns& keys, const step_tokens& words,
                                    const text::tokenizer& tokenizer, judged_row& to, const std::string& where) {
  const std::string column = where + ": column '" + data::printable(keys.label) + "'";
  if (!value.is_array())
    throw data_error(column + " is " + data::printable(text::json_text(value)) + "; expected a list");
  for (const data::row& label : value) {
    if (label.is_string()) {
      const auto& word = label.get_ref<const std::string&>();
      const auto known = std::find(keys.reward_tokens.begin(), keys.reward_tokens.end(), word);
      if (!keys.reward_tokens.empty() && known == keys.reward_tokens.end()) {
        std::string list;
        for (const std::string& token : keys.reward_tokens) list += (list.empty() ? "" : ", ") + token;
        throw data_error(column + ": '" + data::printable(word) + "' is none of --reward_tokens (" + list + ")");
      }
      to.labels.push_back(keys.reward_tokens.empty() ? single_token(tokenizer, word, "label")
                                                     : static_cast<std::int32_t>(known - keys.reward_tokens.begin()));
    } else if (label.is_number()) {
      const double p = label.get<double>();
      if (!(p >= 0 && p <= 1))
        throw data_error(column + ": " + text::json_text(label) + " is no probability from 0 to 1");
      if (words.rewards.size() != 2)
        throw data_error(column +
                         " holds numbers (soft labels): --reward_tokens has to name two tokens, the positive " +
                         "one first; it names " + std::to_string(words.rewards.size()));
      to.probabilities.push_back(static_cast<float>(p));
    } else {
      throw data_error(column + ": " + data::printable(text::json_text(label)) +
                       "; expected a reward token or a number");
    }
  }
  if (!to.labels.empty() && !to.probabilities.empty()) throw data_error(column + " mixes reward tokens and numbers");
}

RLCORE_INLINE preference_rows<judged_row> read_steps(const data::blend& from, const step_columns& keys,
                                                     const step_tokens& words, const row_rules& rules) {
  preference_rows<judged_row> out;
  out.read = from.size();
  out.cache = rules.images.cache;
  data::image_counts shown;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::string where = from.where(i);
    try {
      judged_row row;
      bool cut = false;
      std::vector<text::message> text{{"user", text_column(from[i], keys.input, where)}};
      row.images = data::take_images(from[i], text, rules.images, where, from.folder(i));
      row.tokens = rules.head(data::written_text(text.front(), rules.images), cut, row.images, where);
      for (std::size_t t = 0; t < row.tokens.size(); ++t)
        if (row.tokens[t] == words.placeholder) row.steps.push_back(static_cast<std::int32_t>(t));
      read_step_labels(data::column(from[i], keys.label, where), keys, words, rules.tokenizer, row, where);
      const std::size_t steps = row.steps.size(), labels = row.labels.size() + row.probabilities.size();
      if (labels != steps && !(cut && labels > steps))
        throw data_error(where + ": " + std::to_string(steps) + " placeholders '" + data::printable(keys.placeholder) +
                         "' in '" + data::printable(keys.input) + "', but " + std::to_string(labels) + " labels in '" +
                         data::printable(keys.label) + "'" +
                         (cut ? " (the text was cut to " + std::to_string(rules.max_len) + " tokens)" : ""));
      shown.add_row(row.images, rules.images, steps > 0);
      if (steps == 0) {
        ++out.nothing_left;
        continue;
      }
      row.labels.resize(std::min(row.labels.size(), steps));
      row.probabilities.resize(std::min(row.probabilities.size(), steps));
      out.truncated += cut;
      out.rows.push_back(std::move(row));
    } catch (const error& e) {
      at_row(where, e);
    }
  }
  out.pictures = image_text(shown);
  return out;
}

}  // namespace trainer
RLCORE_END
#endif
