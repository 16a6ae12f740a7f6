// Training settings and the outcome of an optimizer step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/train/model/leaf_plan.hpp"

RLCORE_BEGIN
namespace train {

/// Settings of a trainable_model.
struct training_settings {
  optim::adamw_settings adamw = {};
  std::size_t logits_bytes = 0;        ///< as of nn::workspace
  bool recompute = false;              ///< activation recomputation; changes no bit
  std::uint64_t seed = 1;              ///< of a score head that the loaded folder does not have
  bool decay_norms_and_biases = true;  ///< false: weight decay is for matrices alone (OpenRLHF)
  std::optional<nn::lora_settings> lora = {};
  bool freeze_vision_tower = false;  ///< visual.*, including the merger: no gradient, no update, not part of the norm
  std::string base_name = {};        ///< name of the base in adapter folders; empty: the loaded folder
  double router_aux_loss = 0;        ///< above 0: adds a load-balancing loss of experts, overriding config.json
  std::size_t long_pass_tokens = train::long_pass_tokens;  ///< see leaf_plan.hpp; changes no bit
  bool save_whole = false;  ///< several ranks save the weights of huggingface/ too (verl's hf_model)
};

/// The model that adapters were attached to.
struct adapter_base {
  std::string name;         ///< in adapter folders
  std::string folder;       ///< where it was read
  std::string fingerprint;  ///< of its weights
};

/// The rows of an optimizer step, and the largest micro-batch of them (0: no limit).
struct micro_batch_settings {
  std::size_t rows = 0;
  std::int64_t max_rows = 0, max_tokens = 0;  ///< of a micro-batch; a single row with more tokens goes alone
};

/// One step of the optimizer.
struct step_settings {
  double lr = 0;         ///< learning rate
  double grad_clip = 0;  ///< largest L2 norm of the gradient (<= 0: no clipping)
};

/// The outcome of one optimizer step.
struct step_outcome {
  double gradient_norm = 0;  ///< global L2 norm before clipping
  bool skipped = false;      ///< the norm was not finite: parameters and optimizer state are untouched
};

}  // namespace train
RLCORE_END
