// Prompt dataset for reinforcement learning, from rows with verl's columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/data/image_rows.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/data/template_notes.hpp"
#include "rlcore/data/truncation.hpp"
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/dropped_parts.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace data {

/// One row, templated and tokenized.
struct prompt {
  std::vector<text::message> messages;
  std::vector<std::int32_t> ids;                   ///< with the generation prompt at the end
  std::string data_source, ground_truth, ability;  ///< ability is empty when the column is absent
  std::string agent;                               ///< agent_name; empty when the column is absent
  row extra;                                       ///< extra_info, or null
  std::vector<image_pointer> images{};             ///< image k belongs to the k-th run of image tokens
  std::size_t row_number = 0;                      ///< over all files, before filtering
};

/// Identifies a prompt beyond its tokens: prompts with equal text and image sizes may have different images.
inline std::vector<content_hash> image_hashes(const prompt& p) {
  std::vector<content_hash> hashes;
  for (const image_pointer& i : p.images) hashes.push_back(i->hash);
  return hashes;
}

/// Keys `data.*` of the command line.
struct prompt_settings {
  std::string prompt_key = "prompt", source_key = "data_source";
  std::size_t max_prompt_length = 512;  ///< 0: no limit
  bool filter_overlong_prompts = false;
  data::truncation truncation = data::truncation::error;
  std::string label_key = {};       ///< column of the ground truth; empty: reward_model.ground_truth
  std::string default_source = {};  ///< data_source of rows without that column
  bool needs_truth = true;  ///< false: rows may lack data_source and reward_model (they are scored by a reward model)
  image_settings images = {};
};

/// The prompts of a run, in the order of their rows.
struct prompt_dataset {
  std::vector<prompt> prompts;
  std::shared_ptr<image_cache> cache = {};  ///< decodes the patches of their images; null: images are ignored
  std::size_t rows_read = 0;                ///< before filter_overlong_prompts; size() is after it
  image_counts images = {};
  template_notes notes = {};  ///< what the chat template leaves out

  std::size_t size() const noexcept { return prompts.size(); }
  /// Prompt i of those that are kept.
  const prompt& operator[](std::size_t i) const { return prompts[i]; }
};

/// The prompt column: a list of {role, content}, or a string, which is one message of the user.
std::vector<text::message> read_messages(const row& from, const std::string& key, const std::string& where);

/// Reads one row, without token ids. A ground truth that is an integer becomes its digits, {target: ...} its JSON.
prompt read_prompt(const row& from, const prompt_settings& settings, const std::string& where);

namespace detail {

/// Expands the image tokens of a prompt and truncates it to the limit. False if the prompt is to be dropped as too
/// long. Throws data_error with `where`, also for a prompt with images that is too long.
bool resolve_length(prompt& p, const prompt_settings& settings, image_counts& counts, const std::string& where);

}  // namespace detail

/// The text of a prompt with the assistant's turn opened. Throws data_error if the chat template drops what the model
/// has to read: contents of other roles than the assistant's. What else it drops is added to `dropped`.
/// `tools` are schemas that the prompt shows.
std::string prompt_text(const text::chat_template& chat, const std::vector<text::message>& messages,
                        std::optional<bool> enable_thinking, std::vector<text::dropped_part>& dropped,
                        std::vector<nlohmann::ordered_json> tools = {});

/// Reads all rows of all tables in order. `encode` turns a prompt or its std::vector<text::message> into token ids
/// (chat template with generation prompt, then tokenizer), with one image token for each image, and may take a second
/// argument, to which it adds what the template drops; `check_source` throws data_error for a data_source without a
/// reward function, so that it fails now and not at a later step. Throws data_error naming file, row and column.
template <class Encode, class CheckSource>
prompt_dataset make_prompts(std::span<const table> tables, const prompt_settings& settings, Encode&& encode,
                            CheckSource&& check_source) {
  prompt_dataset dataset;
  dataset.cache = settings.images.cache;
  std::string files, last_source;
  for (const table& t : tables) {
    files += (files.empty() ? "" : ", ") + t.file;
    const std::filesystem::path folder = std::filesystem::path(t.file).parent_path();
    for (std::size_t i = 0; i < t.rows.size(); ++i, ++dataset.rows_read) {
      const std::string where = row_text(t.file, i);
      prompt p = read_prompt(t.rows[i], settings, where);
      p.row_number = dataset.rows_read;
      p.images = take_images(t.rows[i], p.messages, settings.images, where, folder);
      try {
        if (p.data_source != last_source || i == 0) check_source(p.data_source);
        std::vector<text::dropped_part> dropped;
        if constexpr (std::is_invocable_v<Encode&, const prompt&, std::vector<text::dropped_part>&>)
          p.ids = encode(std::as_const(p), dropped);
        else if constexpr (std::is_invocable_v<Encode&, const std::vector<text::message>&,
                                               std::vector<text::dropped_part>&>)
          p.ids = encode(p.messages, dropped);
        else
          p.ids = encode(p.messages);
        dataset.notes.add(dropped, where);
      } catch (const error& e) {
        throw data_error(where + ": " + e.what());
      }
      last_source = p.data_source;
      if (p.ids.empty()) throw data_error(where + ": the prompt has no tokens");
      check_image_tokens(p.ids, p.images.size(), settings.images, where);
      if (detail::resolve_length(p, settings, dataset.images, where)) dataset.prompts.push_back(std::move(p));
    }
  }
  if (dataset.rows_read == 0) throw data_error(files + ": no rows");
  if (dataset.prompts.empty())
    throw data_error(files + ": all " + std::to_string(dataset.rows_read) +
                     " prompts are longer than data.max_prompt_length " + std::to_string(settings.max_prompt_length));
  return dataset;
}

}  // namespace data
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DATA)
RLCORE_BEGIN
namespace data {

RLCORE_INLINE std::string prompt_text(const text::chat_template& chat, const std::vector<text::message>& messages,
                                      std::optional<bool> enable_thinking, std::vector<text::dropped_part>& dropped,
                                      std::vector<nlohmann::ordered_json> tools) {
  const std::vector<text::message> accepted = chat.accepted(messages);
  std::string text = chat.render(
      accepted, {.add_generation_prompt = true, .enable_thinking = enable_thinking, .tools = std::move(tools)},
      &dropped);
  for (const text::dropped_part& part : dropped)
    if (text::is_needed(part, accepted)) throw data_error(chat.text_of(part));
  return text;
}

RLCORE_INLINE std::vector<text::message> read_messages(const row& from, const std::string& key,
                                                       const std::string& where) {
  const row& value = column(from, key, where);
  if (value.is_string()) return {text::message{"user", value.get<std::string>()}};
  if (!value.is_array() || value.empty())
    throw data_error(where + ": column '" + printable(key) + "' is " + printable(text::json_text(value)) +
                     "; expected a list of {role, content} or a string");
  try {
    return text::messages_from_json(text::stored_messages(value), text::content_form::parts);
  } catch (const data_error& e) {
    throw data_error(where + ": column '" + printable(key) + "': " + e.what());
  }
}

RLCORE_INLINE prompt read_prompt(const row& from, const prompt_settings& settings, const std::string& where) {
  if (!from.contains(settings.prompt_key) && from.contains("question") && from.contains("answer"))
    throw data_error(where + ": no column '" + printable(settings.prompt_key) +
                     "' but question and answer: raw GSM8K; convert it with gsm8k_preprocess first");
  prompt p;
  p.messages = read_messages(from, settings.prompt_key, where);
  if (!from.contains(settings.source_key) && !settings.default_source.empty())
    p.data_source = settings.default_source;
  else if (settings.needs_truth && !from.contains(settings.source_key))
    throw data_error(where + ": no column '" + printable(settings.source_key) +
                     "', which chooses the reward; rlcore.data_source=openai/gsm8k or math_dapo names a rule for all "
                     "rows, a program that scores (custom_reward_function.path=FILE) takes any name, a reward model "
                     "(reward_model.enable=True) needs none");
  else if (from.contains(settings.source_key))
    p.data_source = string_column(from, settings.source_key, where);
  else
    p.data_source = "unknown";
  const auto is_integer = [](const row& x) { return x.is_number_integer() || text::is_big_integer(x); };
  if (!settings.label_key.empty()) {
    const row& label = column(from, settings.label_key, where);
    p.ground_truth = is_integer(label) ? text::integer_digits(label) : string_column(from, settings.label_key, where);
  } else if (settings.needs_truth || from.contains("reward_model")) {
    if (!from.contains("reward_model"))
      throw data_error(where + ": no column 'reward_model' with the right answer; name the column that has it: " +
                       "rlcore.label_key=COLUMN; the row has " + printable(column_names(from), 300));
    const row& reward = from["reward_model"];
    if (!reward.is_object())
      throw data_error(where + ": column 'reward_model' is " + printable(text::json_text(reward)) +
                       "; expected {style, ground_truth}");
    const row& truth = column(reward, "ground_truth", where + ": column 'reward_model'");
    const bool targets = truth.is_object() && truth.contains("target");  // search answers
    p.ground_truth = is_integer(truth) ? text::integer_digits(truth)
                     : targets         ? text::exact_dump(truth)
                                       : string_column(reward, "ground_truth", where + ": column 'reward_model'");
  }
  if (from.contains("ability") && from["ability"].is_string()) p.ability = from["ability"].get<std::string>();
  if (from.contains("agent_name") && !from["agent_name"].is_null()) p.agent = string_column(from, "agent_name", where);
  if (from.contains("extra_info")) p.extra = from["extra_info"];
  return p;
}

}  // namespace data

namespace data::detail {

RLCORE_INLINE bool resolve_length(prompt& p, const prompt_settings& settings, image_counts& counts,
                                  const std::string& where) {
  const std::size_t length = p.ids.size() + count_added_tokens(p.images, settings.images);
  const bool overlong = settings.max_prompt_length > 0 && length > settings.max_prompt_length;
  const bool is_left = !(overlong && settings.filter_overlong_prompts);
  counts.add_row(p.images, settings.images, is_left);
  if (!is_left) return false;
  if (!p.images.empty()) {
    if (overlong && settings.truncation != truncation::error)
      throw data_error(where + ": prompt: " + std::to_string(length) + " tokens with " + images_text(p.images.size()) +
                       ", but data.max_prompt_length is " + std::to_string(settings.max_prompt_length) +
                       "; images are not truncated: data.filter_overlong_prompts=True leaves such rows out");
    p.ids = expand_image_tokens(std::move(p.ids), p.images, settings.images);
  }
  truncate(p.ids, settings.max_prompt_length, settings.truncation, where + ": prompt", "data.max_prompt_length");
  return true;
}

}  // namespace data::detail
RLCORE_END
#endif
