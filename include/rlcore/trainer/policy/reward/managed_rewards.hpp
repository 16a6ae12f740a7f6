// verl's dapo reward manager: accuracy, and a penalty near the length limit (overlong buffer).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/objective/reward_shaping.hpp"
#include "rlcore/trainer/policy/reward/reward_source.hpp"
#include "rlcore/trainer/policy/step_metrics.hpp"

RLCORE_BEGIN
namespace trainer {

/// Scores by `source`; an answer without accuracy gets its score as one, and `overlong` is added by the length of the
/// response in tokens. Unlike verl it is added to the score of a reward model as well.
class managed_rewards final : public reward_source {
 public:
  /// Without `overlong` there is no penalty; `source` must outlive this.
  managed_rewards(reward_source& source, std::optional<soft_overlong> overlong)
      : source_(source), overlong_(overlong) {}

  /// Scores by the source, then sets accuracy, length_penalty and reward = score + penalty.
  void score(std::span<trajectory> batch, const data::prompt_dataset& prompts,
             const text::tokenizer& tokenizer) override;
  /// Asks the source.
  void check(const std::string& data_source) const override { source_.check(data_source); }
  bool reads_truth() const override { return source_.reads_truth(); }
  /// The source's numbers, and with a penalty reward/overlong_penalty/* and reward/overlong, the share of penalised
  /// responses.
  void report(metrics& out) override;
  std::vector<double> take_counts() override;
  /// Hands the source its counts and keeps the penalties behind them.
  void add_counts(std::span<const double> counts) override;

 private:
  reward_source& source_;
  std::optional<soft_overlong> overlong_;
  std::vector<double> penalties_;
};

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE void managed_rewards::score(std::span<trajectory> batch, const data::prompt_dataset& prompts,
                                          const text::tokenizer& tokenizer) {
  source_.score(batch, prompts, tokenizer);
  for (trajectory& t : batch) {
    if (!t.accuracy) t.accuracy = t.verdict.score;
    if (overlong_) t.length_penalty = overlong_->penalty(t.response_length());
    t.reward = static_cast<float>(t.score());
    penalties_.push_back(t.length_penalty);
  }
}

RLCORE_INLINE void managed_rewards::report(metrics& out) {
  source_.report(out);
  if (overlong_ && !penalties_.empty()) {
    spread penalty;
    double penalised = 0;
    for (const double p : penalties_) penalty.add(p), penalised += p < 0;
    penalty.write(out, "reward/overlong_penalty");
    out.set("reward/overlong", penalised / static_cast<double>(penalties_.size()));
  }
  penalties_.clear();
}

RLCORE_INLINE std::vector<double> managed_rewards::take_counts() {
  std::vector<double> counts = source_.take_counts();
  counts.insert(counts.begin(), static_cast<double>(counts.size()));
  counts.insert(counts.end(), penalties_.begin(), penalties_.end());
  penalties_.clear();
  return counts;
}

RLCORE_INLINE void managed_rewards::add_counts(std::span<const double> counts) {
  const auto of_source = static_cast<std::size_t>(counts[0]);
  source_.add_counts(counts.subspan(1, of_source));
  const auto rest = counts.subspan(1 + of_source);
  penalties_.insert(penalties_.end(), rest.begin(), rest.end());
}

}  // namespace trainer
RLCORE_END
#endif
