// A reward model from pairs, as a task of the supervised loop.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/objective/algorithm/reward_model.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/preference/answer_loss.hpp"
#include "rlcore/train/preference/open.hpp"
#include "rlcore/train/preference/read_rows.hpp"
#include "rlcore/train/preference/run.hpp"
#include "rlcore/train/supervised/task.hpp"

RLCORE_BEGIN
namespace train {

/// The mean and standard deviation of the evaluation rows' rewards. config.json holds them for normalize_reward.
struct reward_moments {
  double mean = 0, std = 1;
};

/// Writes them, and the name of the score head, into a model folder's config.json.
inline void write_reward_moments(const std::filesystem::path& folder, const std::optional<reward_moments>& moments) {
  const std::filesystem::path path = folder / "config.json";
  auto config = text::parse_json<format_error, nlohmann::ordered_json>(data::read_file(path), path.string());
  config["value_head_prefix"] = "score";
  config["normalize_reward"] = false;
  if (moments) config["mean"] = moments->mean, config["std"] = moments->std;
  checkpoint::write_file_atomically(path, text::json_text(config, 2) + "\n");
}

/// A loss of pairs of rewards, the mean over the pairs of the step. A row's reward is the score at its last token.
template <class Device>
class rm_task {
 public:
  /// Pairs for training, and for the evaluation that gives the moments of the rewards.
  rm_task(const rm_task_settings& settings, preference_rows<preference_pair> train,
          preference_rows<preference_pair> held_out)
      : settings_(settings), train_(std::move(train)), eval_(std::move(held_out)) {}

  std::size_t train_size() const noexcept { return train_.rows.size(); }
  std::size_t eval_size() const noexcept { return eval_.rows.size(); }
  std::string data_text() const { return train::data_text(train_.rows); }

  /// Sets train/loss, train/acc, the share of pairs whose chosen answer has the higher reward, and the mean rewards.
  void update(trainable_model<Device>& model, std::span<const std::uint32_t> rows, metrics& m) {
    const global_counts step = count(rows.size());
    answer_loss::report_type total = settings_.loss.report();
    std::int64_t tokens = 0;
    for (const std::uint32_t i : rows) tokens += tokens_of(train_[i]);
    std::vector<std::uint32_t> group;
    model.for_micro_batches(
        {.rows = rows.size(), .max_rows = settings_.pairs_per_pass},
        [&](std::size_t i) { return tokens_of(train_[rows[i]]); },
        [&](std::size_t i) { return images_of(train_, rows[i]); },
        [&](std::span<const std::uint32_t> micro_batch) {
          group.clear();
          for (const std::uint32_t i : micro_batch) group.push_back(rows[i]);
          pack(train_, group);
          model.value_forward_backward(images_.with(batch_), last_,
                                       [&](std::span<const float> reward, std::span<float> slope) {
                                         total += loss(train_, group, reward, step, slope);
                                       });
        });
    sum_over_ranks(model, total);
    m.set("train/loss", total.loss());
    m.set("train/acc", total["accuracy"]);
    m.set("train/chosen_reward", total["reward_chosen"]);
    m.set("train/reject_reward", total["reward_rejected"]);
    m.set("train/loss_mean", total.loss());
    m.set("train/acc_mean", total["accuracy"]);
    m.set("perf/total_num_tokens", tokens);
  }

  /// Sets eval/eval_loss, eval/acc_mean and the moments eval/reward_mean and eval/reward_std; the first rank writes
  /// `scores`.
  void evaluate(trainable_model<Device>& model, metrics& m) {
    std::vector<std::uint32_t> rows(eval_size());
    for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
    const global_counts step = count(rows.size());
    answer_loss::report_type total = settings_.loss.report();
    std::vector<float> reward;
    std::vector<double> rewards;
    const row_range shard = own_rows(model, rows.size(), [&](std::size_t i) { return tokens_of(eval_[i]); });
    for_each_scored_group(
        {model.model.units()}, shard.size(), settings_.pairs_per_pass, 0, [](std::size_t) { return 0; },
        [&](std::size_t first, std::size_t last) {
          const auto group = std::span<const std::uint32_t>(rows).subspan(shard.first + first, last - first);
          pack(eval_, group);
          reward.resize(last_.size());
          nn::values(model.model, model.space, images_.with(batch_), last_, reward);
          total += loss(eval_, group, reward, step, {});
          rewards.insert(rewards.end(), reward.begin(), reward.end());
        });
    sum_over_ranks(model, total);
    gather_rows(model, rewards);
    score_file file(writes(model) ? settings_.scores : std::filesystem::path());
    for (std::size_t i = 0; file.wanted() && i < rewards.size(); i += 2)
      file.add(
          {{"chosen_reward", static_cast<float>(rewards[i])}, {"reject_reward", static_cast<float>(rewards[i + 1])}});
    file.close();
    moments_ = moments_of(rewards);
    m.set("eval/eval_loss", total.loss());
    m.set("eval/acc_mean", total["accuracy"]);
    m.set("eval/reward_mean", moments_->mean);
    m.set("eval/reward_std", moments_->std);
  }

  const std::optional<reward_moments>& moments() const noexcept { return moments_; }

  /// Writes the moments of the last evaluation into a checkpoint, which is then complete for use.
  void save(const std::filesystem::path& folder) const { write_reward_moments(folder / "huggingface", moments_); }
  /// Reads the moments back that save() wrote, if there are any.
  void restore(const std::filesystem::path& folder) {
    const checkpoint::json_file config(folder / "huggingface" / "config.json");
    if (config.has("mean") && config.has("std"))
      moments_ = reward_moments{config.root()["mean"].get<double>(), config.root()["std"].get<double>()};
  }

 private:
  static global_counts count(std::size_t pairs) {
    global_counts c;
    for (std::size_t i = 0; i < 2 * pairs; ++i) c.add_row(1);
    return c;
  }

  /// Mean, and the deviation with n - 1 below, at least 1e-8.
  static reward_moments moments_of(const std::vector<double>& rewards) {
    exact_sum sum, squares;
    for (const double r : rewards) sum.add(r);
    const auto n = static_cast<double>(rewards.size());
    const double mean = sum.value() / n;
    for (const double r : rewards) squares.add((r - mean) * (r - mean));
    return {mean, std::max(1e-8, std::sqrt(squares.value() / (n - 1)))};
  }

  static std::int64_t tokens_of(const preference_pair& p) noexcept {
    return std::ssize(p.chosen) + std::ssize(p.rejected);
  }

  /// Both answers show them.
  static std::vector<nn::image_patches> images_of(const preference_rows<preference_pair>& set, std::uint32_t i) {
    return grids_of(set[i].images, set.cache.get(), 2);
  }

  /// Packs the answers into batch_, and the position of each answer's last token into last_.
  void pack(const preference_rows<preference_pair>& set, std::span<const std::uint32_t> rows) {
    batch_.clear(), images_.clear();
    last_.clear();
    for (const std::uint32_t i : rows)
      for (const std::vector<std::int32_t>* tokens : {&set[i].chosen, &set[i].rejected}) {
        batch_.push_back(*tokens);
        images_.push_back(set[i].images, set.cache.get());
        last_.push_back(static_cast<std::int32_t>(batch_.values.size()) - 1);
      }
  }

  answer_loss::report_type loss(const preference_rows<preference_pair>& set, std::span<const std::uint32_t> group,
                                std::span<const float> reward, const global_counts& step,
                                std::span<float> slope) const {
    std::vector<std::int32_t> offsets(reward.size() + 1);
    for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<std::int32_t>(i);
    token_batch<float> batch{.value = reward};
    batch.offsets = offsets;
    token_gradients<float> gradients;
    if (!slope.empty()) gradients.value = slope;
    std::vector<float> margin;
    if (settings_.margins) {
      for (const std::uint32_t i : group) margin.insert(margin.end(), 2, static_cast<float>(set[i].margin));
      batch.target = per_row(margin);
    }
    return settings_.loss(batch, step, gradients);
  }

  rm_task_settings settings_;
  preference_rows<preference_pair> train_, eval_;
  std::optional<reward_moments> moments_;
  ragged<std::int32_t> batch_;
  shown_images images_;
  std::vector<std::int32_t> last_;
};

template <class Device>
std::shared_ptr<rm_task<Device>> make_task(Device&, const rm_task_settings& settings,
                                           preference_rows<preference_pair> train,
                                           preference_rows<preference_pair> held_out) {
  return std::make_shared<rm_task<Device>>(settings, std::move(train), std::move(held_out));
}

}  // namespace train
RLCORE_END
