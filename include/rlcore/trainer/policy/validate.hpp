// Validation: sample the validation prompts, score them, name the result as verl does.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "rlcore/trainer/metrics.hpp"
#include "rlcore/trainer/policy/collect.hpp"
#include "rlcore/trainer/policy/reward_source.hpp"
#include "rlcore/trainer/problems.hpp"
#include "rlcore/trainer/validation_metrics.hpp"

RLCORE_BEGIN
namespace trainer {

/// Answers every prompt of `prompts` `samples` times, has the answers scored by `rewards` and adds val-core/* and
/// val-aux/* per data source and problem (problems_of). Returns the mean score over all samples.
template <class Device, class Progress>
double validate(rollout::engine<Device>& engine, const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                const text::tokenizer& tokenizer, const data::prompt_dataset& prompts, reward_source& rewards,
                std::int64_t samples, const rollout::generation& how, random_key key, metrics& out,
                Progress&& progress) {
  std::vector<std::uint32_t> rows(prompts.size());
  std::iota(rows.begin(), rows.end(), 0u);
  std::vector<trajectory> batch = sample(engine, model, space, prompts, rows, samples, how, key, progress);
  rewards.score(batch, prompts, tokenizer);
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
  return sum / static_cast<double>(batch.size());
}

/// The same by the rules of the rows' sources.
template <class Device, class Progress>
double validate(rollout::engine<Device>& engine, const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                const text::tokenizer& tokenizer, const data::prompt_dataset& prompts, std::int64_t samples,
                const rollout::generation& how, random_key key, metrics& out, Progress&& progress) {
  rule_rewards rules;
  return validate(engine, model, space, tokenizer, prompts, rules, samples, how, key, out, progress);
}

}  // namespace trainer
RLCORE_END
