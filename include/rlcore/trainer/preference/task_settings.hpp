// Loss settings of the preference trainers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

/// Loss settings of OpenRLHF's train_dpo.
struct dpo_task_settings {
  double beta = 0.1, label_smoothing = 0, nll_loss_coef = 0;
  bool ipo = false;
  std::int64_t pairs_per_pass = 8;    ///< through the model together; no result depends on it
  std::filesystem::path scores = {};  ///< where evaluate() writes the rewards of each pair; empty: nowhere
};

/// Loss settings of OpenRLHF's train_kto.
struct kto_task_settings {
  double beta = 0.01, desirable_weight = 1, undesirable_weight = 1;
  std::int64_t rows_per_pass = 8;     ///< through the model together; no result depends on it
  std::int64_t rows_per_step = 128;   ///< evaluation forms its mismatched rows within groups of so many
  std::filesystem::path scores = {};  ///< where evaluate() writes the reward of each row; empty: nowhere
};

/// Loss settings of OpenRLHF's train_rm.
struct rm_task_settings {
  bool margins = false;               ///< subtract each pair's margin (--margin_loss)
  std::int64_t pairs_per_pass = 1;    ///< through the model together; no result depends on it
  std::filesystem::path scores = {};  ///< where evaluate() writes the rewards of each pair; empty: nowhere
};

/// Loss settings of OpenRLHF's train_prm.
struct prm_task_settings {
  std::vector<std::int32_t> reward_tokens;  ///< empty: against the whole vocabulary
  std::int64_t rows_per_pass = 1;           ///< through the model together; no result depends on it
  std::filesystem::path scores = {};        ///< where evaluate() writes the judgements of each row; empty: nowhere
};

}  // namespace trainer
RLCORE_END
