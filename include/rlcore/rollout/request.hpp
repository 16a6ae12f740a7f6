// A request of the rollout engine and its job: sampling settings, responses of several turns.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/rollout/logit_rules.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace rollout {

/// Draws from softmax(logits / temperature), without the tokens less likely than min_p times the most likely one,
/// truncated to the top_k most likely and then to the smallest set whose probability reaches top_p, renormalised.
/// vLLM's order and conventions: top_k <= 0 and min_p 0 are off, temperature 0 is greedy. Any nonzero temperature is at
/// least 1e-5, so that logits / temperature are finite.
struct sampling {
  float temperature = 1;
  std::int64_t top_k = -1;
  float top_p = 1;
  float min_p = 0;

  /// The smallest temperature that is not greedy.
  static constexpr float least_temperature = 1e-5f;

  bool greedy() const noexcept { return temperature == 0; }
  /// Whether some tokens may be cut off.
  bool truncates() const noexcept { return !greedy() && (top_k > 0 || top_p < 1 || min_p > 0); }
  /// Throws config_error naming the offending setting.
  void validate() const {
    if (!greedy() && (!(temperature >= least_temperature) || !std::isfinite(temperature)))
      throw config_error("temperature=" + float_text(temperature) + " must be 0 (greedy) or at least 1e-05");
    if (top_k < -1) throw config_error("top_k=" + std::to_string(top_k) + " must be -1 (all tokens) or more");
    if (!(top_p > 0 && top_p <= 1)) throw config_error("top_p=" + std::to_string(top_p) + " must lie in (0, 1]");
    if (!(min_p >= 0 && min_p <= 1)) throw config_error("min_p=" + std::to_string(min_p) + " must lie in [0, 1]");
  }
  sampling_arguments arguments() const noexcept { return {temperature, static_cast<extent_t>(top_k), top_p, min_p}; }
  bool operator==(const sampling&) const = default;
};

/// The temperature that vLLM uses for a requested t >= 0: 0 (greedy) below 1e-5, at least 0.01 otherwise.
inline float vllm_temperature(float t) noexcept {
  if (!(t >= 0 && t < 0.01f)) return t;
  return t < sampling::least_temperature ? 0.0f : 0.01f;
}

/// A token and its log-prob.
struct token_logprob {
  std::int32_t token = 0;
  float logp = 0;
};

/// One continuation to generate. (prompt_number, sample) address its random numbers: equal addresses give equal text,
/// independent of the rest of the batch. Adjacent requests with the same prompt share its keys and values. `images`
/// are the prompt's images in prompt order: the prompt holds one image token (nn::config::image_token_id) per token of
/// an image's grid. With its own `key`, only `key` and `sample` address the random numbers; `call` takes the place of
/// the call's key alone. `written` is the beginning of the response, which an earlier call left: it is continued as if
/// this call had drawn it. Its tokens from `turn` on belong to the turn that goes on. All spans must outlive the call.
struct request {
  std::span<const std::int32_t> prompt;
  std::uint32_t prompt_number = 0, sample = 0;
  std::span<const nn::image_patches> images = {};
  std::optional<random_key> key = {}, call = {};
  std::span<const std::int32_t> written = {};
  std::size_t turn = 0;
};

/// How the reason of finish::failed ends where the logits of a job were not finite.
inline constexpr std::string_view not_finite_text =
    "are not finite: the model's weights are broken, or too large for its arithmetic";

/// Thrown by generate() in that case.
struct not_finite_error : error {
  using error::error;
};

/// Why a response ended: EOS, maximum length, cancelled by the caller of a session, or failed because the logit rules
/// excluded every token or because its logits were not finite. `paused`: it has not, see job::pause_after.
enum class finish { eos, length, cancelled, failed, paused };

/// Tokens [begin, begin + count) of a response that the policy did not write, such as the reply of a tool.
struct context_run {
  std::int32_t begin = 0, count = 0;
  bool operator==(const context_run&) const = default;
};

/// The tokens that the call drew, including EOS. Log-prob and entropy come from the tempered distribution without
/// rules, *untruncated* or, with generation::keep_sampling_mask, over the tokens of the mask: bit-identical to what
/// training computes for the same tokens.
struct response {
  std::vector<std::int32_t> tokens;
  std::vector<float> logp, entropy;  ///< of the drawn tokens
  finish reason = finish::length;
  std::vector<context_run> context = {};    ///< tokens that a turn_source appended, ascending; the others were drawn
  ragged<std::int32_t> sampling_mask = {};  ///< of the drawn tokens, see nn::targets; no rows if it was not asked for
};

/// Generation settings. No result depends on the settings between eos_ids and weights.
struct generation {
  rollout::sampling sampling;
  std::int64_t max_new_tokens = 0;
  std::vector<std::int32_t> eos_ids;
  std::int64_t max_sequences = 64;         ///< decoded together (verl's rollout.max_num_seqs)
  std::int64_t max_batched_tokens = 2048;  ///< tokens of one forward pass (verl's rollout.max_num_batched_tokens)
  std::size_t max_cache_bytes = std::size_t{2} << 30;  ///< KV cache of all running sequences, image rows
  bool share_prompts = true;  ///< samples share the prompt's KV pages (rollout.enable_prefix_caching)
  bool chunk_prompts = true;  ///< chunked prefill; otherwise a prompt longer than a pass goes alone
  /// The weight format of linear layers. Unset: the training format, so that log-probs are bit-identical to training.
  /// int8 reads a quarter of the bytes of float; its text and log-probs are those of a slightly different model.
  std::optional<weight_format> weights = {};
  logit_rules rules = {};           ///< applied before the draw; recorded log-probs ignore them
  bool keep_sampling_mask = false;  ///< see job
};

/// The id of a job in its session; never reused.
using ticket = std::uint64_t;

/// A continuation to generate; owns its prompt. The text is a function of (weights, prompt, images, sampling, key,
/// prompt_number, sample, first_token): token number t behind the prompt is drawn with the random number
/// key.uniform(prompt_number, sample, first_token + t).
struct job {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> written = {};  ///< the first tokens of the response
  std::size_t turn = 0;                    ///< the first of them that the turn has drawn
  /// In prompt order, as in rollout::request; `pixels` owns the data that they view.
  std::vector<nn::image_patches> images = {};
  std::shared_ptr<const void> pixels = {};
  rollout::sampling sampling = {};
  std::shared_ptr<const logit_rules> rules = {};  ///< applied before a draw; each turn counts as a new text
  std::int64_t max_new_tokens = 0;                ///< per turn; those of `written` from `turn` on count
  std::int64_t pause_after = 0;  ///< with keep_open: the first turn pauses when so many more are drawn; 0: never
  std::vector<std::int32_t> stop_ids = {};  ///< a turn ends after one of these: EOS and others
  random_key key = {};
  std::uint32_t prompt_number = 0, sample = 0, first_token = 0;
  std::int64_t priority = 0;  ///< smaller values start first, equal ones in arrival order
  std::uint64_t salt = 0;     ///< jobs with different salts share no KV pages
  bool keep_open = false;     ///< can be extended and forked after a turn, until cancelled
  /// Log-probs and entropies are computed from softmax(logits / this), before any rule and truncation. Unset: the
  /// sampling temperature (1 if greedy), as in training. 1 gives the model's own distribution.
  std::optional<float> logprob_temperature = {};
  /// Log-probs of drawn tokens come from the distribution after rules and truncation, see kept_tokens(). Prompt
  /// log-probs do not change.
  bool processed_logprobs = false;
  /// Reports the tokens that top_k, top_p and min_p leave for each draw, and takes log-prob and entropy over them:
  /// DeepSeek-AI 2025 (DeepSeek-V3.2, arXiv 2512.02556), section 3.1. Draws by the inverse CDF in order of ids, so
  /// texts are others than without.
  bool keep_sampling_mask = false;
  std::int32_t top_logprobs = 0;                     ///< number of most likely tokens reported with each draw
  std::optional<std::int32_t> prompt_logprobs = {};  ///< report prompt log-probs with this many top tokens

  /// Throws config_error for settings of log-probs that cannot be, or not together.
  void check_logprobs() const {
    if (top_logprobs < 0 || prompt_logprobs.value_or(0) < 0)
      throw config_error("top_logprobs and prompt_logprobs must not be negative");
    if (const float t = logprob_temperature.value_or(1); !(t >= sampling::least_temperature) || !std::isfinite(t))
      throw config_error("logprob_temperature=" + float_text(t) + " must be at least 1e-05");
    if (keep_sampling_mask && (top_logprobs > 0 || processed_logprobs))
      throw config_error(
          "keep_sampling_mask: log-probs are those of training over the mask; top_logprobs and processed_logprobs are "
          "over other tokens");
  }
};

/// A drawn token. `number` counts the tokens after the prompt, including those appended by the caller. `most_likely`
/// has job::top_logprobs tokens, the most likely first, and is valid during the call that reports it; `rank` is the
/// token's rank in that order, from 1; 0 if not requested. `sampling_mask`, likewise, has the tokens that could be
/// drawn, ascending; none if those were all or if they were not asked for.
struct drawn_token {
  ticket of = 0;
  std::uint32_t number = 0;
  std::int32_t token = 0;
  float logp = 0, entropy = 0;
  std::int64_t rank = 0;
  std::span<const token_logprob> most_likely = {};
  std::span<const std::int32_t> sampling_mask = {};
};

/// The log-prob of a prompt token, starting at the second. `number` is its position in the prompt, `rank` its rank
/// among all tokens by probability, from 1.
struct prompt_token {
  ticket of = 0;
  std::uint32_t number = 0;
  std::int32_t token = 0;
  float logp = 0;
  std::int64_t rank = 0;
  std::span<const token_logprob> most_likely = {};  ///< job::prompt_logprobs of them
};

/// Callbacks of session::step(); these do nothing. A listener derives from this class and hides the callbacks that it
/// needs.
struct session_listener {
  /// A prompt token has been scored.
  void on_prompt(const prompt_token&) {}
  /// A sequence drew a token.
  void on_token(const drawn_token&) {}
  /// A turn is about to end with finish::failed; the reason is a sentence.
  void on_failure(ticket, const std::string&) {}
  /// A turn has ended. This is the last event of the job, unless it is kept open.
  void on_end(ticket, finish) {}
};

/// Decides after each turn whether a response goes on. engine::generate() calls all functions from one thread, between
/// two passes; other responses are drawn while a reply is awaited. No drawn token depends on when a reply arrives.
class turn_source {
 public:
  /// Tokens to append to the response of request number `request`; the policy then draws on. No tokens: the response is
  /// complete.
  struct continuation {
    std::size_t request = 0;
    std::vector<std::int32_t> context;
  };

  virtual ~turn_source() = default;
  /// Called once with all requests, before the calls of generate() that draw them: may put other prompts in their
  /// places, which live as long as this object.
  virtual void prepare(std::span<request> /*requests*/) {}
  /// A call of generate() begins with these requests.
  virtual void begin(std::span<const request> requests) = 0;
  /// A turn of request number `request` has ended: it drew tokens [turn, end) of `so_far`, which has the tokens of this
  /// call of generate(), replies included. A turn at 0 may have begun in an earlier call: its first tokens are then
  /// request::written from request::turn on. next() returns exactly one continuation for each ended turn.
  virtual void end_turn(std::size_t request, const response& so_far, std::size_t turn) = 0;
  /// The next continuation that is ready. With `wait` it waits for one; otherwise it returns nothing if none is.
  virtual std::optional<continuation> next(bool wait) = 0;
};

/// Ends a call of engine::generate() before all of its responses are complete.
class pause_points {
 public:
  virtual ~pause_points() = default;
  /// By how many tokens more every response may grow before this is called again; 0: generate() returns, and the
  /// responses that are not complete have finish::paused. At the first call `so_far` are empty; later each is complete,
  /// or has grown so far and ends with a drawn token. Replies of a turn_source are awaited and counted. One that
  /// reaches beyond the window is followed by one drawn token, and by the next reply if that token ends the turn.
  virtual std::int64_t next(std::span<const response> so_far) = 0;
};

}  // namespace rollout
RLCORE_END
