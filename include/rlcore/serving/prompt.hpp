// From a request to a job: prompt tokens, images, sampling.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/serving/context.hpp"
#include "rlcore/serving/image_bytes.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/requests.hpp"
#include "rlcore/serving/protocol/sampling_fields.hpp"
#include "rlcore/serving/served_model.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/dropped_parts.hpp"
#include "rlcore/text/jinja/python_text.hpp"

RLCORE_BEGIN
namespace serving {

/// Tokens of a prompt or a word.
using token_ids = std::vector<std::int32_t>;

/// The prompt tokens and the undecoded images, in the order of their placeholders.
struct model_prompt {
  token_ids ids;
  std::vector<data::image_pointer> images{};
  std::vector<std::string> notes{};  ///< for the log: what the chat template left out

  /// Hash of the images; 0 without any.
  std::uint64_t images_hash() const noexcept;
};

/// The tokens of a prompt as sent. Throws api_error 400 for ids outside of the vocabulary, and client_gone as soon as
/// `connected`, if not empty, is false.
token_ids tokens_of(const served_model& model, const sent_prompt& prompt, bool add_special_tokens,
                    const std::function<bool()>& connected = {});

namespace detail {

/// The messages as the template takes them. Throws api_error 400 for images that it does not take. Thoughts are left
/// out for a template that never reads them, with a note.
std::vector<text::message> messages_for(const text::chat_template& chat, const conversation& talk,
                                        std::vector<std::string>& notes);

/// Throws api_error 400 if the template drops the content of a role other than assistant; adds what else it drops to
/// the notes, without text of the conversation.
void note_dropped(const text::chat_template& chat, std::span<const text::message> messages,
                  std::span<const text::dropped_part> dropped, std::vector<std::string>& notes);

/// A conversation with an open last message (continue_final_message): everything up to a mark after its content. As in
/// transformers, trailing blanks stay unless the template strips them. Throws api_error 400 if the template does not
/// write the content.
std::string left_open(const text::chat_template& chat, std::vector<text::message> messages,
                      const text::render_options& options, std::vector<text::dropped_part>& dropped);

}  // namespace detail

/// A conversation as text. Throws api_error 400 if the template does not support it. `notes` receives what the template
/// left out.
std::string rendered(const served_model& model, const conversation& talk, std::vector<std::string>& notes);

/// The prompt of a conversation. Reads only the headers of images. Throws api_error 400, client_gone.
model_prompt prompt_of(const served_model& model, const conversation& talk, bool add_special_tokens,
                       const std::function<bool()>& connected = {});

/// Truncates a prompt as requested and checks it against the model's lengths. Returns the number of tokens that may be
/// drawn.
std::int64_t fit_prompt(const served_model& model, const sampling_fields& f, model_prompt& sent);

/// The token sequences that write a word: at the beginning of a text, and behind a space if that is written otherwise.
std::vector<token_ids> bad_word_tokens(const served_model& model, const std::vector<std::string>& words);

/// The jobs of all choices of all prompts, without their random keys: choice i of prompt p is number p n + i. Images
/// are attached later. Throws api_error 400.
std::vector<rollout::job> make_jobs(const served_model& model, const sampling_fields& f,
                                    std::vector<model_prompt> prompts);

/// Memory of the image patches, and the temporary memory of decoding the largest image.
struct image_memory {
  std::size_t patches = 0, decoding = 0;
};

/// The memory of a prompt's images, from their headers.
image_memory memory_of(const served_model& model, const model_prompt& prompt);

/// Decodes the images of a prompt as soon as there is room, and attaches them to its jobs. Returns the memory to hold
/// while the jobs run; empty for a prompt without images. Throws client_gone, and api_error 400 that names the part.
std::unique_ptr<held_bytes> show_images(const served_model& model, const model_prompt& prompt, byte_budget& memory,
                                        std::vector<rollout::job>& jobs, const std::function<bool()>& connected = {});

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE std::uint64_t model_prompt::images_hash() const noexcept {
  std::uint64_t hash = 0;
  for (const data::image_pointer& i : images) {
    const auto half = [](std::uint64_t word, int shift) { return static_cast<std::uint32_t>(word >> shift); };
    const auto w =
        philox(hash, {half(i->hash.low, 0), half(i->hash.low, 32), half(i->hash.high, 0), half(i->hash.high, 32)});
    hash = (std::uint64_t{w[0]} << 32) | w[1];
  }
  return hash;
}

RLCORE_INLINE token_ids tokens_of(const served_model& model, const sent_prompt& prompt, bool add_special_tokens,
                                  const std::function<bool()>& connected) {
  const auto check = [&] {
    if (connected && !connected()) throw client_gone();
  };
  if (const auto* text = std::get_if<std::string>(&prompt))
    return add_special_tokens ? model.tokenizer.encode_with_special_tokens(*text, true, check)
                              : model.tokenizer.encode(*text, true, check);
  const auto& ids = std::get<token_ids>(prompt);
  for (const std::int32_t id : ids)
    if (id < 0 || id >= model.vocabulary)
      throw bad_request("prompt: token id " + std::to_string(id) + " is out of vocabulary (" +
                        std::to_string(model.vocabulary) + " tokens)");
  return ids;
}

}  // namespace serving

namespace serving::detail {

RLCORE_INLINE std::vector<text::message> messages_for(const text::chat_template& chat, const conversation& talk,
                                                      std::vector<std::string>& notes) {
  if (!talk.images.empty() && !chat.takes_parts())
    throw bad_request(talk.images[0].where + " is an image, and the chat template has no place for it; start the " +
                      "server with --chat-template qwen2.5-vl");
  std::vector<text::message> messages = chat.accepted(talk.messages);
  if (chat.has_thoughts()) return messages;
  for (text::message& m : messages) {  // of this server's answers, which clients send back
    if (!m.reasoning_content) continue;
    m.reasoning_content.reset();
    notes.push_back("the chat template leaves out reasoning_content of role '" + m.role + "'");
  }
  return messages;
}

RLCORE_INLINE void note_dropped(const text::chat_template& chat, std::span<const text::message> messages,
                                std::span<const text::dropped_part> dropped, std::vector<std::string>& notes) {
  for (const text::dropped_part& part : dropped) {
    if (text::is_needed(part, messages)) throw bad_request(chat.text_of(part));
    const bool of_role = part.what != text::dropped_part::kind::content;  // which names the role itself
    notes.push_back("the chat template leaves out " + one_line(part.label, 100) +
                    (of_role ? " of role '" + messages[part.message].role + "'" : ""));
  }
}

RLCORE_INLINE std::string left_open(const text::chat_template& chat, std::vector<text::message> messages,
                                    const text::render_options& options, std::vector<text::dropped_part>& dropped) {
  std::string text = chat.render(messages, options, &dropped), mark;
  for (std::size_t number = 0; mark.empty() || text.find(mark) != text.npos; ++number)
    mark = "continue-" + std::to_string(number) + "-here";
  text::message& last = messages.back();
  if (!last.parts.empty() && last.parts.back().image)
    throw bad_request("continue_final_message: the last message ends with an image");
  last.content += mark + " ";  // the blank is gone where the template strips
  if (!last.parts.empty()) last.parts.push_back({mark + " "});
  std::vector<text::dropped_part> known;
  text = chat.render(messages, options, &known);
  const std::size_t at = text.rfind(mark);
  if (at == text.npos) throw bad_request("continue_final_message: the template changes the last message");
  const bool strips = text.compare(at + mark.size(), 1, " ") != 0;
  text.resize(at);
  return strips ? std::string(text::jinja::strip(text, nullptr, false, true)) : text;
}

}  // namespace serving::detail

namespace serving {

RLCORE_INLINE std::string rendered(const served_model& model, const conversation& talk,
                                   std::vector<std::string>& notes) {
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
    const std::vector<text::message> messages = detail::messages_for(chat, talk, notes);
    std::vector<text::dropped_part> dropped;
    std::string text = talk.continue_final_message ? detail::left_open(chat, messages, talk.options, dropped)
                                                   : chat.render(messages, talk.options, &dropped);
    detail::note_dropped(chat, messages, dropped, notes);
    return text;
  } catch (const data_error& e) {
    throw bad_request(e.what());
  } catch (const config_error& e) {
    throw bad_request(e.what());
  } catch (const format_error& e) {
    throw bad_request(e.what());
  }
}

RLCORE_INLINE model_prompt prompt_of(const served_model& model, const conversation& talk, bool add_special_tokens,
                                     const std::function<bool()>& connected) {
  std::vector<std::string> notes;
  model_prompt p{tokens_of(model, rendered(model, talk, notes), add_special_tokens, connected)};
  p.notes = std::move(notes);
  try {
    for (const sent_image& sent : talk.images)
      p.images.push_back(
          data::make_image_file(sent.where, bytes_of(sent, model.local_files), {}, model.images.processor->decode));
    data::check_image_tokens(p.ids, p.images.size(), model.images, "messages");
    p.ids = data::expand_image_tokens(std::move(p.ids), p.images, model.images);
  } catch (const data_error& e) {
    throw bad_request(e.what());
  }
  return p;
}

RLCORE_INLINE std::int64_t fit_prompt(const served_model& model, const sampling_fields& f, model_prompt& sent) {
  token_ids& prompt = sent.ids;
  if (f.truncate_prompt_tokens) {
    const std::int64_t most = *f.truncate_prompt_tokens == -1 ? model.max_length : *f.truncate_prompt_tokens;
    if (most > model.max_length)
      throw bad_request("truncate_prompt_tokens " + std::to_string(most) + " is more than the context length " +
                        std::to_string(model.max_length));
    if (std::ssize(prompt) > most && !sent.images.empty())
      throw bad_request("truncate_prompt_tokens " + std::to_string(most) + " would cut a prompt of " +
                        std::to_string(prompt.size()) + " tokens that shows images");
    if (std::ssize(prompt) > most) prompt.erase(prompt.begin(), prompt.end() - most);
  }
  const std::int64_t length = std::ssize(prompt), room = model.max_length - length;
  if (prompt.empty()) throw bad_request("the prompt has no tokens; expected at least one");
  const bool draws = f.max_tokens != 0;
  if (draws ? room < 1 : room < 0)
    throw bad_request("This model's maximum context length is " + std::to_string(model.max_length) +
                      " tokens. However, your request has " + std::to_string(length) +
                      " input tokens. Please reduce the length of the input messages.");
  if (f.max_tokens && *f.max_tokens > room)
    throw bad_request("'max_tokens' or 'max_completion_tokens' is too large: " + std::to_string(*f.max_tokens) +
                      ". This model's maximum context length is " + std::to_string(model.max_length) +
                      " tokens and your request has " + std::to_string(length) + " input tokens (" +
                      std::to_string(*f.max_tokens) + " > " + std::to_string(model.max_length) + " - " +
                      std::to_string(length) + ").");
  const auto rows = model.images.processor ? std::ranges::count(prompt, model.images.token) : 0;
  if (rows > 0 && sent.images.empty())
    throw bad_request("the prompt has " + std::to_string(rows) +
                      " image tokens and shows no image; expected images in /v1/chat/completions");
  if (rows > model.max_image_tokens)
    throw bad_request("the request's images have " + std::to_string(rows) + " tokens; expected at most " +
                      std::to_string(model.max_image_tokens) +
                      " (--max-num-batched-tokens, or smaller images by --mm-processor-kwargs)");
  return std::min({f.max_tokens.value_or(room), f.most_tokens, room});
}

RLCORE_INLINE std::vector<token_ids> bad_word_tokens(const served_model& model, const std::vector<std::string>& words) {
  std::vector<token_ids> all;
  for (const std::string& word : words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
    const token_ids first = model.tokenizer.encode(bare), spaced = model.tokenizer.encode(" " + bare);
    if (!first.empty()) all.push_back(first);
    if (!first.empty() && spaced.size() == first.size() && spaced[0] != first[0]) all.push_back(spaced);
  }
  return all;
}

RLCORE_INLINE std::vector<rollout::job> make_jobs(const served_model& model, const sampling_fields& f,
                                                  std::vector<model_prompt> prompts) {
  rollout::job common;
  common.sampling = f.sampling;
  auto rules = std::make_shared<rollout::logit_rules>(f.rules);
  rules->bad_words = bad_word_tokens(model, f.bad_words);
  if (!f.ignore_eos) common.stop_ids = model.eos_ids;
  const auto add_stop_ids = [&](token_ids& to) {  // no model draws an id outside of its vocabulary
    std::copy_if(f.stop_token_ids.begin(), f.stop_token_ids.end(), std::back_inserter(to),
                 [&](std::int32_t id) { return id < model.vocabulary; });
  };
  add_stop_ids(common.stop_ids);
  if (f.rules.min_tokens > 0) {
    rules->ending_ids = model.eos_ids;
    add_stop_ids(rules->ending_ids);
  }
  if (!rules->neutral()) common.rules = rules;
  if (model.raw_logprobs) common.logprob_temperature = 1.0f;
  common.processed_logprobs = model.processed_logprobs;
  common.top_logprobs = f.logprobs.value_or(0);
  common.prompt_logprobs = f.prompt_logprobs;
  common.salt = f.cache_salt.empty() ? 0 : std::hash<std::string>()(f.cache_salt);
  std::vector<rollout::job> jobs;
  std::int64_t reported = 0;
  for (model_prompt& p : prompts) {
    const std::int64_t limit = fit_prompt(model, f, p);
    rollout::job j = common;
    j.max_new_tokens = std::max<std::int64_t>(limit, 1);
    if (f.logprobs) reported += f.n * j.max_new_tokens * (*f.logprobs + 1);
    if (f.prompt_logprobs) reported += std::ssize(p.ids) * (*f.prompt_logprobs + 1);
    if (reported > most_logprobs)
      throw bad_request("the request may give more than " + std::to_string(most_logprobs) +
                        " log-probs; ask for fewer choices, fewer of the likely tokens, or a smaller max_tokens");
    j.prompt = std::move(p.ids);
    if (f.rules.min_tokens > j.max_new_tokens)
      throw bad_request("min_tokens must be at most max_tokens = " + std::to_string(j.max_new_tokens) + ", got " +
                        std::to_string(f.rules.min_tokens));
    try {
      rules->validate(model.vocabulary, j.max_new_tokens);
    } catch (const config_error& e) {
      throw bad_request(e.what());
    }
    for (std::int64_t i = 0; i < f.n; ++i) {
      j.sample = static_cast<std::uint32_t>(i);
      jobs.push_back(j);
      jobs.back().prompt_logprobs = i == 0 ? f.prompt_logprobs : std::nullopt;
    }
  }
  return jobs;
}

RLCORE_INLINE image_memory memory_of(const served_model& model, const model_prompt& prompt) {
  constexpr std::size_t bytes_of_pixel = 12;  // colours, the copies of a resampler, a progressive JPEG's coefficients
  image_memory bytes;
  for (const data::image_pointer& i : prompt.images) {
    const image::patch_shape& shape = model.images.processor->shape;
    bytes.patches +=
        data::count_image_tokens(*i, model.images) * shape.merge * shape.merge * shape.row() * sizeof(float);
    bytes.decoding =
        std::max(bytes.decoding, bytes_of_pixel * static_cast<std::size_t>(i->size.height * i->size.width));
  }
  return bytes;
}

RLCORE_INLINE std::unique_ptr<held_bytes> show_images(const served_model& model, const model_prompt& prompt,
                                                      byte_budget& memory, std::vector<rollout::job>& jobs,
                                                      const std::function<bool()>& connected) {
  if (prompt.images.empty()) return nullptr;
  const image_memory bytes = memory_of(model, prompt);
  auto held = std::make_unique<held_bytes>(memory, bytes.patches + bytes.decoding, connected);
  const auto made = std::make_shared<std::vector<data::image_cache::pointer>>();
  std::vector<nn::image_patches> images;
  try {
    for (const data::image_pointer& i : prompt.images) {
      const image::patches& p = *made->emplace_back((*model.images.cache)(*i));
      images.push_back({{p.rows, p.columns}, p.values});
    }
  } catch (const data_error& e) {
    throw bad_request(e.what());
  }
  for (rollout::job& j : jobs) j.images = images, j.pixels = made;
  held->keep(bytes.patches);
  return held;
}

}  // namespace serving
RLCORE_END
#endif
