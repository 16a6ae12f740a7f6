// Rows with one answer that is desirable or not, for KTO.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/data/blend.hpp"
#include "rlcore/trainer/preference/preference_rows.hpp"
#include "rlcore/trainer/preference/row_text.hpp"
#include "rlcore/trainer/preference/row_types.hpp"

RLCORE_BEGIN
namespace trainer {

/// 1 or true is desirable, 0 or false is not.
inline bool read_label(const data::row& from, const std::string& key, const std::string& where) {
  const data::row& value = data::column(from, key, where);
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number() && (value == 0 || value == 1)) return value == 1;
  throw data_error(where + ": column '" + data::printable(key) + "' is " + data::printable(value.dump()) +
                   "; expected 1 (desirable) or 0");
}

/// Prompt and answer of a row as text.
inline prompt_and_answer unpaired_text(const data::row& from, const unpaired_columns& keys, const row_rules& rules,
                                       const std::string& where) {
  if (!rules.chat) {
    std::string prompt = text_column(from, keys.input, where);
    if (rules.input_template) prompt = fill_template(*rules.input_template, prompt);
    return {std::move(prompt), text_column(from, keys.output, where)};
  }
  auto conversation = message_column(from, keys.input, "user", where);
  std::vector<text::message> prompt(conversation.begin(), conversation.end() - (keys.output.empty() ? 1 : 0));
  if (!keys.output.empty())
    for (text::message& m : message_column(from, keys.output, "assistant", where)) conversation.push_back(std::move(m));
  return split_conversation(rules, prompt, std::move(conversation), where);
}

/// Reads every row; those whose prompt has max_len - 2 tokens or more are left out. Throws config_error without an
/// output column where one is needed, data_error naming file, row and column.
inline preference_rows<unpaired_row> read_unpaired(const data::blend& from, const unpaired_columns& keys,
                                                   const row_rules& rules) {
  if (!rules.chat && keys.output.empty())
    throw config_error(
        "--output_key is needed: the column with the answers (or --apply_chat_template, with whole "
        "conversations in --input_key)");
  preference_rows<unpaired_row> out;
  out.read = from.size();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::string where = from.where(i);
    try {
      rules.check_words(from[i], where);
      unpaired_row row{unpaired_text(from[i], keys, rules, where), {}, 0, read_label(from[i], keys.label, where)};
      row.prompt_length = rules.length(row.text.prompt);
      if (row.prompt_length + 2 >= rules.max_len) {
        ++out.long_prompts;
        continue;
      }
      bool cut = false;
      row.tokens = rules.ended(row.text.prompt + row.text.answer, cut);
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
  return out;
}

}  // namespace trainer
RLCORE_END
