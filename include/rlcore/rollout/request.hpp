// The request, the settings and the response of a rollout.
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
/// whatever else is generated beside it. Neighbours with the same prompt share its keys and values. `pictures` are
/// those of the prompt, in the order of their places among its tokens: where one goes there are as many image tokens
/// (nn::config::image_token_id) as its grid has. With a `key` of its own, that and `sample` alone address the random
/// numbers. All spans have to outlive the call.
struct request {
  std::span<const std::int32_t> prompt;
  std::uint32_t prompt_number = 0, sample = 0;
  std::span<const nn::picture> pictures = {};
  std::optional<random_key> key = {};
};

/// Why a response ended: with its EOS, at its longest, since the caller of a session wanted no more of it, or since its
/// rules left no token to draw.
enum class finish { eos, length, cancelled, failed };

/// The generated tokens, including a drawn EOS. Log-prob and entropy are those of the *untruncated* tempered
/// distribution without rules: the same bits that training computes for the same tokens.
struct response {
  std::vector<std::int32_t> tokens;
  std::vector<float> logp, entropy;
  finish reason = finish::length;
};

/// How to generate. No result depends on the settings between eos_ids and weights.
struct generation {
  rollout::sampling sampling;
  std::int64_t max_new_tokens = 0;
  std::vector<std::int32_t> eos_ids;
  std::int64_t max_sequences = 64;         ///< decoded together (verl's rollout.max_num_seqs)
  std::int64_t max_batched_tokens = 2048;  ///< tokens of one forward pass (verl's rollout.max_num_batched_tokens)
  std::size_t max_cache_bytes = std::size_t{2} << 30;  ///< keys and values of all running sequences, rows of pictures
  bool share_prompts = true;  ///< a prompt's samples read the same keys and values (rollout.enable_prefix_caching)
  bool chunk_prompts = true;  ///< a prompt may be fed in pieces; otherwise a prompt longer than a pass goes alone
  /// The format of the weights in linear layers. Unset: the format of training, so that the log-probs have its bits.
  /// int8 reads a quarter of the bytes of float; its text and log-probs are those of a slightly different model.
  std::optional<weight_format> weights = {};
  logit_rules rules = {};  ///< on the logits that tokens are drawn from; recorded log-probs are those without them
};

}  // namespace rollout
RLCORE_END
