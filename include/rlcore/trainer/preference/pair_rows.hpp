// Rows with a preferred and a rejected answer, for DPO and reward models.
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
#include "rlcore/trainer/preference/preference_rows.hpp"
#include "rlcore/trainer/preference/row_text.hpp"
#include "rlcore/trainer/preference/row_types.hpp"
#include "rlcore/training/model_images.hpp"

RLCORE_BEGIN
namespace trainer {

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

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

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
    out = {{"", rules.chat->render(both.chosen)}, rules.chat->render(both.rejected)};
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
  out.pictures = image_text(shown);
  return out;
}

}  // namespace trainer
RLCORE_END
#endif
