// Kahneman-Tversky optimization as a task of the supervised loop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/data/image_cache.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/algorithm/kto.hpp"
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

/// w_d (1 - sigmoid(beta (u - KL))) for desirable rows, w_u (1 - sigmoid(beta (KL - u))) for the others, u the sum of
/// log-ratios to the reference; the mean over the rows of the step. KL = max(0, mean u of mismatched rows): the prompt
/// of each row of the step with the answer of the next one. It is a constant of the step: no gradient flows through it.
template <class Device>
class kto_task {
 public:
  /// `rules` must be those the rows were read with: mismatched rows are made by them.
  kto_task(const kto_task_settings& settings, const row_rules& rules, preference_rows<unpaired_row> train,
           preference_rows<unpaired_row> held_out, nn::causal_lm<Device>* reference)
      : settings_(settings),
        rules_(rules),
        reference_(reference),
        train_(std::move(train)),
        eval_(std::move(held_out)) {}

  std::size_t train_size() const noexcept { return train_.rows.size(); }
  std::size_t eval_size() const noexcept { return eval_.rows.size(); }
  std::string data_text() const { return train::data_text(train_.rows); }

  /// Estimates the step's KL from mismatched rows, then adds the gradient; sets train/kto_loss, train/kl and the mean
  /// rewards.
  void update(trainable_model<Device>& model, std::span<const std::uint32_t> rows, metrics& m) {
    const kto_baseline kl = mismatch(train_, model, rows).baseline();
    const answer_loss loss = settings_.loss(kl);
    const global_counts step = count(train_, rows);
    answer_loss::report_type total = loss.report();
    std::int64_t tokens = 0;
    for (const std::uint32_t i : rows) tokens += std::ssize(train_[i].tokens);
    learn_answers(
        train_, rows, settings_.rows_per_pass, model, reference_,
        [&](std::span<const std::uint32_t> group, const answers_with_images& batch, std::span<const float> ref) {
          model.forward_backward(
              batch.input(), batch.targets, 1.0f,
              [&](std::span<const float> logp, std::span<const float>, std::span<float> dlogp, std::span<float>) {
                total += evaluate(loss, train_, group, batch, logp, ref, step, dlogp);
              });
        });
    sum_over_ranks(model, total);
    m.set("train/kto_loss", total.loss());
    set_rewards(m, "train/", total);
    m.set("train/kl", kl.value());
    m.set("train/loss_mean", total.loss());
    m.set("perf/total_num_tokens", tokens);
  }

  /// eval/pair_acc is the share of pairs, a desirable and an undesirable answer to one prompt, in which the desirable
  /// answer has the larger reward. It is absent without such pairs.
  void evaluate(trainable_model<Device>& model, metrics& m) {
    std::vector<std::uint32_t> rows(eval_size());
    for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
    const global_counts counts = count(eval_, rows);
    answer_loss::report_type total = settings_.loss(kto_baseline(0)).report();
    std::vector<float> logp;
    std::vector<double> reward;
    const auto step = static_cast<std::size_t>(std::max<std::int64_t>(2, settings_.rows_per_step));
    for (std::size_t first = 0; first < rows.size(); first += step) {
      // A last group of one row joins the group before: alone it would have no other row to mismatch with.
      const std::size_t left = rows.size() - first, n = left <= step + 1 ? left : step;
      const auto part = std::span<const std::uint32_t>(rows).subspan(first, n);
      const answer_loss loss =
          settings_.loss(part.size() < 2 ? kto_baseline(0) : mismatch(eval_, model, part).baseline());
      std::vector<double> of_part;
      judge_answers(
          eval_, part, settings_.rows_per_pass, model, reference_,
          [&](std::span<const std::uint32_t> group, const answers_with_images& batch, std::span<const float> ref) {
            score_answers(model.model, model.space, batch, logp);
            total += evaluate(loss, eval_, group, batch, logp, ref, counts, {});
            for (std::size_t i = 0; i < batch.size(); ++i)
              of_part.push_back(settings_.beta * (batch.sum(i, logp) - batch.sum(i, ref)));
          });
      gather_rows(model, of_part);
      reward.insert(reward.end(), of_part.begin(), of_part.end());
      if (n == left) break;
    }
    sum_over_ranks(model, total);
    m.set("eval/eval_loss", total.loss());
    set_rewards(m, "eval/", total);
    set_pair_accuracy(m, reward);
    score_file file(writes(model) ? settings_.scores : std::filesystem::path());
    for (std::size_t i = 0; file.wanted() && i < reward.size(); ++i)
      file.add({{"label", eval_[i].desirable ? 1 : 0}, {"reward", reward[i]}});
    file.close();
  }

 private:
  struct row_set : preference_rows<unpaired_row> {
    explicit row_set(preference_rows<unpaired_row> r)
        : preference_rows<unpaired_row>(std::move(r)), reference(lengths(this->rows)) {}
    static std::vector<std::size_t> lengths(const std::vector<unpaired_row>& rows) {
      std::vector<std::size_t> n;
      for (const unpaired_row& r : rows) n.push_back(answer_length(r.tokens, r.prompt_length));
      return n;
    }
    std::int64_t tokens_of(std::uint32_t i) const { return std::ssize((*this)[i].tokens); }
    std::vector<nn::image_patches> images_of(std::uint32_t i) const {
      return grids_of((*this)[i].text.images, this->cache.get());
    }
    void pack(std::span<const std::uint32_t> some, answers_with_images& to) const {
      to.clear();
      for (const std::uint32_t i : some)
        to.push_back((*this)[i].tokens, (*this)[i].prompt_length, (*this)[i].text.images, this->cache.get());
    }

    reference_log_probs reference;
  };

  static global_counts count(const row_set& set, std::span<const std::uint32_t> rows) {
    global_counts c;
    for (const std::uint32_t i : rows)
      c.add_row(static_cast<std::int64_t>(answer_length(set[i].tokens, set[i].prompt_length)));
    return c;
  }

  static void set_rewards(metrics& m, const std::string& prefix, const answer_loss::report_type& r) {
    const double desirable = r["desirable"], total = r.units > 0 ? 1 : 0;
    m.set(prefix + "chosen_reward", desirable > 0 ? r["reward_desirable"] / desirable : 0.0);
    m.set(prefix + "reject_reward", total > desirable ? r["reward_undesirable"] / (total - desirable) : 0.0);
  }

  void set_pair_accuracy(metrics& m, const std::vector<double>& reward) const {
    using prompt_of = std::pair<std::string_view, std::vector<data::content_hash>>;
    std::map<prompt_of, std::vector<std::size_t>> by_prompt;
    for (std::size_t i = 0; i < reward.size(); ++i) {
      prompt_of prompt{eval_[i].text.prompt, {}};
      for (const data::image_pointer& image : eval_[i].text.images) prompt.second.push_back(image->hash);
      by_prompt[std::move(prompt)].push_back(i);
    }
    std::int64_t pairs = 0, right = 0;
    for (const auto& [prompt, answers] : by_prompt)
      for (const std::size_t good : answers)
        for (const std::size_t bad : answers)
          if (eval_[good].desirable && !eval_[bad].desirable) ++pairs, right += reward[good] > reward[bad];
    if (pairs > 0) m.set("eval/pair_acc", static_cast<double>(right) / static_cast<double>(pairs));
  }

  /// Prompts with the answers of the next rows, under the policy and the reference. An answer without tokens within
  /// max_len counts with a ratio of 0.
  mismatched_kl mismatch(const row_set& set, trainable_model<Device>& model, std::span<const std::uint32_t> rows) {
    answers_with_images batch;
    std::vector<float> logp, ref;
    std::vector<double> sums;  // of each row under the policy and the reference
    const row_range shard = own_rows(model, rows.size(), [&](std::size_t i) { return set[rows[i]].tokens.size(); });
    for_each_scored_group(
        {model.model.units(), reference_.units(model)}, shard.size(), settings_.rows_per_pass, 0,
        [](std::size_t) { return 0; },
        [&](std::size_t first, std::size_t last) {
          batch.clear();
          for (std::size_t i = shard.first + first; i < shard.first + last; ++i) {
            const unpaired_row &mine = set[rows[i]], &next = set[rows[(i + 1) % rows.size()]];
            bool cut = false;
            batch.push_back(rules_.ended(mine.text.prompt + next.text.answer, cut, mine.text.images),
                            mine.prompt_length, mine.text.images, set.cache.get());
          }
          score_answers(model.model, model.space, batch, logp);
          reference_(model, batch, ref);
          for (std::size_t i = 0; i < batch.size(); ++i)
            sums.insert(sums.end(), {batch.sum(i, logp), batch.sum(i, ref)});
        });
    gather_rows(model, sums);
    mismatched_kl kl;
    for (std::size_t i = 0; i < sums.size(); i += 2) kl.add(sums[i], sums[i + 1]);
    return kl;
  }

  static answer_loss::report_type evaluate(const answer_loss& loss, const row_set& set,
                                           std::span<const std::uint32_t> group, const answers_with_images& rows,
                                           std::span<const float> logp, std::span<const float> ref,
                                           const global_counts& step, std::span<float> dlogp) {
    std::vector<float> label;
    for (const std::uint32_t i : group) label.push_back(set[i].desirable ? 1.0f : 0.0f);
    token_batch<float> batch{.logp = logp, .ref_logp = ref};
    batch.target = per_row(label);
    batch.offsets = rows.offsets;
    token_gradients<float> gradients;
    if (!dlogp.empty()) gradients.logp = dlogp;
    return loss(batch, step, gradients);
  }

  kto_task_settings settings_;
  row_rules rules_;
  reference_model<Device> reference_;
  row_set train_, eval_;
};

template <class Device>
std::shared_ptr<kto_task<Device>> make_task(Device&, const kto_task_settings& settings, const row_rules& rules,
                                            preference_rows<unpaired_row> train, preference_rows<unpaired_row> held_out,
                                            loaded_reference<Device>* reference) {
  return std::make_shared<kto_task<Device>>(settings, rules, std::move(train), std::move(held_out),
                                            reference != nullptr ? &reference->model : nullptr);
}

}  // namespace train
RLCORE_END
