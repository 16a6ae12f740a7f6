// The fields that /v1/completions and /v1/chat/completions share: sampling, stopping, reported log-probs.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/rollout/logit_rules.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/body_fields.hpp"

RLCORE_BEGIN
namespace serving {

/// Default sampling parameters (--generation-config), and the limits of every request.
struct request_defaults {
  double temperature = 1, top_p = 1, min_p = 0, repetition_penalty = 1;
  std::int64_t top_k = 0;
  std::int64_t most_tokens = std::numeric_limits<std::int64_t>::max();  ///< of every answer (max_new_tokens)
  std::int64_t max_logprobs = 20;
  bool return_tokens_as_token_ids = false;
};

/// Most choices of one prompt.
inline constexpr std::int64_t most_choices = 1024;

/// Most bad words, stop strings, and different stop token ids of a request: each costs time with every token.
inline constexpr std::size_t most_words = 1024;
/// Bytes that all members of such a field may have together.
inline constexpr std::size_t most_word_bytes = std::size_t{1} << 20;
/// Most log-probs that a request may give, those of the likely tokens included.
inline constexpr std::int64_t most_logprobs = std::int64_t{1} << 22;

/// The checked fields. Ids and words are not yet checked against a vocabulary.
struct sampling_fields {
  std::string model, request_id, cache_salt;
  rollout::sampling sampling;
  rollout::logit_rules rules;  ///< without bad_words as tokens and ending_ids, which need a tokenizer and a model
  std::vector<std::string> bad_words, stop;
  std::vector<std::int32_t> stop_token_ids;
  std::optional<std::uint64_t> seed{};
  std::optional<std::int64_t> max_tokens{}, truncate_prompt_tokens{};
  std::optional<std::int32_t> logprobs{}, prompt_logprobs{};            ///< number of most likely tokens
  std::int64_t most_tokens = std::numeric_limits<std::int64_t>::max();  ///< a limit that is capped by the length
  std::int64_t n = 1;
  bool ignore_eos = false, include_stop = false, skip_special_tokens = true, add_special_tokens = true;
  bool stream = false, include_usage = false, continuous_usage = false;
  bool return_token_ids = false, tokens_as_ids = false;
  std::string note;  ///< changes made, for the log
};

namespace detail {

/// A number as it was most likely written.
inline std::string shown(double x) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  return {text, end};
}
/// Throws 400 "<name> must be <range>, got <x>" unless `holds`.
inline void check_range(bool holds, std::string_view name, std::string_view range, double x) {
  if (!holds) throw bad_request(std::string(name) + " must be " + std::string(range) + ", got " + shown(x));
}

void read_choice_of_tokens(body_fields& f, const request_defaults& by_default, sampling_fields& s);

/// Throws 400 for a list that has too many members.
inline void check_size(std::string_view name, std::size_t size) {
  check_range(size <= most_words, name, "a list of at most " + std::to_string(most_words), static_cast<double>(size));
}
inline void check_bytes(std::string_view name, const std::vector<std::string>& words) {
  std::size_t bytes = 0;
  for (const std::string& word : words) bytes += word.size();
  if (bytes > most_word_bytes)
    throw bad_request(std::string(name) + ": " + std::to_string(bytes) + " bytes together; expected at most " +
                      std::to_string(most_word_bytes));
}
inline void sort_unique(std::vector<std::int32_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

void read_bias(body_fields& f, sampling_fields& s);

void read_ends(body_fields& f, sampling_fields& s);

void read_report(body_fields& f, const request_defaults& by_default, sampling_fields& s);

/// Rejects unsupported fields.
void refuse_unsupported(body_fields& f);

}  // namespace detail

/// Reads all of them except max_tokens, logprobs and add_special_tokens, which are endpoint-specific. Throws
/// api_error 400 that names the field.
sampling_fields read_sampling_fields(body_fields& f, const request_defaults& by_default);

/// Checks a limit of tokens: at least `least`, and not below min_tokens.
void check_max_tokens(const sampling_fields& s, std::int64_t least);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving::detail {

RLCORE_INLINE void read_choice_of_tokens(body_fields& f, const request_defaults& by_default, sampling_fields& s) {
  const double temperature = f.number("temperature").value_or(by_default.temperature);
  check_range(temperature >= 0 && temperature <= double{std::numeric_limits<float>::max()}, "temperature",
              "non-negative", temperature);
  s.sampling.temperature = rollout::vllm_temperature(static_cast<float>(temperature));
  if (s.sampling.temperature > static_cast<float>(temperature))
    s.note = "temperature " + shown(temperature) + " is raised to 0.01";
  const double top_p = f.number("top_p").value_or(by_default.top_p);
  check_range(top_p > 0 && top_p <= 1, "top_p", "in (0, 1]", top_p);
  s.sampling.top_p = static_cast<float>(top_p);
  check_range(s.sampling.top_p > 0, "top_p", "in (0, 1]", top_p);
  const std::int64_t top_k = f.integer("top_k").value_or(by_default.top_k);
  check_range(top_k >= -1, "top_k", "0 (off), -1 (off) or more", static_cast<double>(top_k));
  s.sampling.top_k = top_k == 0 ? -1 : std::min<std::int64_t>(top_k, std::numeric_limits<std::int32_t>::max());
  const double min_p = f.number("min_p").value_or(by_default.min_p);
  check_range(min_p >= 0 && min_p <= 1, "min_p", "in [0, 1]", min_p);
  s.sampling.min_p = static_cast<float>(min_p);
  const double repetition = f.number("repetition_penalty").value_or(by_default.repetition_penalty);
  s.rules.repetition_penalty = static_cast<float>(repetition);
  check_range(s.rules.repetition_penalty > 0 && std::isfinite(s.rules.repetition_penalty), "repetition_penalty",
              "greater than zero", repetition);
  for (auto [name, target] : {std::pair{"presence_penalty", &s.rules.presence_penalty},
                              std::pair{"frequency_penalty", &s.rules.frequency_penalty}}) {
    const double x = f.number(name).value_or(0);
    check_range(x >= -2 && x <= 2, name, "in [-2, 2]", x);
    *target = static_cast<float>(x);
  }
  if (const auto seed = f.integer("seed"); seed && *seed != -1) s.seed = static_cast<std::uint64_t>(*seed);
}

RLCORE_INLINE void read_bias(body_fields& f, sampling_fields& s) {
  s.bad_words = f.strings("bad_words");
  check_size("bad_words", s.bad_words.size());
  check_bytes("bad_words", s.bad_words);
  if (std::any_of(s.bad_words.begin(), s.bad_words.end(), [](const std::string& w) { return w.empty(); }))
    throw bad_request("bad_words cannot contain an empty string");
  if (const json* allowed = f.find("allowed_token_ids")) {
    s.rules.allowed_token_ids = f.token_ids_of("allowed_token_ids", *allowed);
    if (s.rules.allowed_token_ids.empty()) throw bad_request("allowed_token_ids cannot be empty");
    sort_unique(s.rules.allowed_token_ids);
  }
  const json* bias = f.find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) body_fields::wrong("logit_bias", "an object of token ids and numbers", *bias);
  for (const auto& [key, value] : bias->items()) {
    std::int32_t id = 0;
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (code != std::errc() || end != key.data() + key.size() || id < 0)
      throw bad_request("logit_bias: '" + key + "' is no token id");
    if (!value.is_number()) body_fields::wrong("logit_bias." + key, "a number", value);
    s.rules.logit_bias.push_back({id, static_cast<float>(std::clamp(value.get<double>(), -100.0, 100.0))});
  }
}

RLCORE_INLINE void read_ends(body_fields& f, sampling_fields& s) {
  s.stop = f.strings("stop", true);
  check_size("stop", s.stop.size());
  check_bytes("stop", s.stop);
  if (std::any_of(s.stop.begin(), s.stop.end(), [](const std::string& text) { return text.empty(); }))
    throw bad_request("stop cannot contain an empty string");
  s.include_stop = f.boolean("include_stop_str_in_output", false);
  s.stop_token_ids = f.token_ids("stop_token_ids");
  sort_unique(s.stop_token_ids);
  check_size("stop_token_ids", s.stop_token_ids.size());
  s.ignore_eos = f.boolean("ignore_eos", false);
  s.rules.min_tokens = f.integer("min_tokens").value_or(0);
  check_range(s.rules.min_tokens >= 0, "min_tokens", "0 or more", static_cast<double>(s.rules.min_tokens));
}

RLCORE_INLINE void read_report(body_fields& f, const request_defaults& by_default, sampling_fields& s) {
  s.stream = f.boolean("stream", false);
  if (const json* stream_options = f.find("stream_options")) {
    if (!stream_options->is_object()) body_fields::wrong("stream_options", "an object", *stream_options);
    if (!s.stream) throw bad_request("stream_options need stream=true");
    body_fields inner(*stream_options);
    s.include_usage = inner.boolean("include_usage", false);
    s.continuous_usage = s.include_usage && inner.boolean("continuous_usage_stats", false);
  }
  if (const auto k = f.integer("prompt_logprobs")) {
    if (*k == -1) throw bad_request("prompt_logprobs=-1 (the whole vocabulary) is not supported");
    if (*k < 0 || *k > by_default.max_logprobs)
      throw bad_request("prompt_logprobs must be between 0 and " + std::to_string(by_default.max_logprobs) +
                        " (--max-logprobs), got " + std::to_string(*k));
    if (s.stream && *k > 0) throw bad_request("prompt_logprobs are not available with stream=true");
    s.prompt_logprobs = static_cast<std::int32_t>(*k);
  }
  s.skip_special_tokens = f.boolean("skip_special_tokens", true);
  s.return_token_ids = f.boolean("return_token_ids", false);
  s.tokens_as_ids = f.boolean("return_tokens_as_token_ids", by_default.return_tokens_as_token_ids);
}

RLCORE_INLINE void refuse_unsupported(body_fields& f) {
  constexpr std::string_view constrained = "constrained output is not in this server";
  f.refuse_unless("use_beam_search", "false", "there is no beam search");
  f.refuse_unless("length_penalty", "1.0", "there is no beam search");
  f.refuse_unless("priority", "0", "requests are served in the order of their arrival");
  if (const json* format = f.find("response_format");
      format != nullptr && (!format->is_object() || !format->contains("type") || (*format)["type"] != "text"))
    throw bad_request("response_format is not supported: " + std::string(constrained));
  for (const char* name : {"structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
                           "guided_decoding_backend", "guided_whitespace_pattern", "structural_tag"})
    f.refuse_unless(name, "null", constrained);
  f.refuse_unless("logits_processors", "null", "requests bring no code; see logit_bias, bad_words and the penalties");
  f.refuse_unless("prompt_embeds", "null", "prompts are texts or token ids");
  f.refuse_unless("vllm_xargs", "null", "there are no arguments beyond the documented fields");
}

}  // namespace serving::detail

namespace serving {

RLCORE_INLINE sampling_fields read_sampling_fields(body_fields& f, const request_defaults& by_default) {
  sampling_fields s;
  s.model = f.string("model").value_or("");
  s.request_id = f.string("request_id").value_or("");
  s.cache_salt = f.string("cache_salt").value_or("");
  detail::refuse_unsupported(f);
  detail::read_choice_of_tokens(f, by_default, s);
  detail::read_bias(f, s);
  detail::read_ends(f, s);
  detail::read_report(f, by_default, s);
  s.most_tokens = by_default.most_tokens;
  s.n = f.integer("n").value_or(1);
  detail::check_range(s.n >= 1 && s.n <= most_choices, "n", "at least 1 and at most " + std::to_string(most_choices),
                      static_cast<double>(s.n));
  if (const auto k = f.integer("truncate_prompt_tokens")) {
    detail::check_range(*k >= 1 || *k == -1, "truncate_prompt_tokens", "-1 or at least 1", static_cast<double>(*k));
    s.truncate_prompt_tokens = *k;
  }
  f.ignore({"user", "metadata", "store", "service_tier", "kv_transfer_params", "spaces_between_special_tokens",
            "safety_identifier", "prompt_cache_key", "mm_processor_kwargs", "reasoning_effort"});
  return s;
}

RLCORE_INLINE void check_max_tokens(const sampling_fields& s, std::int64_t least) {
  if (!s.max_tokens) return;
  detail::check_range(*s.max_tokens >= least, "max_tokens", "at least " + std::to_string(least),
                      static_cast<double>(*s.max_tokens));
  if (s.rules.min_tokens > *s.max_tokens)
    throw bad_request("min_tokens must be at most max_tokens = " + std::to_string(*s.max_tokens) + ", got " +
                      std::to_string(s.rules.min_tokens));
}

}  // namespace serving
RLCORE_END
#endif
