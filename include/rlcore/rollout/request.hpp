// Rollout request, settings and response.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/rollout/logit_rules.hpp"
#include "rlcore/rollout/sampling.hpp"

RLCORE_BEGIN
namespace rollout {

/// One continuation to generate. (prompt_number, sample) address its random numbers: equal addresses give equal text,
/// independent of the rest of the batch. Adjacent requests with the same prompt share its keys and values. `pictures`
/// are the prompt's images in prompt order: the prompt holds one image token (nn::config::image_token_id) per token of
/// an image's grid. With its own `key`, only `key` and `sample` address the random numbers. All spans must outlive the
/// call.
struct request {
  std::span<const std::int32_t> prompt;
  std::uint32_t prompt_number = 0, sample = 0;
  std::span<const nn::picture> pictures = {};
  std::optional<random_key> key = {};
};

/// Why a response ended: EOS, maximum length, cancelled by the caller of a session, or failed because the logit rules
/// excluded every token.
enum class finish { eos, length, cancelled, failed };

/// The generated tokens, including a drawn EOS. Log-prob and entropy come from the *untruncated* tempered distribution
/// without rules: bit-identical to what training computes for the same tokens.
struct response {
  std::vector<std::int32_t> tokens;
  std::vector<float> logp, entropy;
  finish reason = finish::length;
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
  logit_rules rules = {};  ///< applied before the draw; recorded log-probs ignore them
};

}  // namespace rollout
RLCORE_END
