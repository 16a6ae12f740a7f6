// Tokenizes prompts: conversation or text to tokens, with images.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/data/image_file.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/serving/picture_bytes.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/chat_request.hpp"
#include "rlcore/serving/protocol/completion_request.hpp"
#include "rlcore/serving/served_model.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/jinja/python_text.hpp"

RLCORE_BEGIN
namespace serving {

/// Tokens of a prompt or a word.
using token_ids = std::vector<std::int32_t>;

/// The prompt tokens and the undecoded images, in the order of their placeholders.
struct model_prompt {
  token_ids ids;
  std::vector<data::image_pointer> images{};

  /// Hash of the images; 0 without any.
  std::uint64_t pictures_hash() const noexcept;
};

/// The tokens of a prompt as sent. Throws api_error 400 for ids outside of the vocabulary.
token_ids tokens_of(const served_model& model, const sent_prompt& prompt, bool add_special_tokens);

namespace detail {

/// Content parts if the template supports them; otherwise each content as one text.
std::vector<text::message> messages_for(const text::chat_template& chat, const conversation& talk);

/// A conversation with an open last message (continue_final_message): everything up to a mark after its content. As in
/// transformers, trailing blanks stay unless the template strips them. Throws api_error 400 if the template does not
/// write the content.
std::string left_open(const text::chat_template& chat, std::vector<text::message> messages,
                      const text::render_options& options);

}  // namespace detail

/// A conversation as text. Throws api_error 400 if the template does not support it.
std::string rendered(const served_model& model, const conversation& talk);

/// The prompt of a conversation. Reads only the headers of images. Throws api_error 400.
model_prompt prompt_of(const served_model& model, const conversation& talk, bool add_special_tokens);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE std::uint64_t model_prompt::pictures_hash() const noexcept {
  std::uint64_t hash = 0;
  for (const data::image_pointer& i : images) {
    const auto half = [](std::uint64_t word, int shift) { return static_cast<std::uint32_t>(word >> shift); };
    const auto w =
        philox(hash, {half(i->hash.low, 0), half(i->hash.low, 32), half(i->hash.high, 0), half(i->hash.high, 32)});
    hash = (std::uint64_t{w[0]} << 32) | w[1];
  }
  return hash;
}

RLCORE_INLINE token_ids tokens_of(const served_model& model, const sent_prompt& prompt, bool add_special_tokens) {
  if (const auto* text = std::get_if<std::string>(&prompt))
    return add_special_tokens ? model.tokenizer.encode_with_special_tokens(*text) : model.tokenizer.encode(*text);
  const auto& ids = std::get<token_ids>(prompt);
  for (const std::int32_t id : ids)
    if (id < 0 || id >= model.vocabulary)
      throw bad_request("prompt: token id " + std::to_string(id) + " is out of vocabulary (" +
                        std::to_string(model.vocabulary) + " tokens)");
  return ids;
}

}  // namespace serving

namespace serving::detail {

RLCORE_INLINE std::vector<text::message> messages_for(const text::chat_template& chat, const conversation& talk) {
  std::vector<text::message> messages = talk.messages;
  const bool parted = std::ranges::any_of(messages, [](const text::message& m) { return !m.parts.empty(); });
  if (!parted || chat.takes_parts()) return messages;
  if (!talk.pictures.empty())
    throw bad_request(talk.pictures[0].where + " is a picture, and the chat template has no place for it; start the " +
                      "server with --chat-template qwen2.5-vl");
  for (text::message& m : messages) m.parts.clear();
  return messages;
}

RLCORE_INLINE std::string left_open(const text::chat_template& chat, std::vector<text::message> messages,
                                    const text::render_options& options) {
  std::string text = chat.render(messages, options), mark;
  for (std::size_t number = 0; mark.empty() || text.find(mark) != text.npos; ++number)
    mark = "continue-" + std::to_string(number) + "-here";
  text::message& last = messages.back();
  if (!last.parts.empty() && last.parts.back().image)
    throw bad_request("continue_final_message: the last message ends with a picture");
  last.content += mark + " ";  // the blank is gone where the template strips
  if (!last.parts.empty()) last.parts.push_back({mark + " "});
  text = chat.render(messages, options);
  const std::size_t at = text.rfind(mark);
  if (at == text.npos) throw bad_request("continue_final_message: the template changes the last message");
  const bool strips = text.compare(at + mark.size(), 1, " ") != 0;
  text.resize(at);
  return strips ? std::string(text::jinja::strip(text, nullptr, false, true)) : text;
}

}  // namespace serving::detail

namespace serving {

RLCORE_INLINE std::string rendered(const served_model& model, const conversation& talk) {
  if (!model.chat && talk.chat_template.empty())
    throw bad_request("this model has no chat template; start the server with --chat-template, or use /v1/completions" +
                      (model.without_chat.empty() ? "" : " (" + model.without_chat + ")"));
  try {
    const text::chat_template chat = talk.chat_template.empty()
                                         ? *model.chat
                                         : text::chat_template::from_jinja(talk.chat_template, "chat_template",
                                                                           text::special_token_texts(model.folder));
    if (!talk.options.tools.empty() && !chat.has_tools())
      throw bad_request(
          "tools: the chat template has no place for them; start the server with another --chat-template");
    const std::vector<text::message> messages = detail::messages_for(chat, talk);
    return talk.continue_final_message ? detail::left_open(chat, messages, talk.options)
                                       : chat.render(messages, talk.options);
  } catch (const data_error& e) {
    throw bad_request(e.what());
  } catch (const config_error& e) {
    throw bad_request(e.what());
  } catch (const format_error& e) {
    throw bad_request(e.what());
  }
}

RLCORE_INLINE model_prompt prompt_of(const served_model& model, const conversation& talk, bool add_special_tokens) {
  model_prompt p{tokens_of(model, rendered(model, talk), add_special_tokens)};
  try {
    for (const sent_picture& sent : talk.pictures)
      p.images.push_back(
          data::make_image_file(sent.where, bytes_of(sent, model.local_files), {}, model.images.processor->decode));
    data::check_image_tokens(p.ids, p.images.size(), model.images, "messages");
    p.ids = data::expand_image_tokens(std::move(p.ids), p.images, model.images);
  } catch (const data_error& e) {
    throw bad_request(e.what());
  }
  return p;
}

}  // namespace serving
RLCORE_END
#endif
