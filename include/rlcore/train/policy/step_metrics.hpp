// Step metrics under verl's names (docs/metrics.md), and the warning about a run without a learning signal.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/train/policy/settings.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace train {

/// Running mean, largest and smallest of a quantity.
class spread {
 public:
  /// Takes x into account, in the mean with `weight`; nothing if that is not positive.
  void add(double x, double weight = 1);
  /// Sets name/mean, name/max and name/min; nothing if no number came.
  void write(metrics& out, const std::string& name) const;

 private:
  double sum_ = 0, count_ = 0, largest_ = 0, smallest_ = 0;
  bool seen_ = false;
};

/// training/rollout_probs_diff_*: |p - q| over the response tokens, p = e^rollout_logp, q = e^old_logp; verl's names
/// and its standard deviation (n - 1). Nothing where the rollout's log-probs are not known.
void compare_rollout(std::span<const trajectory> batch, metrics& out);

/// 1 - var(returns - values) / (var(returns) + 1e-5) over the response tokens; variances with n - 1.
double explained_variance(std::span<const trajectory> batch);

/// critic/*, response_length/*, prompt_length/* of the step's trajectories; in runs with tools also num_turns/*,
/// tool_call_counts/*, tool/*, tool_reward/mean, turn_reward/mean, agent/* and response_length_policy/*.
void batch_metrics(std::span<const trajectory> batch, std::int64_t max_prompt, std::int64_t max_response, metrics& out);

/// actor/entropy: the sampling policy's entropy, averaged as `aggregation` says (verl: by actor.loss_agg_mode).
double rollout_entropy(std::span<const trajectory> batch, const any_aggregation& aggregation);

/// timing_s/*, timing_per_token_ms/* and perf/* from the stages of the step on `ranks` ranks.
void timing_metrics(std::span<const trajectory> batch, const stages& time, metrics& out, int ranks = 1);

/// Looks at every step. If the scores within each group are equal, group-relative advantages are 0; without groups
/// (rollout.n=1) the same holds where all scores of the step are.
class signal_watch {
 public:
  static constexpr int patience = 3;  ///< steps in a row without a gradient

  /// The first time that a step of groups scores alike, or that `patience` steps in a row do without groups or have
  /// actor/grad_norm = 0: what is wrong and the likely reasons, in one line. "" otherwise, and ever after.
  std::string operator()(std::span<const trajectory> batch, const metrics& numbers, const policy_settings& s);

 private:
  /// Whether there is a group of two or more, and none whose scores differ.
  static bool alike(std::span<const trajectory> batch, std::size_t group);

  static std::string of_all(std::ptrdiff_t some, std::size_t all) {
    return std::to_string(some) + " of " + std::to_string(all);
  }

  static std::string why_alike(std::span<const trajectory> batch, std::size_t group, const policy_settings& s);

  int alike_ = 0, flat_ = 0;  // steps in a row
  bool said_ = false;
};

/// Time that this rank has waited for the other stages, step by step: in receives of passes, and in all exchanges of
/// world::pipeline(), where the end of a schedule waits.
class pipeline_idle {
 public:
  /// Sets perf/pipeline_idle after a step of so many seconds: the mean share of the stages. A collective call of the
  /// ranks of w.pipeline(); does nothing without stages.
  void operator()(parallel::world& w, double step, metrics& out) {
    if (w.pipeline().size() == 1) return;
    double waited = 0;
    for (const parallel::any_communicator* group : {&w.forwards(), &w.backwards()})
      waited += group->counters().of(parallel::collective::receive).seconds;
    waited += w.pipeline().counters().total().seconds;
    const double share = step > 0 ? (waited - before_) / step : 0;
    before_ = waited;
    parallel::meet_stages(w);
    const std::vector<double> all = parallel::gather_parts(w.pipeline(), std::span<const double>(&share, 1));
    out.set("perf/pipeline_idle", std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()));
  }

 private:
  double before_ = 0;
};

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE void spread::add(double x, double weight) {
  if (weight <= 0) return;
  sum_ += weight * x;
  count_ += weight;
  largest_ = seen_ ? std::max(largest_, x) : x;
  smallest_ = seen_ ? std::min(smallest_, x) : x;
  seen_ = true;
}

RLCORE_INLINE void spread::write(metrics& out, const std::string& name) const {
  if (!seen_) return;
  out.set(name + "/mean", sum_ / count_);
  out.set(name + "/max", largest_);
  out.set(name + "/min", smallest_);
}

RLCORE_INLINE void compare_rollout(std::span<const trajectory> batch, metrics& out) {
  double n = 0, mean = 0, squares = 0, largest = 0;
  for (const trajectory& row : batch)
    for (std::size_t t = 0; t < row.rollout_logp.size(); ++t) {
      const double d = std::abs(elementary::exp(static_cast<double>(row.rollout_logp[t])) -
                                elementary::exp(static_cast<double>(row.old_logp[t])));
      const double step = d - mean;
      mean += step / ++n;
      squares += step * (d - mean);
      largest = std::max(largest, d);
    }
  if (n == 0) return;
  out.set("training/rollout_probs_diff_mean", mean);
  out.set("training/rollout_probs_diff_max", largest);
  out.set("training/rollout_probs_diff_std", n > 1 ? std::sqrt(squares / (n - 1)) : 0.0);
}

RLCORE_INLINE double explained_variance(std::span<const trajectory> batch) {
  const auto variance = [&](auto number) {
    double n = 0, mean = 0, squares = 0;
    for (const trajectory& t : batch)
      for (std::size_t i = 0; i < t.token_return.size(); ++i) {
        const double x = number(t, i), step = x - mean;
        mean += step / ++n;
        squares += step * (x - mean);
      }
    return n > 1 ? squares / (n - 1) : 0.0;
  };
  const double rest = variance([](const trajectory& t, std::size_t i) {
    return static_cast<double>(t.token_return[i]) - static_cast<double>(t.value[i]);
  });
  const double total =
      variance([](const trajectory& t, std::size_t i) { return static_cast<double>(t.token_return[i]); });
  return 1 - rest / (total + 1e-5);
}

/// Of runs with several turns.
RLCORE_INLINE void tool_metrics(std::span<const trajectory> batch, metrics& out) {
  spread turns, calls, policy, seconds;
  double failures = 0, unread = 0, tool_reward = 0, reward = 0, all = 0;
  for (const trajectory& t : batch) {
    turns.add(t.talk.turns), calls.add(t.talk.calls), seconds.add(t.talk.seconds);
    policy.add(static_cast<double>(t.written_length()));
    failures += t.talk.failures, unread += t.talk.unread, tool_reward += t.talk.tool_reward, all += t.talk.calls;
    reward += t.talk.reward;
  }
  turns.write(out, "num_turns");
  calls.write(out, "tool_call_counts");
  seconds.write(out, "timing_s/agent_loop/tool_calls");
  policy.write(out, "response_length_policy");
  out.set("tool/errors", failures);
  out.set("tool/parse_failures", unread);
  out.set("tool_reward/mean", all > 0 ? tool_reward / all : 0.0);
  std::map<std::string, spread> logs;
  for (const trajectory& t : batch) {
    const auto of_answer = nlohmann::json::parse(t.agent_logs.empty() ? "{}" : t.agent_logs);
    for (const auto& [name, x] : of_answer.items()) logs[name].add(x.get<double>());
  }
  for (const auto& [name, of_name] : logs) of_name.write(out, "agent/" + name);
  out.set("turn_reward/mean", reward / static_cast<double>(batch.size()));
}

RLCORE_INLINE void batch_metrics(std::span<const trajectory> batch, std::int64_t max_prompt, std::int64_t max_response,
                                 metrics& out) {
  spread score, reward, advantage, returns, value, prompt, response;
  double prompt_clipped = 0, response_clipped = 0, explained = 0;
  std::array<double, verify::reason_names.size()> why{};
  for (const trajectory& t : batch) {
    const auto length = static_cast<double>(t.response_length());
    score.add(t.score());
    reward.add(t.reward);
    if (t.token_advantage.empty()) advantage.add(t.advantage, static_cast<double>(t.policy_length()));
    for (const float x : t.token_advantage) advantage.add(x);
    for (const float x : t.token_return) returns.add(x);
    for (const float x : t.value) value.add(x);
    prompt.add(t.prompt_length);
    response.add(length);
    prompt_clipped += t.prompt_length == max_prompt;
    response_clipped += t.response_length() == max_response;
    if (t.verdict.has_reason) ++explained, ++why[static_cast<std::size_t>(t.verdict.why)];
  }
  score.write(out, "critic/score");
  reward.write(out, "critic/rewards");
  advantage.write(out, "critic/advantages");
  // Estimators with one advantage per response call it their return.
  const auto any_has = [&](auto field) {
    return std::ranges::any_of(batch, [&](const trajectory& t) { return !(t.*field).empty(); });
  };
  (any_has(&trajectory::token_return) ? returns : advantage).write(out, "critic/returns");
  value.write(out, "critic/values");
  if (any_has(&trajectory::value)) out.set("critic/vf_explained_var", explained_variance(batch));
  response.write(out, "response_length");
  out.set("response_length/clip_ratio", response_clipped / static_cast<double>(batch.size()));
  if (batch.front().talk.turns > 0) tool_metrics(batch, out);
  prompt.write(out, "prompt_length");
  out.set("prompt_length/clip_ratio", prompt_clipped / static_cast<double>(batch.size()));
  if (explained == 0) return;  // a function of the user's, or a model, says nothing of answers
  for (std::size_t r = static_cast<std::size_t>(verify::reason::no_match); r < why.size(); ++r)
    if (r <= static_cast<std::size_t>(verify::reason::outside_window) || why[r] > 0)  // the others are rare
      out.set("reward/" + std::string(verify::reason_names[r]), why[r] / explained);
}

RLCORE_INLINE double rollout_entropy(std::span<const trajectory> batch, const any_aggregation& aggregation) {
  global_counts counts;
  for (const trajectory& t : batch) counts.add_row(t.policy_length());
  double total = 0;
  for (const trajectory& t : batch) {
    if (t.entropy.empty()) continue;
    double row = 0;
    for (const float h : t.entropy) row += static_cast<double>(h);
    total += row * aggregation.weight({t.policy_length()}, counts);
  }
  return total;
}

RLCORE_INLINE void timing_metrics(std::span<const trajectory> batch, const stages& time, metrics& out, int ranks) {
  double tokens = 0, drawn_tokens = 0;
  for (const trajectory& t : batch) {
    tokens += static_cast<double>(t.tokens.size());
    drawn_tokens += static_cast<double>(t.written_length());
  }
  for (const auto& [name, seconds] : time.entries()) out.set("timing_s/" + name, seconds);
  for (const auto& [name, seconds] : time.entries()) {
    if (name == "gen") out.set("timing_per_token_ms/gen", 1000 * seconds / drawn_tokens);
    if (name == "ref" || name == "values" || name == "adv" || name == "update_critic" || name == "update_actor")
      out.set("timing_per_token_ms/" + name, 1000 * seconds / tokens);
  }
  const double step = time.seconds("step");
  out.set("perf/total_num_tokens", static_cast<std::int64_t>(tokens));
  out.set("perf/time_per_step", step);
  out.set("perf/throughput", throughput(tokens, step, ranks));
}

RLCORE_INLINE std::string signal_watch::operator()(std::span<const trajectory> batch, const metrics& numbers,
                                                   const policy_settings& s) {
  if (said_ || batch.empty()) return {};
  const std::size_t group = s.samples > 1 ? static_cast<std::size_t>(s.samples) : batch.size();
  const bool equal = alike(batch, group);
  alike_ = equal ? alike_ + 1 : 0;
  flat_ = numbers.get("actor/grad_norm") == 0 ? flat_ + 1 : 0;
  const bool enough = alike_ >= (s.samples > 1 ? 1 : patience);
  if (!enough && flat_ < patience) return {};
  said_ = true;
  if (enough) return why_alike(batch, group, s);
  return "actor/grad_norm is 0 in " + std::to_string(patience) +
         " steps in a row though scores differ: nothing is learnt. Likely reasons: advantages that are all 0 "
         "(critic/advantages/max; a clipped reward), or every token clipped or left out of the loss "
         "(actor/pg_clipfrac)";
}

RLCORE_INLINE bool signal_watch::alike(std::span<const trajectory> batch, std::size_t group) {
  if (group < 2) return false;
  for (std::size_t first = 0; first + group <= batch.size(); first += group)
    for (const trajectory& t : batch.subspan(first, group))
      if (t.score() != batch[first].score()) return false;
  return true;
}

RLCORE_INLINE std::string signal_watch::why_alike(std::span<const trajectory> batch, std::size_t group,
                                                  const policy_settings& s) {
  const auto rewarded = std::count_if(batch.begin(), batch.end(), [](const trajectory& t) { return t.score() > 0; });
  std::string text = (group < batch.size() ? "all responses to a prompt score alike, in every group"
                                           : "all responses of a step score alike") +
                     std::string(": there is nothing to learn from. ");
  if (rewarded == std::ssize(batch))
    return text + "All are right: the data are too easy for this model; take harder prompts or a higher temperature";
  if (rewarded > 0)
    return text + of_all(rewarded, batch.size()) +
           " are right, whole groups each: a higher temperature or a larger rollout.n makes answers differ";
  std::array<std::ptrdiff_t, verify::reason_names.size()> why{};
  for (const trajectory& t : batch) ++why[static_cast<std::size_t>(t.verdict.why)];
  const auto unanswered = why[static_cast<std::size_t>(verify::reason::no_match)];
  const auto cut = std::count_if(batch.begin(), batch.end(), [&](const trajectory& t) {
    return t.reason == rollout::finish::length && t.response_length() >= s.max_response_length;
  });
  text += "No response was rewarded. Likely reasons: ";
  if (unanswered > 0)
    text += "no answer in the form that the reward function looks for (" + of_all(unanswered, batch.size()) + "); ";
  if (cut > 0)
    text += "responses cut at data.max_response_length=" + std::to_string(s.max_response_length) + " (" +
            of_all(cut, batch.size()) + "); ";
  return text + "a reward function that is not meant for these data; prompts too hard for this model";
}

}  // namespace train
RLCORE_END
#endif
