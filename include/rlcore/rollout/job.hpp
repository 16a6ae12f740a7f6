// What a session generates: one continuation, with everything that its text depends on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/rollout/logit_rules.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/sampling.hpp"
#include "rlcore/rollout/token_logprob.hpp"

RLCORE_BEGIN
namespace rollout {

/// The number of a job in its session; never given out twice.
using ticket = std::uint64_t;

/// A continuation to generate. It owns its prompt. The text is a function of (weights, prompt, pictures, sampling, key,
/// prompt_number, sample, first_token): token number t behind the prompt is drawn with the random number
/// key.uniform(prompt_number, sample, first_token + t).
struct job {
  std::vector<std::int32_t> prompt;
  /// In the order of their places among the prompt's tokens, as in rollout::request; `pixels` owns what they view.
  std::vector<nn::picture> pictures = {};
  std::shared_ptr<const void> pixels = {};
  rollout::sampling sampling = {};
  std::shared_ptr<const logit_rules> rules = {};  ///< on the logits of a draw; a turn is a text of its own to them
  std::int64_t max_new_tokens = 0;                ///< drawn by a turn
  std::vector<std::int32_t> stop_ids = {};        ///< a turn ends behind one of these: EOS and others
  random_key key = {};
  std::uint32_t prompt_number = 0, sample = 0, first_token = 0;
  std::int64_t priority = 0;  ///< smaller ones start first, those of equal priority as they arrive
  std::uint64_t salt = 0;     ///< jobs with different salts share no keys and values
  bool keep_open = false;     ///< may be extended and forked after a turn, until cancelled
  /// Log-probs and entropies are those of softmax(logits / this), before any rule and cut. Unset: the sampling's
  /// temperature (1 if greedy), as in training. 1 gives those of the model's own distribution.
  std::optional<float> logprob_temperature = {};
  /// Log-probs of drawn tokens are instead those of the draw, behind rules and cuts: kept_tokens(). The prompt's stay.
  bool processed_logprobs = false;
  std::int32_t top_logprobs = 0;                     ///< so many most likely tokens are reported with each draw
  std::optional<std::int32_t> prompt_logprobs = {};  ///< report each prompt token's log-prob, with so many most likely
};

/// A token that a sequence has drawn. `number` counts the tokens behind the prompt, those of the caller included.
/// `most_likely` has job::top_logprobs tokens, the most likely first, and is valid during the call that reports it;
/// `rank` is the token's place in that order, from 1, and 0 if none was asked for.
struct drawn_token {
  ticket of = 0;
  std::uint32_t number = 0;
  std::int32_t token = 0;
  float logp = 0, entropy = 0;
  std::int64_t rank = 0;
  std::span<const token_logprob> most_likely = {};
};

/// The log-prob of a prompt's token, from the second one on. `number` is its place in the prompt, `rank` its place
/// among all tokens by probability, from 1.
struct prompt_token {
  ticket of = 0;
  std::uint32_t number = 0;
  std::int32_t token = 0;
  float logp = 0;
  std::int64_t rank = 0;
  std::span<const token_logprob> most_likely = {};  ///< job::prompt_logprobs of them
};

/// What session::step() calls; these do nothing. A listener derives from it and hides what it wants to hear.
struct session_listener {
  /// A token of a prompt has its log-prob.
  void on_prompt(const prompt_token&) {}
  /// A sequence has drawn a token.
  void on_token(const drawn_token&) {}
  /// A turn is about to end with finish::failed, for this reason: a sentence.
  void on_failure(ticket, const std::string&) {}
  /// A turn has ended. Nothing more is said about the job, unless it is kept open.
  void on_end(ticket, finish) {}
};

}  // namespace rollout
RLCORE_END
