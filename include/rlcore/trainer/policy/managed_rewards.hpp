// What verl's dapo manager adds to a score: an accuracy, and a penalty near the length limit.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "rlcore/objective/reward/soft_overlong.hpp"
#include "rlcore/trainer/policy/reward_source.hpp"
#include "rlcore/trainer/policy/step_metrics.hpp"

RLCORE_BEGIN
namespace trainer {

/// Scores by `source`; an answer without accuracy gets its score as one, and `overlong` is added by the length of the
/// response in tokens. Unlike verl it is added to the score of a reward model as well.
class managed_rewards final : public reward_source {
 public:
  managed_rewards(reward_source& source, std::optional<soft_overlong> overlong)
      : source_(source), overlong_(overlong) {}

  void score(std::span<trajectory> batch, const data::prompt_dataset& prompts,
             const text::tokenizer& tokenizer) override {
    source_.score(batch, prompts, tokenizer);
    for (trajectory& t : batch) {
      if (!t.accuracy) t.accuracy = t.verdict.score;
      if (overlong_) t.length_penalty = overlong_->penalty(t.response_length());
      t.reward = static_cast<float>(t.score());
      penalty_.add(t.length_penalty);
      ++scored_, penalised_ += t.length_penalty < 0;
    }
  }
  void check(const std::string& data_source) const override { source_.check(data_source); }
  bool reads_truth() const override { return source_.reads_truth(); }
  void report(metrics& out) override {
    source_.report(out);
    if (overlong_ && scored_ > 0) {
      penalty_.write(out, "reward/overlong_penalty");
      out.set("reward/overlong", penalised_ / scored_);
    }
    penalty_ = {}, scored_ = penalised_ = 0;
  }

 private:
  reward_source& source_;
  std::optional<soft_overlong> overlong_;
  spread penalty_;
  double scored_ = 0, penalised_ = 0;
};

}  // namespace trainer
RLCORE_END
