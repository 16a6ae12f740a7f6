// From the fields of a request to the engine's jobs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/rollout/job.hpp"
#include "rlcore/serving/prompt_counter.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/chat_request.hpp"
#include "rlcore/serving/protocol/completion_request.hpp"
#include "rlcore/serving/protocol/sampling_fields.hpp"
#include "rlcore/serving/served_model.hpp"

RLCORE_BEGIN
namespace serving {

/// Tokens of a prompt or a word.
using token_ids = std::vector<std::int32_t>;

/// The tokens of a prompt as it was sent. Throws api_error 400 for ids outside of the vocabulary.
inline token_ids tokens_of(const served_model& model, const sent_prompt& prompt, bool add_special_tokens) {
  if (const auto* text = std::get_if<std::string>(&prompt))
    return add_special_tokens ? model.tokenizer.encode_with_special_tokens(*text) : model.tokenizer.encode(*text);
  const auto& ids = std::get<token_ids>(prompt);
  for (const std::int32_t id : ids)
    if (id < 0 || id >= model.vocabulary)
      throw bad_request("prompt: token id " + std::to_string(id) + " is out of vocabulary (" +
                        std::to_string(model.vocabulary) + " tokens)");
  return ids;
}

/// A conversation as text. Throws api_error 400 where the template has no place for it.
inline std::string rendered(const served_model& model, const conversation& talk) {
  if (!model.chat && talk.chat_template.empty())
    throw bad_request("this model has no chat template; start the server with --chat-template, or use /v1/completions");
  try {
    const text::chat_template chat = talk.chat_template.empty()
                                         ? *model.chat
                                         : text::chat_template::from_jinja(talk.chat_template, "chat_template",
                                                                           text::special_token_texts(model.folder));
    std::string text = chat.render(talk.messages, talk.options);
    if (!talk.continue_final_message) return text;
    const std::string& last = talk.messages.back().content;
    const std::string_view content = text::jinja::strip(last, nullptr, true, true);
    const std::size_t at = text.rfind(content);
    if (at == text.npos) throw bad_request("continue_final_message: the template changes the last message");
    text.resize(at + content.size());
    return text;
  } catch (const data_error& e) {
    throw bad_request(e.what());
  } catch (const config_error& e) {
    throw bad_request(e.what());
  } catch (const format_error& e) {
    throw bad_request(e.what());
  }
}

/// Cuts a prompt as asked for and holds it against the model's length. Returns how many tokens may be drawn.
inline std::int64_t fit_prompt(const served_model& model, const sampling_fields& f, token_ids& prompt) {
  if (f.truncate_prompt_tokens) {
    const std::int64_t most = *f.truncate_prompt_tokens == -1 ? model.max_length : *f.truncate_prompt_tokens;
    if (most > model.max_length)
      throw bad_request("truncate_prompt_tokens " + std::to_string(most) + " is more than the context length " +
                        std::to_string(model.max_length));
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
  return f.max_tokens.value_or(room);
}

/// The token sequences that write a word: at the beginning of a text, and behind a space if that is written otherwise.
inline std::vector<token_ids> bad_word_tokens(const served_model& model, const std::vector<std::string>& words) {
  std::vector<token_ids> all;
  for (const std::string& word : words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
    const token_ids first = model.tokenizer.encode(bare), spaced = model.tokenizer.encode(" " + bare);
    if (!first.empty()) all.push_back(first);
    if (!first.empty() && spaced.size() == first.size() && spaced[0] != first[0]) all.push_back(spaced);
  }
  return all;
}

/// The jobs of all choices of all prompts: choice i of prompt p is number p n + i. Throws api_error 400.
inline std::vector<rollout::job> make_jobs(const served_model& model, const sampling_fields& f,
                                           std::vector<token_ids> prompts, prompt_counter& counter) {
  rollout::job common;
  common.sampling = f.sampling;
  auto rules = std::make_shared<rollout::logit_rules>(f.rules);
  rules->bad_words = bad_word_tokens(model, f.bad_words);
  if (!f.ignore_eos) common.stop_ids = model.eos_ids;
  common.stop_ids.insert(common.stop_ids.end(), f.stop_token_ids.begin(), f.stop_token_ids.end());
  if (f.rules.min_tokens > 0) {
    rules->ending_ids = model.eos_ids;
    rules->ending_ids.insert(rules->ending_ids.end(), f.stop_token_ids.begin(), f.stop_token_ids.end());
  }
  if (!rules->neutral()) common.rules = rules;
  if (model.raw_logprobs) common.logprob_temperature = 1.0f;
  common.top_logprobs = f.logprobs.value_or(0);
  common.prompt_logprobs = f.prompt_logprobs;
  common.salt = f.cache_salt.empty() ? 0 : std::hash<std::string>()(f.cache_salt);
  std::vector<rollout::job> jobs;
  for (token_ids& prompt : prompts) {
    const std::int64_t limit = fit_prompt(model, f, prompt);
    rollout::job j = common;
    j.max_new_tokens = std::max<std::int64_t>(limit, 1);
    j.key = f.seed ? random_key{*f.seed} : counter.next(prompt);
    j.prompt = std::move(prompt);
    if (f.rules.min_tokens > j.max_new_tokens)
      throw bad_request("min_tokens must be at most the " + std::to_string(j.max_new_tokens) +
                        " tokens that the context length leaves, got " + std::to_string(f.rules.min_tokens));
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

}  // namespace serving
RLCORE_END
