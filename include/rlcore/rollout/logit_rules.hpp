// Rules on logits: penalties, biases, allowed tokens.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace rollout {

/// The shortest decimal text that parses back to `x`.
inline std::string float_text(float x) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x).ptr};
}

/// Adds a bias to the logit of one token.
struct token_bias {
  std::int32_t token = 0;
  float bias = 0;
};

/// Most tokens of the bad words of a sequence together: each may be compared with every token that is drawn.
inline constexpr std::size_t most_bad_word_tokens = std::size_t{1} << 16;

/// The rules of one sequence, in the order in which vLLM applies them; the defaults change nothing. `sampling` then
/// draws from the result. See apply_rules().
struct logit_rules {
  std::vector<std::int32_t> allowed_token_ids = {};  ///< all others get -infinity; empty: no restriction
  std::vector<std::vector<std::int32_t>> bad_words =
      {};                                     ///< as tokens; the token that would complete one gets -infinity
  std::int64_t min_tokens = 0;                ///< until this many are generated,
  std::vector<std::int32_t> ending_ids = {};  ///< these get -infinity; empty: the job's stop_ids
  std::vector<token_bias> logit_bias = {};    ///< added, at most 100 and at least -100
  /// For tokens in prompt or text: divides positive logits, multiplies the rest (Keskar et al. 2019).
  float repetition_penalty = 1;
  float frequency_penalty = 0;  ///< subtracted once per occurrence in the generated text
  float presence_penalty = 0;   ///< subtracted if the token was generated

  /// Do the rules need the sequence's token_history?
  bool penalises() const noexcept { return repetition_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0; }
  /// Do the rules change nothing?
  bool neutral() const noexcept {
    return !penalises() && allowed_token_ids.empty() && bad_words.empty() && logit_bias.empty() &&
           (min_tokens == 0 || ending_ids.empty());
  }
  /// Throws config_error naming the field: a number out of range, an id outside of the vocabulary, or rules that could
  /// exclude every token. `never` are ids that the model never generates.
  void validate(std::int64_t vocabulary, std::int64_t max_new_tokens, std::span<const std::int32_t> never = {}) const;

 private:
  static void check_penalty(const char* name, float value) {
    if (!(value >= -2 && value <= 2))
      throw config_error(std::string(name) + "=" + std::to_string(value) + " must lie in [-2, 2]");
  }
  static void check_id(const char* name, std::int32_t token, std::int64_t vocabulary) {
    if (token < 0 || token >= vocabulary)
      throw config_error(std::string(name) + ": token " + std::to_string(token) + " is not in the vocabulary of " +
                         std::to_string(vocabulary) + " tokens");
  }
  /// Can the text ever contain all but the last token of the word? `allowed` are the allowed tokens, sorted.
  static bool may_complete(std::span<const std::int32_t> word, std::span<const std::int32_t> allowed) {
    return allowed.empty() || std::ranges::all_of(word.first(word.size() - 1), [&](std::int32_t token) {
             return std::ranges::binary_search(allowed, token);
           });
  }
  /// Requires at least one token that no rule can ever exclude.
  void check_choice(std::int64_t vocabulary, std::span<const std::int32_t> never) const;
};

}  // namespace rollout
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_ROLLOUT)
RLCORE_BEGIN
namespace rollout {

RLCORE_INLINE void logit_rules::validate(std::int64_t vocabulary, std::int64_t max_new_tokens,
                                         std::span<const std::int32_t> never) const {
  if (!(repetition_penalty >= 1e-3f && repetition_penalty <= 1e3f))
    throw config_error("repetition_penalty=" + float_text(repetition_penalty) +
                       " must lie in [0.001, 1000]; 1 changes nothing");
  check_penalty("frequency_penalty", frequency_penalty);
  check_penalty("presence_penalty", presence_penalty);
  if (min_tokens < 0 || min_tokens > max_new_tokens)
    throw config_error("min_tokens=" + std::to_string(min_tokens) +
                       " must lie in [0, max_tokens = " + std::to_string(max_new_tokens) + "]");
  for (const std::int32_t token : allowed_token_ids) check_id("allowed_token_ids", token, vocabulary);
  std::size_t tokens = 0;
  for (const auto& word : bad_words) {
    if (word.empty()) throw config_error("bad_words: a word has no token");
    for (const std::int32_t token : word) check_id("bad_words", token, vocabulary);
    tokens += word.size();
  }
  if (tokens > most_bad_word_tokens)
    throw config_error("bad_words: " + std::to_string(tokens) + " tokens together; expected at most " +
                       std::to_string(most_bad_word_tokens));
  for (const std::int32_t token : ending_ids) check_id("stop_token_ids", token, vocabulary);
  for (const token_bias& b : logit_bias) {
    check_id("logit_bias", b.token, vocabulary);
    if (!std::isfinite(b.bias))
      throw config_error("logit_bias of token " + std::to_string(b.token) + "=" + float_text(b.bias) +
                         " must be a number; those outside of [-100, 100] act as its ends");
  }
  check_choice(vocabulary, never);
}

RLCORE_INLINE void logit_rules::check_choice(std::int64_t vocabulary, std::span<const std::int32_t> never) const {
  std::vector<std::int32_t> excluded(never.begin(), never.end());
  std::vector<std::int32_t> allowed = allowed_token_ids;
  std::ranges::sort(allowed);
  for (const auto& word : bad_words)
    if (may_complete(word, allowed)) excluded.push_back(word.back());
  if (min_tokens > 0) excluded.insert(excluded.end(), ending_ids.begin(), ending_ids.end());
  std::ranges::sort(excluded);
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  const auto free = [&](std::int32_t token) { return !std::ranges::binary_search(excluded, token); };
  if (allowed_token_ids.empty() ? std::ssize(excluded) < vocabulary : std::ranges::any_of(allowed_token_ids, free))
    return;
  throw config_error("allowed_token_ids, bad_words and min_tokens together may leave no token to draw");
}

}  // namespace rollout
RLCORE_END
#endif
