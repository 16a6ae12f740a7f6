// Reward sources: rules, a C++ function, an external command or a reward model.
#pragma once

#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"
#include "rlcore/verify/dispatch.hpp"

RLCORE_BEGIN
namespace trainer {

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
  return {{score, score > 0 ? verify::reason::correct : verify::reason::wrong}, {}};
}

/// The response as reward functions read it: without special tokens; `strip` also removes the text of the end token if
/// the tokenizer does not treat it as special (verl's dapo manager).
std::string response_text(const trajectory& t, const text::tokenizer& tokenizer, bool strip = false);

/// Sources that read texts, all of a step at once.
class text_rewards : public reward_source {
 public:
  /// `strip_end` as in response_text().
  explicit text_rewards(bool strip_end = false) : strip_end_(strip_end) {}

  /// Decodes all responses, hands them to judge() together, and sets verdict, accuracy and reward.
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
concept reward_function = requires(F& f, const answer& a) {
  judged(f(a));
};

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

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

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
    answers.push_back({p.data_source, texts[i], p.ground_truth, p.extra});
  }
  std::vector<judgement> judgements(batch.size());
  judge(answers, judgements);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    trajectory& t = batch[i];
    t.verdict = std::move(judgements[i].verdict);
    t.accuracy = judgements[i].accuracy;
    t.reward = static_cast<float>(t.score());
  }
}

}  // namespace trainer
RLCORE_END
#endif
