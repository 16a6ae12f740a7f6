// Reads preference data: pairs, single judged answers, answers with judged steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/data/blend.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/preference/row_text.hpp"
#include "rlcore/train/preference/rows.hpp"

RLCORE_BEGIN
namespace train {

/// Both answers of a row behind their prompt, as messages. Without a chat template a text is a message.
struct pair_conversations {
  std::vector<text::message> chosen, rejected;
  std::size_t prompt = 0;  ///< messages of both that are the prompt
};

/// Reads the columns of a row. Throws data_error naming row and column.
pair_conversations read_conversations(const data::row& from, const pair_columns& keys, const row_rules& rules,
                                      const std::string& where);

/// Prompt and both answers of one row as text. `needs_prompt`: the prompt is told apart from the answers, and has all
/// images. Paths of images start in `folder`.
std::pair<prompt_and_answer, std::string> pair_text(const data::row& from, const pair_columns& keys,
                                                    const row_rules& rules, bool needs_prompt, const std::string& where,
                                                    const std::filesystem::path& folder);

/// Reads every row. `for_dpo`: the prompt is told apart from the answers, and rows whose prompt has max_len - 2 tokens
/// or more are left out. Throws data_error naming file, row and column.
preference_rows<preference_pair> read_pairs(const data::blend& from, const pair_columns& keys, const row_rules& rules,
                                            bool for_dpo);

/// 1 or true is desirable, 0 or false is not.
bool read_label(const data::row& from, const std::string& key, const std::string& where);

/// Prompt and answer of a row as text. Its images are all in the prompt; their paths start in `folder`.
prompt_and_answer unpaired_text(const data::row& from, const unpaired_columns& keys, const row_rules& rules,
                                const std::string& where, const std::filesystem::path& folder);

/// Reads every row; those whose prompt has max_len - 2 tokens or more are left out. Throws config_error without an
/// output column where one is needed, data_error naming file, row and column.
preference_rows<unpaired_row> read_unpaired(const data::blend& from, const unpaired_columns& keys,
                                            const row_rules& rules);

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

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE pair_conversations read_conversations(const data::row& from, const pair_columns& keys,
                                                    const row_rules& rules, const std::string& where) {
  const auto read = [&](const std::string& key, const char* role) {
    if (rules.chat) return message_column(from, key, role, rules, where);
    return std::vector<text::message>{{role, text_column(from, key, where)}};
  };
  std::vector<text::message> prompt;
  if (!keys.prompt.empty()) prompt = read(keys.prompt, "user");
  if (rules.input_template && !prompt.empty())
    prompt.front().content = fill_template(*rules.input_template, prompt.front().content);
  pair_conversations both{prompt, prompt, prompt.size()};
  for (text::message& m : read(keys.chosen, "assistant")) both.chosen.push_back(std::move(m));
  for (text::message& m : read(keys.rejected, "assistant")) both.rejected.push_back(std::move(m));
  // The prompt of both, as OpenRLHF has it.
  if (rules.chat && keys.prompt.empty()) both.prompt = both.chosen.size() - 1;
  return both;
}

RLCORE_INLINE std::pair<prompt_and_answer, std::string> pair_text(const data::row& from, const pair_columns& keys,
                                                                  const row_rules& rules, bool needs_prompt,
                                                                  const std::string& where,
                                                                  const std::filesystem::path& folder) {
  pair_conversations both = read_conversations(from, keys, rules, where);
  std::vector<data::image_pointer> images = data::take_images(from, both.chosen, rules.images, where, folder);
  data::show_again(both.rejected, images.size(), rules.images,
                   where + ": column '" + data::printable(keys.rejected) + "'");
  const auto prompt = std::span<const text::message>(both.chosen).first(both.prompt);
  if (needs_prompt) check_answer_is_words(prompt, images.size(), where);
  std::pair<prompt_and_answer, std::string> out;
  if (!rules.chat) {
    out.first = {prompt.empty() ? "" : data::written_text(prompt.front(), rules.images),
                 data::written_text(both.chosen.back(), rules.images)};
    out.second = data::written_text(both.rejected.back(), rules.images);
  } else if (keys.prompt.empty() && !needs_prompt) {
    out = {{"", taught_text(rules, both.chosen)}, taught_text(rules, both.rejected)};
  } else {
    out = {split_conversation(rules, prompt, both.chosen, where),
           split_conversation(rules, prompt, both.rejected, where).answer};
  }
  out.first.images = std::move(images);
  return out;
}

RLCORE_INLINE preference_rows<preference_pair> read_pairs(const data::blend& from, const pair_columns& keys,
                                                          const row_rules& rules, bool for_dpo) {
  preference_rows<preference_pair> out;
  out.read = from.size();
  out.cache = rules.images.cache;
  data::image_counts shown;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::string where = from.where(i);
    try {
      auto [chosen, rejected] = pair_text(from[i], keys, rules, for_dpo, where, from.folder(i));
      preference_pair pair;
      if (for_dpo) pair.prompt_length = rules.tokens(chosen.prompt, chosen.images, where).size();
      const bool fits = !for_dpo || pair.prompt_length + 2 < rules.max_len;
      shown.add_row(chosen.images, rules.images, fits);
      if (!fits) {
        ++out.long_prompts;
        continue;
      }
      bool cut = false;
      pair.chosen = rules.ended(chosen.prompt + chosen.answer, cut, chosen.images, where);
      pair.rejected = rules.ended(chosen.prompt + rejected, cut, chosen.images, where);
      pair.images = std::move(chosen.images);
      const std::size_t first = for_dpo ? std::max<std::size_t>(pair.prompt_length, 1) : 0;
      if (pair.chosen.size() <= first || pair.rejected.size() <= first) {
        ++out.nothing_left;
        continue;
      }
      if (const auto margin = from[i].find("margin"); margin != from[i].end() && !margin->is_null()) {
        if (!margin->is_number())
          throw data_error(where + ": column 'margin' is " + data::printable(margin->dump()) + "; expected a number");
        pair.margin = margin->get<double>();
      }
      out.truncated += cut;
      out.rows.push_back(std::move(pair));
    } catch (const error& e) {
      at_row(where, e);
    }
  }
  out.images = image_text(shown);
  return out;
}

RLCORE_INLINE bool read_label(const data::row& from, const std::string& key, const std::string& where) {
  const data::row& value = data::column(from, key, where);
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number() && (value == 0 || value == 1)) return value == 1;
  throw data_error(where + ": column '" + data::printable(key) + "' is " + data::printable(text::json_text(value)) +
                   "; expected 1 (desirable) or 0");
}

RLCORE_INLINE prompt_and_answer unpaired_text(const data::row& from, const unpaired_columns& keys,
                                              const row_rules& rules, const std::string& where,
                                              const std::filesystem::path& folder) {
  std::vector<text::message> conversation;
  std::size_t prompt_messages = 1;
  if (rules.chat) {
    conversation = message_column(from, keys.input, "user", rules, where);
    prompt_messages = conversation.size() - (keys.output.empty() ? 1 : 0);
    if (!keys.output.empty())
      for (text::message& m : message_column(from, keys.output, "assistant", rules, where))
        conversation.push_back(std::move(m));
  } else {
    const std::string& input = text_column(from, keys.input, where);
    conversation = {{"user", rules.input_template ? fill_template(*rules.input_template, input) : input},
                    {"assistant", text_column(from, keys.output, where)}};
  }
  std::vector<data::image_pointer> images = data::take_images(from, conversation, rules.images, where, folder);
  const auto prompt = std::span<const text::message>(conversation).first(prompt_messages);
  check_answer_is_words(prompt, images.size(), where);
  prompt_and_answer out = rules.chat ? split_conversation(rules, prompt, conversation, where)
                                     : prompt_and_answer{data::written_text(conversation.front(), rules.images),
                                                         conversation.back().content};
  out.images = std::move(images);
  return out;
}

RLCORE_INLINE preference_rows<unpaired_row> read_unpaired(const data::blend& from, const unpaired_columns& keys,
                                                          const row_rules& rules) {
  if (!rules.chat && keys.output.empty())
    throw config_error(
        "--output_key is needed: the column with the answers (or --apply_chat_template, with whole "
        "conversations in --input_key)");
  preference_rows<unpaired_row> out;
  out.read = from.size();
  out.cache = rules.images.cache;
  data::image_counts shown;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::string where = from.where(i);
    try {
      unpaired_row row{
          unpaired_text(from[i], keys, rules, where, from.folder(i)), {}, 0, read_label(from[i], keys.label, where)};
      row.prompt_length = rules.tokens(row.text.prompt, row.text.images, where).size();
      const bool fits = row.prompt_length + 2 < rules.max_len;
      shown.add_row(row.text.images, rules.images, fits);
      if (!fits) {
        ++out.long_prompts;
        continue;
      }
      bool cut = false;
      row.tokens = rules.ended(row.text.prompt + row.text.answer, cut, row.text.images, where);
      if (row.tokens.size() <= std::max<std::size_t>(row.prompt_length, 1)) {
        ++out.nothing_left;
        continue;
      }
      out.truncated += cut;
      out.rows.push_back(std::move(row));
    } catch (const config_error&) {
      throw;
    } catch (const error& e) {
      at_row(where, e);
    }
  }
  out.images = image_text(shown);
  return out;
}

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
  out.images = image_text(shown);
  return out;
}

}  // namespace train
RLCORE_END
#endif
