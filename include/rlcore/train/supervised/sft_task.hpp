// Supervised fine-tuning (SFT) task: likelihood of the assistant's tokens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/data/sft_dataset.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/objective/algorithm/sft.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/view.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/supervised/task.hpp"

RLCORE_BEGIN
namespace train {

/// Examples as the model reads them: rows one after the other without padding, and one target for each prediction that
/// counts. Tokens after a row's last target are not fed, unless the row has images. A row is thus the same whatever
/// it is packed with.
struct packed_examples {
  ragged<std::int32_t> tokens;
  shown_images images;
  nn::targets targets;
  std::vector<std::int32_t> offsets{0};  ///< of each example in `targets`

  /// The input of a pass.
  nn::input input() const noexcept { return images.with(tokens); }

  void clear() {
    tokens.clear(), images.clear();
    targets.row.clear(), targets.token.clear();
    offsets.assign(1, 0);
  }
  /// Appends an example; `cache` makes the patches of its images.
  void push_back(const data::sft_example& e, data::image_cache* cache = nullptr) {
    const auto start = static_cast<std::int32_t>(tokens.size());
    std::size_t fed = 0;
    for (std::size_t t = 0; t + 1 < e.tokens.size(); ++t) {
      if (!e.counts(t)) continue;
      targets.row.push_back(start + static_cast<std::int32_t>(t));
      targets.token.push_back(e.tokens[t + 1]);
      fed = t + 1;
    }
    tokens.push_back(std::span(e.tokens).first(e.images.empty() ? fed : e.tokens.size()));
    images.push_back(e.images, cache);
    offsets.push_back(static_cast<std::int32_t>(targets.row.size()));
  }
};

/// The loss is the mean over all trained tokens of the optimizer step or of the evaluation set, not a mean of
/// micro-batch means. `Objective` is a piece of the token loop that reads logp alone: negative_log_likelihood, dft.
template <class Device, class Objective = negative_log_likelihood>
class sft_task {
 public:
  /// At most `rows_per_pass` rows (0: no limit) and `tokens_per_pass` tokens (0: no limit) go through the model
  /// together; a single longer row goes alone. No result depends on either. `eval_name` names the evaluation's metric,
  /// `cache` makes the patches of images.
  sft_task(std::vector<data::sft_example> train, std::vector<data::sft_example> eval, std::int64_t rows_per_pass,
           std::string eval_name = "val/loss", std::int64_t tokens_per_pass = 0, Objective objective = {},
           std::shared_ptr<data::image_cache> cache = {})
      : train_(std::move(train)),
        eval_(std::move(eval)),
        rows_per_pass_(rows_per_pass),
        eval_name_(std::move(eval_name)),
        tokens_per_pass_(tokens_per_pass),
        objective_(objective),
        cache_(std::move(cache)) {}

  std::size_t train_size() const noexcept { return train_.size(); }
  std::size_t eval_size() const noexcept { return eval_.size(); }
  std::string data_text() const { return train::data_text(train_); }
  const std::vector<data::sft_example>& train() const noexcept { return train_; }

  /// The special token that most rows teach as the end of an answer, such as <|im_end|>; none without such a token.
  std::optional<std::int32_t> turn_end(const text::tokenizer& tokenizer) const {
    std::map<std::int32_t, std::size_t> rows_of;
    for (const data::sft_example& e : train_)
      for (std::size_t t = e.written.size(); t-- > 0;)
        if (e.written[t] != 0) {
          ++rows_of[e.tokens[t]];
          break;
        }
    const auto by_rows = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto most = std::max_element(rows_of.begin(), rows_of.end(), by_rows);
    if (most == rows_of.end() || 2 * most->second <= train_.size() || !tokenizer.is_special(most->first)) return {};
    return most->first;
  }

  /// Shows update() and evaluate() on this line as they go on.
  void watch(progress& bar) noexcept { bar_ = &bar; }

  /// Sets train/loss, train/tokens (those that are learnt) and perf/total_num_tokens.
  void update(trainable_model<Device>& model, std::span<const std::uint32_t> rows, metrics& m) {
    global_counts counts;
    std::int64_t tokens = 0;
    for (const std::uint32_t i : rows) {
      counts.add_row(static_cast<std::int64_t>(train_[i].trained()));
      tokens += std::ssize(train_[i].tokens);
    }
    report_of<Objective> report;
    packed_examples packed;
    const auto length = [&](std::size_t i) { return train_[rows[i]].tokens.size(); };
    const auto images_of = [&](std::uint32_t i) { return grids_of(train_[rows[i]].images, cache_.get()); };
    std::size_t done = 0;
    model.for_micro_batches({.rows = rows.size(), .max_rows = rows_per_pass_, .max_tokens = tokens_per_pass_}, length,
                            images_of, [&](std::span<const std::uint32_t> micro_batch) {
                              packed.clear();
                              for (const std::uint32_t i : micro_batch) packed.push_back(train_[rows[i]], cache_.get());
                              model.forward_backward(
                                  packed.input(), packed.targets, 1.0f,
                                  [&](std::span<const float> logp, std::span<const float>, std::span<float> dlogp,
                                      std::span<float>) { report += loss(packed, logp, counts, {.logp = dlogp}); });
                              tell("update", done += micro_batch.size(), rows.size());
                            });
    sum_over_ranks(model, report);
    m.set("train/loss", report.loss());
    m.set("train/tokens", counts.tokens());
    m.set("perf/total_num_tokens", tokens);
  }

  /// Sets the metric `eval_name`: the negative log-likelihood, whatever the objective.
  void evaluate(trainable_model<Device>& model, metrics& m) {
    global_counts counts;
    for (const data::sft_example& e : eval_) counts.add_row(static_cast<std::int64_t>(e.trained()));
    report_of<negative_log_likelihood> report;
    packed_examples packed;
    std::vector<float> logp;
    const auto length = [&](std::size_t i) { return eval_[i].tokens.size(); };
    const row_range shard = own_rows(model, eval_.size(), length);
    const auto shard_length = [&](std::size_t i) { return length(shard.first + i); };
    for_each_scored_group({model.model.units()}, shard.size(), rows_per_pass_, tokens_per_pass_, shard_length,
                          [&](std::size_t first, std::size_t last) {
                            packed.clear();
                            for (std::size_t i = first; i < last; ++i)
                              packed.push_back(eval_[shard.first + i], cache_.get());
                            logp.resize(packed.targets.row.size());
                            nn::log_probs(model.model, model.space, packed.input(), packed.targets, 1.0f, logp, {});
                            report += rlcore::evaluate(
                                serial{}, negative_log_likelihood{}, token_mean{},
                                token_batch<float>{.logp = std::span<const float>(logp), .offsets = packed.offsets},
                                counts, token_gradients<float>{});
                            tell("evaluation", last, shard.size());
                          });
    sum_over_ranks(model, report);
    m.set(eval_name_, report.loss());
  }

 private:
  report_of<Objective> loss(const packed_examples& packed, std::span<const float> logp, const global_counts& counts,
                            const token_gradients<float>& gradients) const {
    return rlcore::evaluate(serial{}, objective_, token_mean{},
                            token_batch<float>{.logp = logp, .offsets = packed.offsets}, counts, gradients);
  }
  void tell(const char* phase, std::size_t done, std::size_t of) {
    if (bar_ != nullptr) bar_->phase(phase, done, of);
  }

  std::vector<data::sft_example> train_, eval_;
  std::int64_t rows_per_pass_;
  std::string eval_name_;
  std::int64_t tokens_per_pass_;
  Objective objective_;
  std::shared_ptr<data::image_cache> cache_;
  progress* bar_ = nullptr;
};

}  // namespace train
RLCORE_END
