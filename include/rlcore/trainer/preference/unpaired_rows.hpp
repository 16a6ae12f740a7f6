// Rows with one answer that is desirable or not, for KTO.
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
#include "rlcore/trainer/preference/preference_rows.hpp"
#include "rlcore/trainer/preference/row_text.hpp"
#include "rlcore/trainer/preference/row_types.hpp"
#include "rlcore/training/model_images.hpp"

RLCORE_BEGIN
namespace trainer {

/// 1 or true is desirable, 0 or false is not.
bool read_label(const data::row& from, const std::string& key, const std::string& where);

/// Prompt and answer of a row as text. Its images are all in the prompt; their paths start in `folder`.
prompt_and_answer unpaired_text(const data::row& from, const unpaired_columns& keys, const row_rules& rules,
                                const std::string& where, const std::filesystem::path& folder);

/// Reads every row; those whose prompt has max_len - 2 tokens or more are left out. Throws config_error without an
/// output column where one is needed, data_error naming file, row and column.
preference_rows<unpaired_row> read_unpaired(const data::blend& from, const unpaired_columns& keys,
                                            const row_rules& rules);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

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
  out.pictures = image_text(shown);
  return out;
}

}  // namespace trainer
RLCORE_END
#endif
