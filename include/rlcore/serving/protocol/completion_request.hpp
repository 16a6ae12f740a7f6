// The body of POST /v1/completions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/body_fields.hpp"
#include "rlcore/serving/protocol/sampling_fields.hpp"

RLCORE_BEGIN
namespace serving {

/// A prompt as it was sent: a text or token ids.
using sent_prompt = std::variant<std::string, std::vector<std::int32_t>>;

/// Its prompts and how to continue them.
struct completion_request {
  sampling_fields fields;
  std::vector<sent_prompt> prompts;
  bool echo = false;
  bool shows_prompt_logprobs = false;  ///< apart from those of an echo
};

/// A string, a list of strings, a list of ids, or a list of such lists. Throws api_error 400 for anything else and for
/// prompts without content.
std::vector<sent_prompt> read_prompts(body_fields& f);

/// Reads a body. Throws api_error 400 that names the field.
completion_request read_completion_request(body_fields& f, const request_defaults& by_default);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE std::vector<sent_prompt> read_prompts(body_fields& f) {
  const json* v = f.find("prompt");
  if (v == nullptr) throw invalid_body("prompt: expected a string or a list, found none");
  std::vector<sent_prompt> prompts;
  if (v->is_string()) {
    prompts.emplace_back(v->get<std::string>());
  } else if (!v->is_array()) {
    body_fields::wrong("prompt", "a string, or a list of strings, of token ids or of lists of token ids", *v);
  } else if (!v->empty() && v->front().is_number()) {
    prompts.emplace_back(f.token_ids_of("prompt", *v));
  } else {
    for (const json& item : *v) {
      if (item.is_string() != v->front().is_string())
        throw invalid_body("prompt: expected a list of strings or a list of lists of token ids, found both");
      if (item.is_string())
        prompts.emplace_back(item.get<std::string>());
      else
        prompts.emplace_back(f.token_ids_of("prompt", item));
    }
  }
  if (prompts.empty()) throw bad_request("prompt: the list is empty; expected at least one prompt");
  for (const sent_prompt& p : prompts)
    if (std::visit([](const auto& content) { return content.empty(); }, p))
      throw bad_request("prompt: a prompt is empty; expected at least one token");
  return prompts;
}

RLCORE_INLINE completion_request read_completion_request(body_fields& f, const request_defaults& by_default) {
  completion_request r;
  r.prompts = read_prompts(f);
  r.fields = read_sampling_fields(f, by_default);
  r.echo = f.boolean("echo", false);
  f.refuse_unless("suffix", "null", "this server does not fill in the middle");
  r.fields.add_special_tokens = f.boolean("add_special_tokens", true);
  r.fields.max_tokens = f.integer("max_tokens");
  if (!f.has("max_tokens")) r.fields.most_tokens = std::min<std::int64_t>(r.fields.most_tokens, 16);
  check_max_tokens(r.fields, r.echo ? 0 : 1);
  if (const auto k = f.integer("logprobs")) {
    if (*k < 0 || *k > by_default.max_logprobs)
      throw bad_request("logprobs must be between 0 and " + std::to_string(by_default.max_logprobs) +
                        " (--max-logprobs), got " + std::to_string(*k));
    r.fields.logprobs = static_cast<std::int32_t>(*k);
  }
  r.shows_prompt_logprobs = r.fields.prompt_logprobs.has_value();
  if (r.echo && r.fields.logprobs && !r.fields.prompt_logprobs) r.fields.prompt_logprobs = r.fields.logprobs;
  if (const auto best = f.integer("best_of"); best && *best != r.fields.n)
    throw bad_request("best_of is not supported: it must equal n, got " + std::to_string(*best));
  if (r.prompts.size() > static_cast<std::size_t>(most_choices / r.fields.n))
    throw bad_request("prompt: " + std::to_string(r.prompts.size()) + " prompts with n=" + std::to_string(r.fields.n) +
                      " are more than " + std::to_string(most_choices) + " choices");
  return r;
}

}  // namespace serving
RLCORE_END
#endif
