// Rows with a preferred and a rejected answer, for DPO and reward models.
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

/// Prompt and both answers of one row as text.
inline std::pair<prompt_and_answer, std::string> pair_text(const data::row& from, const pair_columns& keys,
                                                           const row_rules& rules, bool needs_prompt,
                                                           const std::string& where) {
  if (!rules.chat) {
    prompt_and_answer chosen;
    if (!keys.prompt.empty()) {
      chosen.prompt = text_column(from, keys.prompt, where);
      if (rules.input_template) chosen.prompt = fill_template(*rules.input_template, chosen.prompt);
    }
    chosen.answer = text_column(from, keys.chosen, where);
    return {std::move(chosen), text_column(from, keys.rejected, where)};
  }
  auto chosen = message_column(from, keys.chosen, "assistant", where);
  auto rejected = message_column(from, keys.rejected, "assistant", where);
  if (keys.prompt.empty() && !needs_prompt) return {{"", rules.chat->render(chosen)}, rules.chat->render(rejected)};
  std::vector<text::message> prompt;
  if (keys.prompt.empty()) {
    prompt.assign(chosen.begin(), chosen.end() - 1);  // the prompt of both, as OpenRLHF has it
  } else {
    prompt = message_column(from, keys.prompt, "user", where);
    chosen.insert(chosen.begin(), prompt.begin(), prompt.end());
    rejected.insert(rejected.begin(), prompt.begin(), prompt.end());
  }
  return {split_conversation(rules, prompt, std::move(chosen), where),
          split_conversation(rules, prompt, std::move(rejected), where).answer};
}

/// Reads every row. `for_dpo`: the prompt is told apart from the answers, and rows whose prompt has max_len - 2 tokens
/// or more are left out. Throws data_error naming file, row and column.
inline preference_rows<preference_pair> read_pairs(const data::blend& from, const pair_columns& keys,
                                                   const row_rules& rules, bool for_dpo) {
  preference_rows<preference_pair> out;
  out.read = from.size();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::string where = from.where(i);
    try {
      rules.check_words(from[i], where);
      const auto [chosen, rejected] = pair_text(from[i], keys, rules, for_dpo, where);
      preference_pair pair;
      if (for_dpo) pair.prompt_length = rules.length(chosen.prompt);
      if (for_dpo && pair.prompt_length + 2 >= rules.max_len) {
        ++out.long_prompts;
        continue;
      }
      bool cut = false;
      pair.chosen = rules.ended(chosen.prompt + chosen.answer, cut);
      pair.rejected = rules.ended(chosen.prompt + rejected, cut);
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
  return out;
}

}  // namespace trainer
RLCORE_END
