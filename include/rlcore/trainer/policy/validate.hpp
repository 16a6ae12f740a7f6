// Validation: sample the validation prompts, score them, name the result as verl does.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/trainer/metrics.hpp"
#include "rlcore/trainer/policy/collect.hpp"
#include "rlcore/trainer/policy/reward_source.hpp"
#include "rlcore/trainer/policy/trajectory_bytes.hpp"
#include "rlcore/trainer/problems.hpp"
#include "rlcore/trainer/validation_metrics.hpp"

RLCORE_BEGIN
namespace trainer {

/// Answers every prompt of `prompts` `samples` times, has the answers scored by `rewards` and adds val-core/* and
/// val-aux/* per data source and problem (problems_of). Returns the mean score over all samples. With `ranks` each of
/// them answers a part of the prompts, and all return the same.
template <class Device, class Progress>
double validate(rollout::engine<Device>& engine, const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                const text::tokenizer& tokenizer, const data::prompt_dataset& prompts, reward_source& rewards,
                std::int64_t samples, const rollout::generation& how, random_key key, metrics& out, Progress&& progress,
                parallel::any_communicator* ranks = nullptr) {
  std::vector<std::uint32_t> rows(prompts.size());
  std::iota(rows.begin(), rows.end(), 0u);
  const row_range share = share_of_responses(rows.size(), static_cast<std::size_t>(samples),
                                             ranks != nullptr ? static_cast<std::size_t>(ranks->size()) : 1,
                                             ranks != nullptr ? static_cast<std::size_t>(ranks->rank()) : 0);
  std::vector<trajectory> batch = sample(engine, model, space, prompts, rows, samples, how, key, progress, share);
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
