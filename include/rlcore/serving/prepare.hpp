// Converts request fields to engine jobs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/rollout/job.hpp"
#include "rlcore/serving/prompt.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/sampling_fields.hpp"
#include "rlcore/serving/served_model.hpp"

RLCORE_BEGIN
namespace serving {

/// Truncates a prompt as requested and checks it against the model's lengths. Returns the number of tokens that may be
/// drawn.
std::int64_t fit_prompt(const served_model& model, const sampling_fields& f, model_prompt& sent);

/// The token sequences that write a word: at the beginning of a text, and behind a space if that is written otherwise.
std::vector<token_ids> bad_word_tokens(const served_model& model, const std::vector<std::string>& words);

/// The jobs of all choices of all prompts, without their random keys: choice i of prompt p is number p n + i. Images
/// are attached later. Throws api_error 400.
std::vector<rollout::job> make_jobs(const served_model& model, const sampling_fields& f,
                                    std::vector<model_prompt> prompts);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE std::int64_t fit_prompt(const served_model& model, const sampling_fields& f, model_prompt& sent) {
  token_ids& prompt = sent.ids;
  if (f.truncate_prompt_tokens) {
    const std::int64_t most = *f.truncate_prompt_tokens == -1 ? model.max_length : *f.truncate_prompt_tokens;
    if (most > model.max_length)
      throw bad_request("truncate_prompt_tokens " + std::to_string(most) + " is more than the context length " +
                        std::to_string(model.max_length));
    if (std::ssize(prompt) > most && !sent.images.empty())
      throw bad_request("truncate_prompt_tokens " + std::to_string(most) + " would cut a prompt of " +
                        std::to_string(prompt.size()) + " tokens that shows pictures");
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
                      " image tokens and shows no picture; expected pictures in /v1/chat/completions");
  if (rows > model.max_image_tokens)
    throw bad_request("the request's pictures have " + std::to_string(rows) + " tokens; expected at most " +
                      std::to_string(model.max_image_tokens) +
                      " (--max-num-batched-tokens, or smaller pictures by --mm-processor-kwargs)");
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

}  // namespace serving
RLCORE_END
#endif
