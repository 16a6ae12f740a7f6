// Losses of judged answers chosen at run time, packed prompts and answers, and what the trainers of preferences report.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/preference/unpaired.hpp"
#include "rlcore/tensor/view.hpp"

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

/// Tokens of an answer that are scored: those behind the prompt, never the very first token of a row.
inline std::size_t answer_start(std::size_t prompt_length) noexcept { return std::max<std::size_t>(prompt_length, 1); }
/// The number of an answer's tokens that are scored.
inline std::size_t answer_length(std::span<const std::int32_t> tokens, std::size_t prompt_length) noexcept {
  return tokens.size() - std::min(tokens.size(), answer_start(prompt_length));
}

/// Rows without padding, and one target per token of an answer. The last token of a row predicts nothing that is
/// scored, so it is not fed.
struct packed_answers {
  ragged<std::int32_t> inputs;
  nn::targets targets;
  std::vector<std::int32_t> offsets{0};  ///< of the answers' tokens in `targets`

  void clear() {
    inputs.clear();
    targets.row.clear(), targets.token.clear();
    offsets.assign(1, 0);
  }
  /// Appends a row of prompt and answer.
  void push_back(std::span<const std::int32_t> tokens, std::size_t prompt_length) {
    const auto base = static_cast<std::int32_t>(inputs.values.size());
    inputs.push_back(tokens.first(tokens.size() - std::min<std::size_t>(tokens.size(), 1)));
    for (std::size_t t = answer_start(prompt_length); t < tokens.size(); ++t) {
      targets.row.push_back(base + static_cast<std::int32_t>(t) - 1);
      targets.token.push_back(tokens[t]);
    }
    offsets.push_back(static_cast<std::int32_t>(targets.row.size()));
  }
  std::size_t size() const noexcept { return offsets.size() - 1; }

  /// Sum of a row's values, in the order of its tokens.
  double sum(std::size_t row, std::span<const float> values) const {
    double total = 0;
    for (auto k = static_cast<std::size_t>(offsets[row]); k < static_cast<std::size_t>(offsets[row + 1]); ++k)
      total += static_cast<double>(values[k]);
    return total;
  }
};

}  // namespace train
RLCORE_END
