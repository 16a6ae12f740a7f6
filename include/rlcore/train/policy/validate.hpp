// Validation: sample the validation prompts, score them, name the result as verl does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/data/image_cache.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/report/sample_answers.hpp"
#include "rlcore/train/evaluation/problems.hpp"
#include "rlcore/train/evaluation/validation_metrics.hpp"
#include "rlcore/train/policy/collect.hpp"
#include "rlcore/train/policy/reward/reward_source.hpp"
#include "rlcore/train/policy/step_metrics.hpp"
#include "rlcore/train/policy/trajectory/trajectory_bytes.hpp"

RLCORE_BEGIN
namespace train {

/// All rows of a data set.
inline std::vector<std::uint32_t> every_row(const data::prompt_dataset& prompts) {
  std::vector<std::uint32_t> rows(prompts.size());
  std::iota(rows.begin(), rows.end(), 0u);
  return rows;
}

/// A prompt as a report shows it: what was said, each message behind its role if there are several.
std::string shown_prompt(std::span<const text::message> messages);

/// The best and the worst two of `batch` by score, ties by row: the validation answers shown in a report.
std::vector<sample_answer> best_and_worst(const std::vector<trajectory>& batch, std::int64_t step,
                                          const text::tokenizer& tokenizer, const data::prompt_dataset& prompts);

/// Scores answers to `prompts` with `rewards` and adds val-core/* and val-aux/* per data source and problem
/// (problems_of). Returns the mean score over all answers. With `ranks` each rank brings a part of the answers, and all
/// return the same. `shown` receives the best and the worst of them, with step number `step`. In runs with tools also
/// val-aux/num_turns/*.
double score_validation(std::vector<trajectory> batch, const text::tokenizer& tokenizer,
                        const data::prompt_dataset& prompts, reward_source& rewards, metrics& out,
                        parallel::any_communicator* ranks = nullptr, std::int64_t step = 0,
                        std::vector<sample_answer>* shown = nullptr);

/// Samples `samples` answers to every prompt and scores them by the rules of the rows' sources.
template <class Device, class Progress>
double validate(rollout::engine<Device>& engine, const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                const text::tokenizer& tokenizer, const data::prompt_dataset& prompts, std::int64_t samples,
                const rollout::generation& settings, random_key key, metrics& out, Progress&& progress) {
  rule_rewards rules;
  return score_validation(sample(engine, model, space, prompts, every_row(prompts), samples, settings, key, progress),
                          tokenizer, prompts, rules, out);
}

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::string shown_prompt(std::span<const text::message> messages) {
  std::string text;
  for (const text::message& m : messages)
    text += (text.empty() ? "" : "\n\n") + (messages.size() > 1 ? m.role + ": " : "") + m.content;
  return text;
}

RLCORE_INLINE std::vector<sample_answer> best_and_worst(const std::vector<trajectory>& batch, std::int64_t step,
                                                        const text::tokenizer& tokenizer,
                                                        const data::prompt_dataset& prompts) {
  constexpr std::size_t each = 2;
  std::vector<const trajectory*> order;
  for (const trajectory& t : batch) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(), [](const trajectory* a, const trajectory* b) {
    return a->score() > b->score() || (a->score() == b->score() && a->row < b->row);
  });
  if (order.size() > 2 * each) order.erase(order.begin() + each, order.end() - each);
  std::vector<sample_answer> out;
  for (const trajectory* t : order) {
    out.push_back({step, t->score(), shown_prompt(prompts[t->row].messages), tokenizer.decode(t->response(), true),
                   prompts[t->row].ground_truth});
    if (t->context.empty()) continue;
    std::string whole;
    std::span<const std::int32_t> rest = t->response();
    for (const std::int32_t count : mask_runs(t->context, t->response_length())) {
      const std::string part = tokenizer.decode(rest.first(static_cast<std::size_t>(count)), true);
      out.back().runs.push_back(part.size());
      whole += part;
      rest = rest.subspan(static_cast<std::size_t>(count));
    }
    out.back().answer = std::move(whole);
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    for (const data::image_pointer& p : prompts[order[i]->row].images)
      out[i].images.push_back(data::image_uri(*p, prompts.cache->processor().settings().decode));
  return out;
}

RLCORE_INLINE double score_validation(std::vector<trajectory> batch, const text::tokenizer& tokenizer,
                                      const data::prompt_dataset& prompts, reward_source& rewards, metrics& out,
                                      parallel::any_communicator* ranks, std::int64_t step,
                                      std::vector<sample_answer>* shown) {
  rewards.score(batch, prompts, tokenizer);
  if (ranks != nullptr) batch = gather_trajectories(*ranks, std::move(batch));
  validation_scores scores;
  const std::vector<std::uint32_t> problems = problems_of(prompts);
  double sum = 0;
  for (const trajectory& t : batch) {
    const std::uint32_t problem = problems[t.row];
    const std::string& source = prompts[t.row].data_source;
    scores.add(source, problem, t.score(), "reward", t.verdict.pred);
    if (t.accuracy) scores.add(source, problem, *t.accuracy, "acc", t.verdict.pred);
    sum += t.score();
  }
  scores.write(out);
  if (!batch.empty() && batch.front().talk.turns > 0) {
    spread turns;
    for (const trajectory& t : batch) turns.add(t.talk.turns);
    turns.write(out, "val-aux/num_turns");
  }
  if (shown != nullptr) *shown = best_and_worst(batch, step, tokenizer, prompts);
  return sum / static_cast<double>(batch.size());
}

}  // namespace train
RLCORE_END
#endif
