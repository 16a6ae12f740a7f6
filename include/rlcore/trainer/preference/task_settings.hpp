// What the trainers of preferences learn and report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "rlcore/objective/piece/preference/unpaired.hpp"
#include "rlcore/trainer/preference/answer_loss.hpp"

RLCORE_BEGIN
namespace trainer {

/// DPO and its relatives: a loss of pairs.
struct dpo_task_settings {
  answer_loss loss;                   ///< of pairs; means over the pairs of the step
  double nll_loss_coef = 0;           ///< + so much of the mean over chosen answers of their mean NLL per token
  double beta = 0.1;                  ///< the rewards that are reported: beta times the log-ratio to the reference
  std::int64_t pairs_per_pass = 8;    ///< through the model together; no result depends on it
  std::filesystem::path scores = {};  ///< where evaluate() writes the rewards of each pair; empty: nowhere
};

/// KTO: a loss of single answers, given the step's estimate of the KL.
struct kto_task_settings {
  std::function<answer_loss(kto_baseline)> loss;
  double beta = 0.01;                 ///< the rewards that are reported: beta times the log-ratio to the reference
  std::int64_t rows_per_pass = 8;     ///< through the model together; no result depends on it
  std::int64_t rows_per_step = 128;   ///< evaluation forms its mismatched rows within groups of so many
  std::filesystem::path scores = {};  ///< where evaluate() writes the reward of each row; empty: nowhere
};

/// A reward model: a loss of pairs of scores.
struct rm_task_settings {
  answer_loss loss;
  bool margins = false;               ///< the loss reads each pair's margin
  std::int64_t pairs_per_pass = 1;    ///< through the model together; no result depends on it
  std::filesystem::path scores = {};  ///< where evaluate() writes the rewards of each pair; empty: nowhere
};

/// A process reward model: the cross entropy of the judgement at each placeholder.
struct prm_task_settings {
  std::vector<std::int32_t> reward_tokens;  ///< empty: against the whole vocabulary
  std::int64_t rows_per_pass = 1;           ///< through the model together; no result depends on it
  std::filesystem::path scores = {};        ///< where evaluate() writes the judgements of each row; empty: nowhere
};

}  // namespace trainer
RLCORE_END
