// SFT examples from the columns of a table: verl's two layouts and OpenRLHF's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/data/sft_dataset.hpp"
#include "rlcore/data/template_notes.hpp"
#include "rlcore/data/truncation.hpp"
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace data {

/// The columns of a row.
enum class sft_layout {
  question,      ///< verl: a question and an answer, in columns or inside map columns
  conversation,  ///< verl's data.multiturn: a list of messages, tools, a thinking switch
  plain,         ///< OpenRLHF: input and output, the input inserted into a text template
  chat,          ///< OpenRLHF's apply_chat_template: texts or lists of messages
  text           ///< OpenRLHF's pretrain_mode: one text, trained on all tokens
};

/// How rows become examples.
struct sft_settings {
  sft_layout layout = sft_layout::question;
  std::string prompt_key = "question",
              response_key = "answer";  ///< plain, chat, text: input_key and output_key ("": none)
  std::vector<std::string> prompt_path = {}, response_path = {};  ///< verl's *_dict_keys: one key after another
  std::string messages_key = "messages", tools_key = "tools", thinking_key = "enable_thinking";
  std::string before = {}, after = {};       ///< plain: text around the input
  learnt_turns learnt = learnt_turns::all;   ///< chat
  std::optional<bool> enable_thinking = {};  ///< question, chat: for every row
  std::size_t max_length = 1024;
  data::truncation truncation = data::truncation::error;
  std::size_t max_rows = 0;    ///< reads only the first max_rows; 0: all
  image_settings images = {};  ///< of rows with images
};

/// The examples of all kept rows, in order.
struct sft_rows {
  std::vector<sft_example> examples;
  std::size_t rows_read = 0;  ///< OpenRLHF drops rows that are empty or whose prompt leaves no room
  template_notes notes{};     ///< what the chat template leaves out of rows

  std::size_t size() const noexcept { return examples.size(); }
};

namespace detail {

/// value[key] for each key of the path; a list of one element counts as that element.
inline const row& follow(const row& from, const std::string& name, std::span<const std::string> path,
                         const std::string& where) {
  const auto alone = [](const row* v) {
    while (v->is_array() && v->size() == 1) v = &(*v)[0];
    return v;
  };
  const row* value = &column(from, name, where);
  std::string place = where + ": column '" + printable(name) + "'";
  for (const std::string& key : path) {
    value = alone(value);
    if (!value->is_object())
      throw data_error(place + " is " + printable(value->dump()) + "; expected a map with the key '" + printable(key) +
                       "'");
    if (!value->contains(key)) {
      std::vector<std::string> names;
      std::string list;
      for (const auto& [known, ignored] : value->items()) {
        names.push_back(printable(known));
        list += (list.empty() ? "" : ", ") + names.back();
      }
      throw data_error(place + ": no key '" + printable(key) + "'; it has " + printable(list, 300) +
                       did_you_mean(key, names));
    }
    value = &(*value)[key];
    place += "['" + printable(key) + "']";
  }
  return *value;
}

inline const std::string& text_at(const row& from, const std::string& name, std::span<const std::string> path,
                                  const std::string& where) {
  const row& value = follow(from, name, path, where);
  if (!value.is_string())
    throw data_error(
        where + ": column '" + printable(name) + "' is " + printable(text::json_text(value)) +
        (value.is_object()
             ? "; expected a string: choose a key of the map (data.prompt_dict_keys, data.response_dict_keys)"
             : "; expected a string"));
  return value.get_ref<const std::string&>();
}

/// A list of messages (or its JSON text).
inline std::vector<text::message> messages_at(const row& value, const std::string& place,
                                              text::content_form form = text::content_form::text) {
  const row list = value.is_string() ? text::try_parse_exact_json<row>(value.get_ref<const std::string&>())
                                     : text::stored_messages(value);
  if (list.is_discarded())
    throw data_error(place + " is " + printable(text::json_text(value)) + "; expected a list of {role, content}");
  try {
    return text::messages_from_json(list, form);
  } catch (const data_error& e) {
    throw data_error(place + ": " + e.what());
  }
}

/// Tool schemas: a list of them, its JSON text, or a list of JSON texts. null: none.
inline std::vector<nlohmann::ordered_json> tools_at(const row& value, const std::string& place) {
  const auto parsed = [&](const row& v) -> row {
    if (!v.is_string()) return text::without_null_members(v);
    row list = text::try_parse_exact_json<row>(v.get_ref<const std::string&>());
    if (list.is_discarded())
      throw data_error(place + " is " + printable(text::json_text(v)) + "; expected a list of tool schemas");
    return list;
  };
  const row list = parsed(value);
  if (list.is_null()) return {};
  if (!list.is_array())
    throw data_error(place + " is " + printable(text::json_text(list)) + "; expected a list of tool schemas");
  std::vector<nlohmann::ordered_json> tools;
  for (const row& tool : list) {
    tools.push_back(parsed(tool));
    if (!tools.back().is_object())
      throw data_error(place + ": a tool is " + printable(text::json_text(tool)) + "; expected a map");
  }
  return tools;
}

}  // namespace detail

/// Turns rows into examples. `chat` may be null for layouts without chat template.
class sft_reader {
 public:
  /// All arguments have to outlive it. Throws config_error for a tokenizer without an eos_token.
  sft_reader(const sft_settings& settings, const text::tokenizer& tokenizer, const text::chat_template* chat)
      : settings_(settings), tokenizer_(tokenizer), chat_(chat) {
    if (!tokenizer.eos_id())
      throw config_error("tokenizer_config.json names no eos_token; supervised rows end with it");
    eos_ = *tokenizer.eos_id();
    eos_text_ = tokenizer.token_of(eos_);
  }

  /// Reads one row; empty for a row that OpenRLHF drops. Relative image paths start in `folder`. What the chat template
  /// leaves out is added to `notes`. Throws data_error starting with `where`.
  std::optional<sft_example> operator()(const row& from, const std::string& where,
                                        const std::filesystem::path& folder = {},
                                        template_notes* notes = nullptr) const {
    try {
      switch (settings_.layout) {
        case sft_layout::question:
          return question(from, where, folder);
        case sft_layout::conversation:
          return conversation(from, where, folder, notes);
        case sft_layout::plain:
          return plain(from, where, folder);
        case sft_layout::chat:
          return chat(from, where, folder, notes);
        case sft_layout::text:
          return text_only(from, where, folder);
      }
    } catch (const data_error& e) {
      const std::string message = e.what();
      if (message.starts_with(where)) throw;
      throw data_error(where + ": " + message);
    } catch (const config_error& e) {
      throw data_error(where + ": " + e.what());
    }
    return std::nullopt;
  }

 private:
  sft_example question(const row& from, const std::string& where, const std::filesystem::path& folder) const {
    const std::string& prompt = detail::text_at(from, settings_.prompt_key, settings_.prompt_path, where);
    const std::string& response = detail::text_at(from, settings_.response_key, settings_.response_path, where);
    if (response.empty())
      throw data_error(where + ": the response (column '" + printable(settings_.response_key) +
                       "') is empty; there is nothing to learn but the end mark");
    std::vector<text::message> messages{{"user", prompt}};
    std::vector<image_pointer> images = take_images(from, messages, settings_.images, where, folder);
    const std::string opened = chat_->render(
        chat_->accepted(messages), {.add_generation_prompt = true, .enable_thinking = settings_.enable_thinking});
    std::vector<std::int32_t> ids = tokenizer_.encode(opened);
    const std::vector<std::int32_t> answer = tokenizer_.encode(response);
    check_image_tokens(ids, images.size(), settings_.images, where);
    check_image_tokens(answer, 0, settings_.images, where);
    ids = expand_image_tokens(std::move(ids), images, settings_.images);
    return make_sft_example(ids, answer, eos_, settings_.max_length, settings_.truncation, where, std::move(images));
  }

  sft_example conversation(const row& from, const std::string& where, const std::filesystem::path& folder,
                           template_notes* notes) const {
    const std::string place = where + ": column '" + printable(settings_.messages_key) + "'";
    auto messages = detail::messages_at(column(from, settings_.messages_key, where), place, text::content_form::parts);
    if (messages.empty()) throw data_error(place + " has no messages");
    std::vector<image_pointer> images = take_images(from, messages, settings_.images, where, folder);
    text::render_options options;
    if (const auto tools = from.find(settings_.tools_key); tools != from.end())
      options.tools = detail::tools_at(*tools, where + ": column '" + printable(settings_.tools_key) + "'");
    if (const auto thinking = from.find(settings_.thinking_key); thinking != from.end() && !thinking->is_null()) {
      if (!thinking->is_boolean())
        throw data_error(where + ": column '" + printable(settings_.thinking_key) + "' is " +
                         printable(thinking->dump()) + "; expected true or false");
      options.enable_thinking = thinking->get<bool>();
    }
    if (std::none_of(messages.begin(), messages.end(), [](const auto& m) { return m.role == "assistant"; }))
      throw data_error(place + ": no message of the assistant; there is nothing to learn");
    sft_example example =
        with_images(conversation_example(*chat_, tokenizer_, messages, options, learnt_turns::all, notes, where),
                    std::move(images), settings_.images, where);
    truncate(example, settings_.max_length, settings_.truncation, where);
    return example;
  }

  /// OpenRLHF tokenizes prompt and response together, and the prompt alone to count its tokens.
  std::optional<sft_example> plain(const row& from, const std::string& where,
                                   const std::filesystem::path& folder) const {
    std::vector<text::message> asked{
        {"user", settings_.before + detail::text_at(from, settings_.prompt_key, {}, where) + settings_.after}};
    std::vector<image_pointer> images = take_images(from, asked, settings_.images, where, folder);
    const std::string prompt = written_text(asked.front(), settings_.images);
    const std::string response =
        settings_.response_key.empty() ? std::string() : detail::text_at(from, settings_.response_key, {}, where);
    const std::size_t length = tokenizer_.encode(prompt).size();
    if (prompt.empty() || response.empty() || no_room(length + count_added_tokens(images, settings_.images)))
      return std::nullopt;
    sft_example example;
    const std::vector<std::int32_t> ids = tokenizer_.encode(ended(prompt + response));
    example.append(std::span(ids).first(std::min(length, ids.size())), false);
    example.append(std::span(ids).subspan(std::min(length, ids.size())), true);
    return cut(with_images(std::move(example), std::move(images), settings_.images, where), where);
  }

  std::optional<sft_example> chat(const row& from, const std::string& where, const std::filesystem::path& folder,
                                  template_notes* notes) const {
    const auto form = settings_.images.processor ? text::content_form::parts : text::content_form::text;
    const auto read = [&](const std::string& key, const char* role) {
      const row& value = column(from, key, where);
      if (value.is_string()) return std::vector<text::message>{{role, value.get<std::string>()}};
      return detail::messages_at(value, where + ": column '" + printable(key) + "'", form);
    };
    std::vector<text::message> messages = read(settings_.prompt_key, "user");
    if (!settings_.response_key.empty())
      for (text::message& m : read(settings_.response_key, "assistant")) messages.push_back(std::move(m));
    if (messages.size() < 2 || messages.back().role != "assistant")
      throw data_error(where + ": expected a conversation that ends with a message of the assistant" +
                       (settings_.response_key.empty()
                            ? "; name the column of the response with --output_key if it is another"
                            : ""));
    std::vector<image_pointer> images = take_images(from, messages, settings_.images, where, folder);
    const bool empty = messages.back().content.empty() && messages.back().tool_calls.empty();
    sft_example example =
        with_images(conversation_example(*chat_, tokenizer_, messages, {.enable_thinking = settings_.enable_thinking},
                                         settings_.learnt, notes, where),
                    std::move(images), settings_.images, where);
    // The text of the template after the last end mark is dropped, since the model stops at the end mark; an end mark
    // other than the tokenizer's eos is followed by the eos.
    while (!example.written.empty() && example.written.back() == 0)
      example.tokens.pop_back(), example.written.pop_back();
    const auto begin = std::find(example.written.rbegin(), example.written.rend(), 0);
    if (empty || no_room(static_cast<std::size_t>(example.written.rend() - begin))) return std::nullopt;
    if (!example.tokens.empty() && example.tokens.back() != eos_)
      example.append(tokenizer_.encode(" " + eos_text_), true);
    return cut(std::move(example), where);
  }

  std::optional<sft_example> text_only(const row& from, const std::string& where,
                                       const std::filesystem::path& folder) const {
    std::vector<text::message> all{{"user", detail::text_at(from, settings_.prompt_key, {}, where)}};
    std::vector<image_pointer> images = take_images(from, all, settings_.images, where, folder);
    sft_example example;
    example.append(tokenizer_.encode(written_text(all.front(), settings_.images)), true);
    example = with_images(std::move(example), std::move(images), settings_.images, where);
    drop_tail(example, where);
    if (example.trained() == 0) return std::nullopt;
    return example;
  }

  /// OpenRLHF reserves two tokens for an answer.
  bool no_room(std::size_t prompt) const { return settings_.max_length > 0 && prompt + 2 >= settings_.max_length; }
  std::string ended(std::string text) const {
    while (text.ends_with('\n')) text.pop_back();
    if (!text.ends_with(eos_text_)) (text += ' ') += eos_text_;
    return text;
  }
  /// Drops the tokens beyond max_length. Neither they nor the last kept token, which cut() replaces by the end mark,
  /// may belong to an image.
  void drop_tail(sft_example& example, const std::string& where) const {
    const std::size_t length = example.tokens.size(), most = settings_.max_length;
    if (most == 0 || length <= most) return;
    const auto tail = example.tokens.begin() + static_cast<std::ptrdiff_t>(most) - 1;
    if (!example.images.empty() &&
        std::find(tail, example.tokens.end(), settings_.images.token) != example.tokens.end())
      throw data_error(where + ": " + std::to_string(length) + " tokens with images, but --max_len is " +
                       std::to_string(most) + "; images are not cut");
    example.tokens.resize(most);
    example.written.resize(most);
  }
  /// Truncates the tail of a row that is too long, but keeps its end mark.
  std::optional<sft_example> cut(sft_example example, const std::string& where) const {
    drop_tail(example, where);
    if (example.tokens.empty()) return std::nullopt;
    example.tokens.back() = eos_;
    example.written.back() = 1;
    if (example.trained() == 0) return std::nullopt;
    return example;
  }

  const sft_settings& settings_;
  const text::tokenizer& tokenizer_;
  const text::chat_template* chat_;
  std::int32_t eos_ = 0;
  std::string eos_text_;
};

/// Reads `count` rows: row_at(i) with the name where(i), and relative image paths in folder_at(i). Throws data_error
/// naming file, row and column; `files` names all.
template <class RowAt, class Where, class FolderAt>
sft_rows read_sft_rows(std::size_t count, RowAt&& row_at, Where&& where, FolderAt&& folder_at, const std::string& files,
                       const sft_settings& settings, const text::tokenizer& tokenizer,
                       const text::chat_template* chat) {
  const sft_reader read(settings, tokenizer, chat);
  sft_rows rows;
  rows.rows_read = settings.max_rows > 0 ? std::min(count, settings.max_rows) : count;
  for (std::size_t i = 0; i < rows.rows_read; ++i)
    if (auto example = read(row_at(i), where(i), folder_at(i), &rows.notes))
      rows.examples.push_back(std::move(*example));
  if (rows.rows_read == 0) throw data_error(files + ": no rows");
  if (rows.examples.empty())
    throw data_error(files + ": none of the " + std::to_string(rows.rows_read) +
                     " rows is left: they are empty, or their prompts leave no room within " +
                     std::to_string(settings.max_length) + " tokens (max_len)");
  return rows;
}

/// The rows of all tables in order.
inline sft_rows read_sft_rows(std::span<const table> tables, const sft_settings& settings,
                              const text::tokenizer& tokenizer, const text::chat_template* chat) {
  std::vector<std::pair<const table*, std::size_t>> places;
  std::string files;
  for (const table& t : tables) {
    files += (files.empty() ? "" : ", ") + t.file;
    for (std::size_t i = 0; i < t.rows.size(); ++i) places.emplace_back(&t, i);
  }
  return read_sft_rows(
      places.size(), [&](std::size_t i) -> const row& { return places[i].first->rows[places[i].second]; },
      [&](std::size_t i) { return row_text(places[i].first->file, places[i].second); },
      [&](std::size_t i) { return std::filesystem::path(places[i].first->file).parent_path(); }, files, settings,
      tokenizer, chat);
}

}  // namespace data
RLCORE_END
