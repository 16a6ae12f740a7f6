// Scores from a reward model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/tensor/view.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/policy/reward/reward_settings.hpp"
#include "rlcore/train/policy/reward/reward_source.hpp"

RLCORE_BEGIN
namespace train {

/// The score is the score head's number at the last token of prompt and response. The reward model reads the policy's
/// tokens if both have the same tokenizer and chat template, or with input_tokenizer=null. Otherwise its own template
/// renders the conversation again, without line ends after the last turn (verl leaves them). Sequences longer than
/// max_length or than the model's positions lose their ends; reward/truncated counts them.
///
/// Ranks whose policy is divided have the reward model in shards (ZeRO-3 over all ranks, or over those of a shard
/// group) and gather it layer by layer; score() then is collective. Otherwise each has all of it, packed alone.
template <class Device>
class model_rewards final : public reward_source {
 public:
  /// `policy_folder` holds the tokenizer and the chat template of the trajectories; `ranks` are those that score, and
  /// must outlive this object. Throws rlcore::error.
  model_rewards(Device& device, const model_reward& settings, const std::filesystem::path& policy_folder,
                std::size_t logits_bytes, parallel::world& ranks)
      : settings_(settings),
        folder_(checkpoint::resolve_model(settings.path)),
        world_(ranks.all(), shards_of(ranks.settings())),
        frozen_(device, score_config(folder_), &world_, true),
        space_(device, logits_bytes) {
    load_weights(frozen_, folder_);
    const std::int64_t positions = model().settings().max_position_embeddings;
    if (settings.normalize) read_moments();
    longest_ = settings.max_length > 0 ? std::min(settings.max_length, positions) : positions;
    const auto vocabulary = static_cast<std::int64_t>(text::tokenizer::load(policy_folder).vocab_size());
    if (!settings.own_tokens && !same_text(policy_folder)) {
      text_.emplace(text::tokenizer::load(folder_), text::chat_template::detect(folder_));
    } else if (vocabulary > model().settings().vocab_size) {
      throw config_error("reward_model.model.path=" + folder_.string() + ": its " +
                         std::to_string(model().settings().vocab_size) + " tokens are fewer than the policy's " +
                         std::to_string(vocabulary));
    }
  }

  /// Sets verdict and reward, (score - mean) / std with `normalize`; the accuracy is not known. Throws data_error for a
  /// score that is not finite.
  void score(std::span<trajectory> batch, const data::prompt_dataset& prompts,
             const text::tokenizer& tokenizer) override {
    std::vector<std::vector<std::int32_t>> sequences;
    for (const trajectory& t : batch) {
      sequences.push_back(text_ ? rendered(t, prompts[t.row], tokenizer) : t.tokens);
      if (std::ssize(sequences.back()) > longest_)
        sequences.back().resize(static_cast<std::size_t>(longest_)), ++truncated_;
    }
    scored_ += std::ssize(batch);
    const std::vector<float> scores = values(sequences);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      batch[i].verdict = judged((static_cast<double>(scores[i]) - mean_) / std_).verdict;
      batch[i].accuracy.reset();
      batch[i].reward = static_cast<float>(batch[i].score());
    }
  }
  bool reads_truth() const override { return false; }
  /// reward/truncated: the share of sequences that lost their ends.
  void report(metrics& out) override {
    if (scored_ > 0) out.set("reward/truncated", static_cast<double>(truncated_) / static_cast<double>(scored_));
    scored_ = truncated_ = 0;
  }
  std::vector<double> take_counts() override {
    return {static_cast<double>(std::exchange(scored_, 0)), static_cast<double>(std::exchange(truncated_, 0))};
  }
  /// Adds the numbers of scored and truncated sequences of another rank.
  void add_counts(std::span<const double> counts) override {
    scored_ += static_cast<std::int64_t>(counts[0]), truncated_ += static_cast<std::int64_t>(counts[1]);
  }
  /// True if conversations are rendered again for the reward model.
  bool renders() const noexcept { return text_.has_value(); }
  /// The reward model.
  const nn::causal_lm<Device>& model() const noexcept { return frozen_.model; }

 private:
  /// Of the reward model, where the policy's are `s`.
  static parallel::parallel_settings shards_of(const parallel::parallel_settings& s) {
    const bool divided = s.zero == 3 || s.tensor > 1 || s.expert > 1 || s.pipeline.stages > 1;
    const bool same_ranks = s.zero == 3 && s.tensor == 1 && s.pipeline.stages == 1;
    return {.zero = divided ? 3 : 0, .shard_ranks = same_ranks ? s.shard_ranks : 0};
  }
  static nn::config score_config(const std::filesystem::path& folder) {
    nn::config config = checkpoint::read_stored_config(folder);
    if (config.output != nn::model_output::score)
      throw format_error((folder / "config.json").string() +
                         ": no reward model; expected architectures ...ForSequenceClassification with 1 label, such as "
                         "rm_trainer writes");
    return config;
  }

  /// Reads the mean and deviation of rewards that OpenRLHF's and our reward trainers write after an evaluation. Without
  /// them scores stay as they are, as in OpenRLHF.
  void read_moments() {
    const std::filesystem::path path = folder_ / "config.json";
    const auto json = text::try_parse_json(checkpoint::read_model_file(path));
    if (!json.contains("mean") && !json.contains("std")) {
      say("note: %s: no mean and std, so that rewards are not normalised (rm_trainer --eval_dataset writes them)\n",
          path.c_str());
      return;
    }
    const auto number = [&](const char* name) {
      if (!json.contains(name) || !json[name].is_number())
        throw format_error(path.string() + ": no number '" + name +
                           "', which rlcore.normalize_reward needs; rm_trainer writes it if it has evaluation rows");
      return json[name].template get<double>();
    };
    mean_ = number("mean"), std_ = number("std");
    if (!(std_ > 0)) throw format_error(path.string() + ": std is not above 0");
  }

  bool same_text(const std::filesystem::path& policy_folder) const {
    if (text::tokenizer::load(folder_).json() != text::tokenizer::load(policy_folder).json()) return false;
    const auto mine = text::chat_template::detect(folder_), theirs = text::chat_template::detect(policy_folder);
    return mine.source() == theirs.source();
  }

  std::vector<std::int32_t> rendered(const trajectory& t, const data::prompt& p,
                                     const text::tokenizer& tokenizer) const {
    std::vector<text::message> messages = p.messages;
    messages.push_back({"assistant", response_text(t, tokenizer, true)});
    const text::chat_template& chat = text_->second;
    std::vector<text::dropped_part> not_scored;  // thoughts, where the reward model's template leaves them out
    std::string text = chat.render(chat.accepted(messages), {}, &not_scored);
    while (text.ends_with('\n')) text.pop_back();
    return text_->first.encode(text);
  }

  std::vector<float> values(const std::vector<std::vector<std::int32_t>>& sequences) {
    std::vector<float> scores(sequences.size());
    for_each_scored_group(
        {model().units()}, sequences.size(), settings_.max_rows, settings_.max_tokens,
        [&](std::size_t i) { return sequences[i].size(); },
        [&](std::size_t first, std::size_t last) {
          ragged<std::int32_t> packed;
          std::vector<std::int32_t> rows;
          for (std::size_t i = first; i < last; ++i) {
            packed.push_back(sequences[i]);
            rows.push_back(static_cast<std::int32_t>(packed.values.size()) - 1);
          }
          nn::values(model(), space_, packed, rows, std::span(scores).subspan(first, last - first));
        });
    for (const float x : scores)
      if (!(x - x == 0))
        throw data_error("reward_model.model.path=" + folder_.string() + ": gave a score that is not finite");
    return scores;
  }

  model_reward settings_;
  std::filesystem::path folder_;
  parallel::world world_;
  frozen_model<Device> frozen_;
  nn::workspace<Device> space_;
  std::optional<std::pair<text::tokenizer, text::chat_template>> text_;
  std::int64_t longest_ = 0, scored_ = 0, truncated_ = 0;
  double mean_ = 0, std_ = 1;
};

}  // namespace train
RLCORE_END
