// Reward sources: rules, a C++ function, an agent, and verl's dapo manager around them.
#pragma once

#include <cmath>
#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/objective/reward_shaping.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/policy/step_metrics.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"
#include "rlcore/verify/dispatch.hpp"

RLCORE_BEGIN
namespace train {

/// Scores a step's trajectories. It may depend on non-reproducible parts (a process, a clock); the rest of the run is a
/// function of its settings and these scores.
class reward_source {
 public:
  virtual ~reward_source() = default;
  /// Sets verdict of every trajectory, accuracy where it is known, and reward = score. Throws rlcore::error.
  virtual void score(std::span<trajectory> batch, const data::prompt_dataset& prompts,
                     const text::tokenizer& tokenizer) = 0;
  /// Throws data_error for rows that cannot be scored; asked for every data_source before the run starts.
  virtual void check(const std::string& /*data_source*/) const {}
  /// False if rows need neither data_source nor ground truth.
  virtual bool reads_truth() const { return true; }
  /// Adds metrics of the scores since the last call.
  virtual void report(metrics&) {}
  /// Removes and returns the counts behind report(); add_counts() puts back those of any rank.
  virtual std::vector<double> take_counts() { return {}; }
  /// Adds the result of take_counts() of any rank.
  virtual void add_counts(std::span<const double>) {}
};

/// Input of a reward function for one response; the names are verl's.
struct answer {
  std::string_view data_source, solution_str, ground_truth;
  const data::row& extra_info;
  std::int32_t num_turns = 0;  ///< of runs with tools: extra_info.num_turns in verl
};

/// Its result.
struct judgement {
  verify::verdict verdict;
  std::optional<double> accuracy;
};

/// A rule's verdict; the accuracy is its acc, if it has one.
inline judgement judged(const verify::verdict& v) {
  judgement j{v, {}};
  if (v.acc) j.accuracy = *v.acc ? 1.0 : 0.0;
  return j;
}
/// A plain score: above 0 counts as correct, and the accuracy is not known.
inline judgement judged(double score) {
  verify::verdict v{score, score > 0 ? verify::reason::correct : verify::reason::wrong};
  v.has_reason = false;
  return {v, {}};
}

/// The response as reward functions read it: without special tokens; `strip` also removes the text of the end token if
/// the tokenizer does not treat it as special (verl's dapo manager).
std::string response_text(const trajectory& t, const text::tokenizer& tokenizer, bool strip = false);

/// Sources that read texts, all of a step at once.
class text_rewards : public reward_source {
 public:
  /// `strip_end` as in response_text().
  explicit text_rewards(bool strip_end = false) : strip_end_(strip_end) {}

  /// Decodes all responses, hands them to judge() together, and sets verdict, accuracy and reward. Throws data_error
  /// for a reward that is not finite as a float.
  void score(std::span<trajectory> batch, const data::prompt_dataset& prompts, const text::tokenizer& tokenizer) final;

 protected:
  virtual void judge(std::span<const answer> answers, std::span<judgement> judgements) = 0;

 private:
  bool strip_end_;
};

/// The rule of each data_source (verify::score).
class rule_rewards final : public text_rewards {
 public:
  /// `strip_end` as in response_text(); `rules` are the settings of the rules.
  explicit rule_rewards(bool strip_end = false, const verify::rule_settings& rules = {})
      : text_rewards(strip_end), rules_(rules) {}
  /// Throws data_error for a source without a rule.
  void check(const std::string& data_source) const override { verify::scorer_of(data_source, rules_.version); }

 protected:
  void judge(std::span<const answer> answers, std::span<judgement> judgements) override {
    for (std::size_t i = 0; i < answers.size(); ++i)
      judgements[i] =
          judged(verify::score(answers[i].data_source, answers[i].solution_str, answers[i].ground_truth, rules_));
  }

 private:
  verify::rule_settings rules_;
};

/// Something that scores one answer: f(answer) gives a number or a verify::verdict.
template <class F>
concept reward_function = requires(F& f, const answer& a) { judged(f(a)); };

/// A function of your own, called for one response after the other.
template <reward_function F>
class function_rewards final : public text_rewards {
 public:
  /// The function sees one answer at a time; `strip_end` as in response_text().
  explicit function_rewards(F function, bool strip_end = false)
      : text_rewards(strip_end), function_(std::move(function)) {}

 protected:
  void judge(std::span<const answer> answers, std::span<judgement> judgements) override {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      judgements[i] = judged(function_(answers[i]));
      const double score = judgements[i].verdict.score;
      if (!(score - score == 0))
        throw data_error("the reward function gave " + std::to_string(score) + " for an answer of data_source '" +
                         data::printable(answers[i].data_source) + "'; expected a finite number");
    }
  }

 private:
  F function_;
};

/// The rewards that the agent gave while it answered: the score is their sum, the accuracy its last score.
class agent_rewards final : public reward_source {
 public:
  /// `by_turn`: each reward is at the last token of its turn, for estimators by token; otherwise their sum is at the
  /// response's last one.
  explicit agent_rewards(bool by_turn = false) : by_turn_(by_turn) {}
  void score(std::span<trajectory> batch, const data::prompt_dataset&, const text::tokenizer&) override;
  bool reads_truth() const override { return false; }

 private:
  bool by_turn_;
};

/// The scores that came with the responses (rlcore.replay_scores).
class stored_rewards final : public reward_source {
 public:
  /// Throws data_error for a score that is not finite as a float.
  void score(std::span<trajectory> batch, const data::prompt_dataset&, const text::tokenizer&) override {
    for (trajectory& t : batch) {
      t.reward = static_cast<float>(t.score());
      if (!std::isfinite(t.reward))
        throw data_error("row " + std::to_string(t.row) + ": the stored score is not finite");
    }
  }
  bool reads_truth() const override { return false; }
};

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

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::string response_text(const trajectory& t, const text::tokenizer& tokenizer, bool strip) {
  std::string text = tokenizer.decode(t.response(), true);
  if (strip && tokenizer.eos_id()) {
    const std::string& end = tokenizer.token_of(*tokenizer.eos_id());
    if (!end.empty() && text.ends_with(end)) text.resize(text.size() - end.size());
  }
  return text;
}

RLCORE_INLINE void text_rewards::score(std::span<trajectory> batch, const data::prompt_dataset& prompts,
                                       const text::tokenizer& tokenizer) {
  std::vector<std::string> texts;
  std::vector<answer> answers;
  for (const trajectory& t : batch) texts.push_back(response_text(t, tokenizer, strip_end_));
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const data::prompt& p = prompts[batch[i].row];
    answers.push_back({p.data_source, texts[i], p.ground_truth, p.extra, batch[i].talk.turns});
  }
  std::vector<judgement> judgements(batch.size());
  judge(answers, judgements);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    trajectory& t = batch[i];
    t.verdict = std::move(judgements[i].verdict);
    t.accuracy = judgements[i].accuracy;
    t.reward = static_cast<float>(t.score());
    if (!std::isfinite(t.reward))
      throw data_error("the reward of response " + std::to_string(i + 1) + " of " + std::to_string(batch.size()) +
                       " (data_source '" + data::printable(answers[i].data_source) + "', row " + std::to_string(t.row) +
                       ") is " + std::to_string(t.score()) + "; expected a finite number");
  }
}

RLCORE_INLINE void agent_rewards::score(std::span<trajectory> batch, const data::prompt_dataset&,
                                        const text::tokenizer&) {
  for (trajectory& t : batch) {
    t.verdict = judged(t.talk.reward).verdict;
    t.accuracy = t.talk.score;
    t.reward = static_cast<float>(t.score());
    if (!std::isfinite(t.reward))
      throw data_error("row " + std::to_string(t.row) + ": the agent's reward is " + std::to_string(t.talk.reward) +
                       "; expected a finite number");
    t.rewarded_by_turn = by_turn_ && !t.turn_rewards.empty();
  }
}

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

}  // namespace train
RLCORE_END
#endif
