// Direct preference optimization as a task of the supervised loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/algorithm/openrlhf.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/train/preference/answer_loss.hpp"
#include "rlcore/train/preference/open.hpp"
#include "rlcore/train/preference/read_rows.hpp"
#include "rlcore/train/preference/reference.hpp"
#include "rlcore/train/preference/run.hpp"
#include "rlcore/train/supervised/task.hpp"

RLCORE_BEGIN
namespace train {

/// Loss and rewards of some pairs; joined with +=.
struct pair_report {
  answer_loss::report_type pair;
  exact_sum likelihood;  ///< this part's share of the mean NLL of the chosen answers
  /// Adds the sums of other pairs.
  pair_report& operator+=(const pair_report& o) noexcept {
    pair += o.pair, likelihood += o.likelihood;
    return *this;
  }
  /// As report::keep_names().
  void keep_names(const pair_report& local) noexcept { pair.keep_names(local.pair); }
  double loss() const noexcept { return pair.loss(); }
  double accuracy() const { return pair["accuracy"]; }
  double chosen_reward() const { return pair["reward_chosen"]; }
  double rejected_reward() const { return pair["reward_rejected"]; }
};

/// A loss of pairs on log-probs and those of a reference, plus nll_loss_coef times the mean over chosen answers of
/// their mean NLL per token.
template <class Device>
class dpo_task {
 public:
  /// `reference` is the frozen model; nullptr: the trained model without its adapter.
  dpo_task(const dpo_task_settings& settings, preference_rows<preference_pair> train,
           preference_rows<preference_pair> held_out, nn::causal_lm<Device>* reference)
      : settings_(settings), reference_(reference), train_(std::move(train)), eval_(std::move(held_out)) {}

  std::size_t train_size() const noexcept { return train_.rows.size(); }
  std::size_t eval_size() const noexcept { return eval_.rows.size(); }
  std::string data_text() const { return train::data_text(train_.rows); }

  /// Sets train/loss, train/acc and the rewards of chosen and rejected answers; with nll_loss_coef also train/nll_loss.
  void update(trainable_model<Device>& model, std::span<const std::uint32_t> rows, metrics& m) {
    const counts step = count(train_, rows);
    pair_report total{settings_.loss.report(), {}};
    std::int64_t tokens = 0;
    for (const std::uint32_t i : rows) tokens += train_.tokens_of(i);
    learn_answers(train_, rows, settings_.pairs_per_pass, model, reference_,
                  [&](std::span<const std::uint32_t>, const answers_with_images& batch, std::span<const float> ref) {
                    model.forward_backward(
                        batch.input(), batch.targets, 1.0f,
                        [&](std::span<const float> logp, std::span<const float>, std::span<float> dlogp,
                            std::span<float>) { total += loss(batch, logp, ref, step, dlogp); });
                  });
    sum_over_ranks(model, total);
    m.set("train/loss", total.loss());
    m.set("train/acc", total.accuracy());
    m.set("train/chosen_reward", total.chosen_reward());
    m.set("train/reject_reward", total.rejected_reward());
    if (settings_.nll_loss_coef != 0) m.set("train/nll_loss", total.likelihood.value());
    m.set("train/loss_mean", total.loss());
    m.set("train/acc_mean", total.accuracy());
    m.set("perf/total_num_tokens", tokens);
  }

  /// Sets eval/eval_loss, eval/acc_mean and the rewards of chosen and rejected answers; the first rank writes `scores`.
  void evaluate(trainable_model<Device>& model, metrics& m) {
    std::vector<std::uint32_t> rows(eval_size());
    for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
    const counts step = count(eval_, rows);
    pair_report total{settings_.loss.report(), {}};
    std::vector<float> logp;
    std::vector<double> rewards;
    judge_answers(eval_, std::span<const std::uint32_t>(rows), settings_.pairs_per_pass, model, reference_,
                  [&](std::span<const std::uint32_t>, const answers_with_images& batch, std::span<const float> ref) {
                    score_answers(model.model, model.space, batch, logp);
                    total += loss(batch, logp, ref, step, {});
                    for (std::size_t i = 0; i < batch.size(); ++i)
                      rewards.push_back(settings_.beta * (batch.sum(i, logp) - batch.sum(i, ref)));
                  });
    sum_over_ranks(model, total);
    gather_rows(model, rewards);
    score_file file(writes(model) ? settings_.scores : std::filesystem::path());
    for (std::size_t i = 0; file.wanted() && i < rewards.size(); i += 2)
      file.add({{"chosen_reward", rewards[i]}, {"reject_reward", rewards[i + 1]}});
    file.close();
    m.set("eval/eval_loss", total.loss());
    m.set("eval/acc_mean", total.accuracy());
    m.set("eval/chosen_reward", total.chosen_reward());
    m.set("eval/reject_reward", total.rejected_reward());
  }

 private:
  struct counts {
    global_counts answers, chosen;
  };
  struct pair_set : preference_rows<preference_pair> {
    explicit pair_set(preference_rows<preference_pair> r)
        : preference_rows<preference_pair>(std::move(r)), reference(lengths(this->rows)) {}
    static std::vector<std::size_t> lengths(const std::vector<preference_pair>& rows) {
      std::vector<std::size_t> n;
      for (const preference_pair& p : rows)
        n.push_back(answer_length(p.chosen, p.prompt_length) + answer_length(p.rejected, p.prompt_length));
      return n;
    }
    std::int64_t tokens_of(std::uint32_t i) const {
      return std::ssize((*this)[i].chosen) + std::ssize((*this)[i].rejected);
    }
    /// Both answers show them.
    std::vector<nn::image_patches> images_of(std::uint32_t i) const {
      return grids_of((*this)[i].images, this->cache.get(), 2);
    }
    void pack(std::span<const std::uint32_t> some, answers_with_images& to) const {
      to.clear();
      for (const std::uint32_t i : some)
        for (const std::vector<std::int32_t>* answer : {&(*this)[i].chosen, &(*this)[i].rejected})
          to.push_back(*answer, (*this)[i].prompt_length, (*this)[i].images, this->cache.get());
    }

    reference_log_probs reference;
  };

  static counts count(const pair_set& set, std::span<const std::uint32_t> rows) {
    counts c;
    for (const std::uint32_t i : rows) {
      const preference_pair& p = set[i];
      const auto chosen = static_cast<std::int64_t>(answer_length(p.chosen, p.prompt_length));
      c.answers.add_row(chosen), c.chosen.add_row(chosen);
      c.answers.add_row(static_cast<std::int64_t>(answer_length(p.rejected, p.prompt_length)));
    }
    return c;
  }

  pair_report loss(const answers_with_images& rows, std::span<const float> logp, std::span<const float> ref,
                   const counts& step, std::span<float> dlogp) const {
    token_batch<float> batch{.logp = logp, .ref_logp = ref};
    batch.offsets = rows.offsets;
    token_gradients<float> gradients;
    if (!dlogp.empty()) gradients.logp = dlogp;
    pair_report out{settings_.loss(batch, step.answers, gradients), {}};
    if (settings_.nll_loss_coef != 0) {
      gradients.add = true;
      out.likelihood = rlcore::evaluate(serial{}, scaled{settings_.nll_loss_coef, negative_log_likelihood{}},
                                        chosen_sequence_mean{step.chosen}, batch, step.answers, gradients)
                           .piece[0]
                           .aggregated;
    }
    return out;
  }

  dpo_task_settings settings_;
  reference_model<Device> reference_;
  pair_set train_, eval_;
};

template <class Device>
std::shared_ptr<dpo_task<Device>> make_task(Device&, const dpo_task_settings& settings,
                                            preference_rows<preference_pair> train,
                                            preference_rows<preference_pair> held_out,
                                            loaded_reference<Device>* reference) {
  return std::make_shared<dpo_task<Device>>(settings, std::move(train), std::move(held_out),
                                            reference != nullptr ? &reference->model : nullptr);
}

}  // namespace train
RLCORE_END
