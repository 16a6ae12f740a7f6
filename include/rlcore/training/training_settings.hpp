// How something is trained, and what became of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/optim/adamw.hpp"

RLCORE_BEGIN
namespace trainer {

/// What a trainable_model is told.
struct training_settings {
  optim::adamw_settings adamw = {};
  std::size_t logits_bytes = 0;        ///< as of nn::workspace
  bool recompute = false;              ///< activation recomputation; changes no bit
  std::uint64_t seed = 1;              ///< of a score head that the loaded folder does not have
  bool decay_norms_and_biases = true;  ///< false: weight decay is for matrices alone (OpenRLHF)
  std::optional<nn::lora_settings> lora = {};
  bool freeze_vision_tower = false;  ///< visual.*, the merger too: no gradient, no update, no share of the norm
  std::string base_name = {};        ///< what adapter folders call the base; empty: the folder that was loaded
  double router_aux_loss = 0;        ///< above 0: a load-balancing loss of experts, whatever config.json says
  bool save_whole = false;           ///< several ranks save the weights of huggingface/ too (verl's hf_model)
};

/// What one optimizer step did to the parameters.
struct step_outcome {
  double gradient_norm = 0;  ///< global L2 norm before clipping
  bool skipped = false;      ///< the norm was not finite: parameters and optimizer state are untouched
};

}  // namespace trainer
RLCORE_END
