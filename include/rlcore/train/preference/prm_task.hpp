// A process reward model from judged steps, as a task of the supervised loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/elementary.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/simd/exact_sum.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/preference/answer_loss.hpp"
#include "rlcore/train/preference/open.hpp"
#include "rlcore/train/preference/read_rows.hpp"
#include "rlcore/train/preference/run.hpp"
#include "rlcore/train/supervised/task.hpp"

RLCORE_BEGIN
namespace train {

/// Cross-entropy at each placeholder, about the placeholder's own logits (nothing is shifted): over the reward tokens
/// alone, or over the vocabulary; the mean over all steps of all rows of the optimizer step.
///
/// Log-probs of the reward tokens are logits less one number that they share, so their softmax is that of the logits,
/// and its slopes, which sum to 0, leave every other logit alone: no head of its own is needed.
template <class Device>
class prm_task {
 public:
  /// Both sets were read with the reward tokens of `settings`.
  prm_task(prm_task_settings settings, preference_rows<judged_row> train, preference_rows<judged_row> held_out)
      : settings_(std::move(settings)), train_(std::move(train)), eval_(std::move(held_out)) {}

  std::size_t train_size() const noexcept { return train_.rows.size(); }
  std::size_t eval_size() const noexcept { return eval_.rows.size(); }
  std::string data_text() const { return train::data_text(train_.rows); }

  /// Sets train/prm_loss and train/acc, the share of steps whose label is the most likely token.
  void update(trainable_model<Device>& model, std::span<const std::uint32_t> rows, metrics& m) {
    judgement total;
    const double steps = count(train_, rows);
    std::int64_t tokens = 0;
    for (const std::uint32_t i : rows) tokens += tokens_of(train_[i]);
    if (!restricted())
      for_own_rows(model, train_, rows,
                   [&](std::span<const std::uint32_t> group) { count_most_likely(model, train_, group, total); });
    std::vector<std::uint32_t> group;
    model.for_micro_batches(
        {.rows = rows.size(), .max_rows = settings_.rows_per_pass},
        [&](std::size_t i) { return tokens_of(train_[rows[i]]); },
        [&](std::size_t i) { return grids_of(train_[rows[i]].images, train_.cache.get()); },
        [&](std::span<const std::uint32_t> micro_batch) {
          group.clear();
          for (const std::uint32_t i : micro_batch) group.push_back(rows[i]);
          pack(train_, group);
          model.forward_backward(images_.with(batch_), targets_, 1.0f,
                                 [&](std::span<const float> logp, std::span<const float>, std::span<float> dlogp,
                                     std::span<float>) { judge(train_, group, logp, dlogp, steps, total); });
        });
    sum_over_ranks(model, total.sums);
    m.set("train/prm_loss", total.sums.loss.value() / steps);
    m.set("train/acc", static_cast<double>(total.sums.right) / steps);
    m.set("train/loss_mean", total.sums.loss.value() / steps);
    m.set("train/acc_mean", static_cast<double>(total.sums.right) / steps);
    m.set("perf/total_num_tokens", tokens);
  }

  /// Sets eval/eval_loss and eval/acc_mean; the first rank writes a list of judgements per row to `scores`.
  void evaluate(trainable_model<Device>& model, metrics& m) {
    std::vector<std::uint32_t> rows(eval_size());
    for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
    judgement total;
    const double steps = count(eval_, rows);
    std::vector<float> logp;
    for_own_rows(model, eval_, rows, [&](std::span<const std::uint32_t> group) {
      if (!restricted()) count_most_likely(model, eval_, group, total);
      logp.resize(targets_.row.size());
      nn::log_probs(model.model, model.space, images_.with(batch_), targets_, 1.0f, logp, {});
      judge(eval_, group, logp, {}, steps, total);
    });
    sum_over_ranks(model, total.sums);
    gather_rows(model, total.first_token);
    score_file file(writes(model) ? settings_.scores : std::filesystem::path());
    auto score = total.first_token.begin();
    for (std::size_t i = 0; file.wanted() && i < rows.size(); ++i) {
      nlohmann::ordered_json scores = nlohmann::ordered_json::array();
      for (std::size_t s = 0; s < eval_[i].steps.size(); ++s) scores.push_back(*score++);
      file.add({{"scores", scores}});
    }
    file.close();
    m.set("eval/eval_loss", total.sums.loss.value() / steps);
    m.set("eval/acc_mean", static_cast<double>(total.sums.right) / steps);
  }

 private:
  struct judgement_sums {
    exact_sum loss;
    std::int64_t right = 0;

    judgement_sums& operator+=(const judgement_sums& o) noexcept {
      loss += o.loss, right += o.right;
      return *this;
    }
  };
  struct judgement {
    judgement_sums sums;
    std::vector<double> first_token;  ///< per step: probability of the first reward token, or of the label
  };

  bool restricted() const noexcept { return !settings_.reward_tokens.empty(); }

  static double count(const preference_rows<judged_row>& set, std::span<const std::uint32_t> rows) {
    std::size_t steps = 0;
    for (const std::uint32_t i : rows) steps += set[i].steps.size();
    return static_cast<double>(steps);
  }

  /// Tokens behind the last step are not fed, unless the row has images.
  static std::int64_t tokens_of(const judged_row& row) {
    return row.images.empty() ? row.steps.back() + 1 : std::ssize(row.tokens);
  }

  /// Side by side in batch_. Targets: at each step one per reward token, or the label alone.
  void pack(const preference_rows<judged_row>& set, std::span<const std::uint32_t> rows) {
    batch_.clear(), images_.clear();
    targets_.row.clear(), targets_.token.clear();
    for (const std::uint32_t i : rows) {
      const judged_row& row = set[i];
      const auto base = static_cast<std::int32_t>(batch_.values.size());
      batch_.push_back(std::span(row.tokens).first(static_cast<std::size_t>(tokens_of(row))));
      images_.push_back(row.images, set.cache.get());
      for (std::size_t s = 0; s < row.steps.size(); ++s) {
        const std::size_t n = restricted() ? settings_.reward_tokens.size() : 1;
        targets_.row.insert(targets_.row.end(), n, base + row.steps[s]);
        if (restricted())
          targets_.token.insert(targets_.token.end(), settings_.reward_tokens.begin(), settings_.reward_tokens.end());
        else
          targets_.token.push_back(row.labels[s]);
      }
    }
  }

  /// f(rows) for the packed groups of this rank's part of `rows`, which it scores with the model.
  template <class F>
  void for_own_rows(const trainable_model<Device>& model, const preference_rows<judged_row>& set,
                    std::span<const std::uint32_t> rows, F&& f) {
    const row_range shard = own_rows(model, rows.size(), [&](std::size_t i) { return tokens_of(set[rows[i]]); });
    for_each_scored_group(
        {model.model.units()}, shard.size(), settings_.rows_per_pass, 0, [](std::size_t) { return 0; },
        [&](std::size_t first, std::size_t last) {
          const auto group = rows.subspan(shard.first + first, last - first);
          pack(set, group);
          f(group);
        });
  }

  /// Without reward tokens a step is judged right if its label is the most likely token of all.
  void count_most_likely(trainable_model<Device>& model, const preference_rows<judged_row>& set,
                         std::span<const std::uint32_t> group, judgement& total) {
    std::vector<std::int32_t> token(targets_.row.size());
    nn::most_likely(model.model, model.space, images_.with(batch_), targets_.row, token);
    std::size_t k = 0;
    for (const std::uint32_t i : group)
      for (const std::int32_t label : set[i].labels) total.sums.right += token[k++] == label;
  }

  void judge(const preference_rows<judged_row>& set, std::span<const std::uint32_t> group, std::span<const float> logp,
             std::span<float> dlogp, double steps, judgement& total) const {
    std::size_t k = 0;
    std::vector<double> p(settings_.reward_tokens.size());
    for (const std::uint32_t i : group)
      for (std::size_t s = 0; s < set[i].steps.size(); ++s) {
        if (!restricted()) {
          total.sums.loss.add(-static_cast<double>(logp[k]));
          total.first_token.push_back(elementary::exp(static_cast<double>(logp[k])));
          if (!dlogp.empty()) dlogp[k] = static_cast<float>(-1 / steps);
          ++k;
          continue;
        }
        const std::span<const float> z = logp.subspan(k, p.size());
        const double top = static_cast<double>(*std::max_element(z.begin(), z.end()));
        double sum = 0;
        for (std::size_t r = 0; r < p.size(); ++r) sum += p[r] = elementary::exp(static_cast<double>(z[r]) - top);
        const double lse = top + elementary::log(sum);
        double best_label = -1;
        std::size_t label = 0;
        for (std::size_t r = 0; r < p.size(); ++r) {
          const double wanted = target(set[i], s, r);
          if (wanted > best_label) best_label = wanted, label = r;
          if (wanted > 0) total.sums.loss.add(wanted * (lse - static_cast<double>(z[r])));
          p[r] /= sum;
          if (!dlogp.empty()) dlogp[k + r] = static_cast<float>((p[r] - wanted) / steps);
        }
        total.sums.right += std::max_element(z.begin(), z.end()) - z.begin() == static_cast<std::ptrdiff_t>(label);
        total.first_token.push_back(p[0]);
        k += p.size();
      }
  }

  /// The probability that reward token r should have.
  static double target(const judged_row& row, std::size_t step, std::size_t r) {
    if (row.probabilities.empty()) return row.labels[step] == static_cast<std::int32_t>(r) ? 1 : 0;
    const auto first = static_cast<double>(row.probabilities[step]);
    return r == 0 ? first : 1 - first;
  }

  prm_task_settings settings_;
  preference_rows<judged_row> train_, eval_;
  ragged<std::int32_t> batch_;
  shown_images images_;
  nn::targets targets_;
};

template <class Device>
std::shared_ptr<prm_task<Device>> make_task(Device&, const prm_task_settings& settings,
                                            preference_rows<judged_row> train, preference_rows<judged_row> held_out) {
  return std::make_shared<prm_task<Device>>(settings, std::move(train), std::move(held_out));
}

}  // namespace train
RLCORE_END
