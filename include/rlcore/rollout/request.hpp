// What is asked of a rollout, how it is to be done, and what comes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/rollout/sampling.hpp"

RLCORE_BEGIN
namespace rollout {

/// One continuation to generate. (prompt_number, sample) address its random numbers: equal addresses, equal text,
/// whatever else is generated beside it. Neighbours with the same prompt tokens share its keys and values.
struct request {
  std::span<const std::int32_t> prompt;
  std::uint32_t prompt_number = 0, sample = 0;
};

enum class finish { eos, length };

/// The generated tokens, the EOS included if one was drawn, with log-prob and entropy under the *untruncated* tempered
/// distribution: the same bits that training computes for the same tokens.
struct response {
  std::vector<std::int32_t> tokens;
  std::vector<float> logp, entropy;
  finish reason = finish::length;
};

/// No result depends on anything between eos_ids and weights.
struct generation {
  rollout::sampling sampling;
  std::int64_t max_new_tokens = 0;
  std::vector<std::int32_t> eos_ids;
  std::int64_t max_sequences = 64;         ///< decoded together (verl's rollout.max_num_seqs)
  std::int64_t max_batched_tokens = 2048;  ///< tokens of one forward pass (verl's rollout.max_num_batched_tokens)
  std::size_t max_cache_bytes = std::size_t{2} << 30;  ///< keys and values of all running sequences
  bool share_prompts = true;  ///< a prompt's samples read the same keys and values (rollout.enable_prefix_caching)
  bool chunk_prompts = true;  ///< a prompt may be fed in pieces; otherwise one longer than a pass goes alone in its own
  /// What linear layers multiply by. Unset: what training does, so that the log-probs are its bits. int8 reads a
  /// quarter of the bytes of float; its text and log-probs are those of a slightly different model.
  std::optional<weight_format> weights = {};
};

}  // namespace rollout
RLCORE_END
