// Losses of judged answers chosen at run time, and what the trainers of preferences report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <type_traits>
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/preference/unpaired.hpp"

RLCORE_BEGIN
namespace train {

/// Any named algorithm of pairs or of single answers that reports a loss and three means: answer_loss{paper::dpo()},
/// {openrlhf::ipo()}, {paper::kto(link)}, {paper::rm()}. One indirect call per micro-batch.
class answer_loss {
 public:
  using report_type = rlcore::report<1, 3>;

  /// A copy of the algorithm.
  template <class Advantage, class Objective, class Aggregation>
  answer_loss(const algorithm<Advantage, Objective, Aggregation>& named)
      : report_(named.report()),
        evaluate_([named](const token_batch<float>& batch, const global_counts& step,
                          const token_gradients<float>& gradients) -> report_type {
          return rlcore::evaluate(serial{}, named, batch, step, gradients);
        }) {
    static_assert(std::is_same_v<decltype(named.report()), report_type>,
                  "rlcore: the trainers of preferences log the loss and three means of it (pair_monitors, or those of "
                  "kto_link); this algorithm reports others");
  }

  /// A report without rows.
  const report_type& report() const noexcept { return report_; }
  /// Writes the slopes of a micro-batch, if `gradients` has room for them. `step` counts the whole optimizer step.
  report_type operator()(const token_batch<float>& batch, const global_counts& step,
                         const token_gradients<float>& gradients) const {
    return evaluate_(batch, step, gradients);
  }

 private:
  report_type report_;
  std::function<report_type(const token_batch<float>&, const global_counts&, const token_gradients<float>&)> evaluate_;
};

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

}  // namespace train

RLCORE_END
