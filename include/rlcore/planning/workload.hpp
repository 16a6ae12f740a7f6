// One step of reinforcement learning in numbers.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// The reference model: none, whole on each device, or sharded.
enum class reference_form { none, whole, sharded };

/// One step of the workload; plans for the worst case, every response at its maximum length.
struct workload {
  std::int64_t prompts = 128, responses = 8, prompt_length = 1024, response_length = 3072;
  std::int64_t image_tokens = 0;      ///< image tokens of a prompt
  std::int64_t updates = 1;           ///< optimizer steps for a step's sequences
  std::int64_t epochs = 1;            ///< passes over each sequence
  std::int64_t micro_tokens = 16384;  ///< tokens that one device takes through the model at once
  bool recompute = true;              ///< activation recomputation: layers run again before their backward
  bool old_log_probs = true;          ///< scored again by the trained model before the update
  /// Scoring by a reference model, laid out like the trained weights (a shard with zero 3, as in this library's
  /// trainers), or whole on every device.
  reference_form reference = reference_form::none;
  double logits_bytes = 256 << 20;  ///< of logits in memory at once

  std::int64_t sequences() const noexcept { return prompts * responses; }
  std::int64_t length() const noexcept { return prompt_length + response_length; }
};

}  // namespace trainer::planning
RLCORE_END
