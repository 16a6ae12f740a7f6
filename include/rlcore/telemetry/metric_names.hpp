// Every metric by name, unit and definition. docs/metrics.md is generated from this table.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

/// In names, {a,b} matches one of the words, <x> any.
struct metric_definition {
  std::string_view name, unit, definition;
};

inline constexpr metric_definition metric_definitions[] = {
    {"training/global_step", "steps", "number of this step, from 1"},
    {"training/epoch", "epochs", "pass over the training rows, from 0"},
    {"critic/score/{mean,max,min}", "score", "what the reward function gave a trajectory"},
    {"critic/rewards/{mean,max,min}", "score",
     "score minus the KL penalty, if that is part of the reward: the learning curve"},
    {"critic/advantages/{mean,max,min}", "1", "advantage of a response token"},
    {"critic/returns/{mean,max,min}", "1",
     "what follows a response token, the critic's target; the advantage for estimators of one advantage per response"},
    {"critic/values/{mean,max,min}", "1", "the critic's value of the state before a response token"},
    {"critic/vf_explained_var", "1", "1 - var(returns - values) / (var(returns) + 1e-5) over response tokens"},
    {"critic/vf_loss", "1", "loss of the critic, half the clipped squared error, mean over updates"},
    {"critic/vf_clipfrac", "share", "response tokens whose value is held by the clip, mean over updates"},
    {"critic/vpred_mean", "1", "value of a response token during the update, mean over updates"},
    {"critic/grad_norm", "1", "global L2 norm of the critic's gradient before clipping, mean over updates"},
    {"critic/lr", "1", "learning rate of the critic in this step"},
    {"critic/skipped_updates", "updates", "updates of the critic left out because the gradient was not finite"},
    {"train/num_gen_batches", "rounds", "rounds of sampling in this step (dynamic sampling)"},
    {"train/groups_all_right", "share", "groups sampled in this step whose answers are all right: nothing to learn"},
    {"train/groups_all_wrong", "share", "groups sampled in this step whose answers are all equally wrong"},
    {"train/surplus_groups", "groups", "that wait for the next step (dynamic sampling)"},
    {"train/earlier_groups", "groups", "that this step trains on but an earlier one sampled (dynamic sampling)"},
    {"reward/no_match", "share", "responses in which the rule found no answer; only rules tell"},
    {"reward/outside_window", "share", "responses whose answer stands before the part the reward function looks at"},
    {"reward/malformed", "share", "responses whose answer is announced but not finished, such as an open \\boxed{"},
    {"reward/too_long", "share", "responses with more bytes than the reward function looks at"},
    {"reward/undecided", "share", "responses whose answer could not be compared; scored as wrong"},
    {"reward/failed", "share", "responses that an external reward program failed to score; they count 0"},
    {"reward/truncated", "share", "conversations cut off because they are longer than the reward model reads"},
    {"reward/overlong_penalty/{mean,max,min}", "score", "penalty near the length limit (reward_manager=dapo)"},
    {"reward/overlong", "share", "responses with such a penalty"},
    {"actor/pg_loss", "1", "policy loss before the entropy and KL terms, mean over updates"},
    {"actor/pg_clipfrac", "share", "response tokens whose ratio is clipped"},
    {"actor/pg_clipfrac_lower", "share",
     "response tokens with negative advantage at the dual clip; geo_mean: outside of its widths"},
    {"actor/ppo_kl", "nats", "mean of old minus new log-probability over response tokens"},
    {"actor/entropy", "nats", "entropy of the sampling policy, averaged by actor.loss_agg_mode"},
    {"actor/entropy_loss", "nats", "entropy of the policy in training, averaged by actor.loss_agg_mode"},
    {"actor/kl_loss", "nats", "KL to the reference in the loss, averaged by actor.loss_agg_mode"},
    {"actor/kl_coef", "1", "its coefficient"},
    {"actor/reward_kl_penalty", "nats",
     "KL to the reference in the reward: mean over trajectories of the mean over tokens"},
    {"actor/reward_kl_penalty_coeff", "1", "its coefficient, as used in this step"},
    {"rollout_corr/rollout_is_{mean,max,min,std}", "1",
     "importance weights of the tokens, treated, where rollout_correction.rollout_is is set"},
    {"rollout_corr/rollout_is_eff_sample_size", "share", "(sum w)^2 / (N sum w^2) of these weights"},
    {"rollout_corr/rollout_is_ratio_fraction_{high,low}", "share", "tokens whose weight was beyond the threshold"},
    {"rollout_corr/rollout_rs_<statistic>_{mean,max,min}", "nats",
     "a statistic of rollout_correction.rollout_rs, such as seq_mean_k3"},
    {"rollout_corr/rollout_rs_<statistic>_{masked_fraction,seq_masked_fraction}", "share",
     "tokens that it leaves out, and responses that it takes tokens from"},
    {"rollout_corr/rollout_rs_{masked_fraction,seq_masked_fraction}", "share", "the same, of all statistics together"},
    {"rollout_corr/{kl,k3_kl}", "nats", "KL of the sampling policy from the step's, mean over tokens"},
    {"rollout_corr/chi2_{token,seq}", "1", "chi-square divergence of the step's policy from the sampling one"},
    {"rollout_corr/{training,rollout}_ppl", "1", "perplexity of the responses under either, mean over responses"},
    {"rollout_corr/ppl_ratio", "1", "mean over responses of the first over the second"},
    {"training/rollout_probs_diff_{mean,max,std}", "1",
     "distance of a response token's probability while sampling from the recomputed one, when there is one; 0 unless "
     "the rollout's weights differ"},
    {"actor/grad_norm", "1", "global L2 norm of the gradient before clipping, mean over updates"},
    {"actor/lr", "1", "learning rate of this step"},
    {"actor/skipped_updates", "updates", "updates of this step left out because the gradient was not finite"},
    {"response_length/{mean,max,min}", "tokens", "length of a response with its end token"},
    {"response_length/clip_ratio", "share", "responses that reach data.max_response_length"},
    {"response_length_policy/{mean,max,min}", "tokens",
     "of the response, those that the policy wrote; the other lengths count replies of tools"},
    {"num_turns/{mean,max,min}", "turns", "the prompt, each turn of the policy, and each reply of tools"},
    {"val-aux/num_turns/{mean,max,min}", "turns", "the same in the validation"},
    {"tool_call_counts/{mean,max,min}", "calls", "calls of tools in a response"},
    {"tool/errors", "calls", "calls of tools that failed"},
    {"tool/parse_failures", "blocks", "blocks between tool_call tags that are no call"},
    {"tool_reward/mean", "reward", "mean of the tools' own rewards over the calls; not part of the score"},
    {"turn_reward/mean", "reward", "rewards by the simulated user or the agent, summed over a response"},
    {"agent/<name>/{mean,max,min}", "1", "extra_logs of an agent's last answers"},
    {"prompt_length/{mean,max,min}", "tokens", "length of a prompt"},
    {"prompt_length/clip_ratio", "share", "prompts that reach data.max_prompt_length"},
    {"train/loss", "nats",
     "loss of the step; sft_trainer: mean over all trained tokens of the step; "
     "dpo_trainer: without --nll_loss_coef times train/nll_loss, as OpenRLHF logs it"},
    {"train/tokens", "tokens", "trained tokens of the step"},
    {"train/grad_norm", "1", "global L2 norm of the gradient before clipping"},
    {"train/skipped_updates", "updates", "1 if the step was left out because the gradient was not finite"},
    {"train/lr(1e-3)", "1e-3", "learning rate of this step, times 1000 (verl logs that of the next step)"},
    {"train/lr", "1", "learning rate of this step"},
    {"train/time(s)", "s", "wall time of gradient and update"},
    {"train/loss_mean", "nats", "the step's loss again, under the name of OpenRLHF's mean over accumulated passes"},
    {"train/acc", "share", "pairs in which the chosen answer has the larger reward; prm_trainer: steps judged right"},
    {"train/acc_mean", "share", "train/acc again, under the name of OpenRLHF's mean over accumulated passes"},
    {"train/{chosen_reward,reject_reward}", "1",
     "mean reward of the better and of the worse answers: beta times the sum of log-ratios to the reference "
     "(rm_trainer: the score)"},
    {"train/nll_loss", "nats", "mean over chosen answers of their mean NLL per token (--nll_loss_coef)"},
    {"train/kto_loss", "1", "mean over the rows of the step"},
    {"train/prm_loss", "nats", "mean cross-entropy of the judged steps"},
    {"train/kl", "nats", "KTO's reference point: mean sum of log-ratios of mismatched answers, at least 0"},
    {"eval/eval_loss", "nats", "the loss of the evaluation rows, as one step of all of them"},
    {"eval/acc_mean", "share", "as train/acc, over the evaluation rows"},
    {"eval/{chosen_reward,reject_reward}", "1", "as train/*, over the evaluation rows"},
    {"eval/pair_acc", "share",
     "of all pairs of a desirable and an undesirable answer to one prompt: the former has the larger reward"},
    {"eval/{reward_mean,reward_std}", "1", "of the evaluation rows' rewards; config.json holds them"},
    {"val/loss", "nats", "mean over all trained tokens of the evaluation rows"},
    {"timing_s/update", "s", "wall time of gradient and update"},
    {"timing_s/step", "s", "wall time of the whole step, with validation and checkpoint"},
    {"timing_s/gen", "s", "wall time of the rollout"},
    {"timing_s/agent_loop/tool_calls/{mean,max,min}", "s", "seconds of the calls of tools in a response"},
    {"timing_s/reward", "s", "wall time of the reward function"},
    {"timing_s/old_log_prob", "s",
     "wall time of the old policy's log-probabilities; 0 when those recorded while sampling are used, the same bits"},
    {"timing_s/wait_prev_gen", "s", "wall time until the responses that were drawn ahead were complete"},
    {"timing_s/sync_rollout_weights", "s", "wall time of copying the weights that draw ahead"},
    {"async/staleness", "updates",
     "steps between the first weights that drew the oldest response and those that it trains"},
    {"fully_async/count/stale_samples_processed", "groups", "begun by an earlier step"},
    {"fully_async/partial/{total_partial_num,partial_ratio}", "responses, share", "drawn by several steps"},
    {"fully_async/partial/max_partial_span", "steps", "between the first and the last tokens of a response, at most"},
    {"timing_s/gen_max", "s", "wall time of the greedy answers (remax)"},
    {"timing_s/values", "s", "wall time of the critic's values"},
    {"timing_s/update_critic", "s", "wall time of the critic's updates"},
    {"timing_s/ref", "s", "wall time of the reference's log-probabilities"},
    {"timing_s/adv", "s", "wall time of rewards and advantages"},
    {"timing_s/update_actor", "s", "wall time of the updates"},
    {"timing_s/dump_rollout_generations", "s", "wall time of writing the responses"},
    {"timing_s/testing", "s", "wall time of the validation"},
    {"timing_s/save_checkpoint", "s", "wall time of saving"},
    {"timing_per_token_ms/gen", "ms", "1000 timing_s/gen / response tokens that the policy wrote"},
    {"timing_per_token_ms/{ref,values,adv,update_critic,update_actor}", "ms",
     "1000 timing_s/... / (prompt and response tokens)"},
    {"perf/total_num_tokens", "tokens", "prompt and response tokens of the step"},
    {"perf/time_per_step", "s", "timing_s/step"},
    {"perf/throughput", "tokens/s",
     "perf/total_num_tokens / timing_s/step, for each rank; of supervised and preference trainers / timing_s/update"},
    {"perf/pipeline_idle", "share", "of the step, in which stages of a pipeline wait for each other"},
    {"perf/cpu_memory_used_gb", "GiB", "resident memory of this process"},
    {"perf/max_memory_allocated_gb", "GiB", "the most memory of a device that a rank had in use so far"},
    {"perf/max_memory_reserved_gb", "GiB", "the same with what its allocator keeps"},
    {"val-core/<data source>/<field>/mean@<N>", "score", "mean over prompts of the mean over their N samples"},
    {"val-core/<data source>/<field>/best@<N>/{mean,std}", "score",
     "best of N samples drawn with replacement (with more than one sample)"},
    {"val-core/<data source>/<field>/maj@<N>/{mean,std}", "score",
     "value of the most frequent answer of N samples drawn with replacement, where the rule finds answers"},
    {"val-aux/<data source>/<field>/std@<N>", "score",
     "mean over prompts of the standard deviation over their N samples"},
    {"val-aux/<data source>/<field>/{best,worst}@<k>/{mean,std}", "score",
     "best or worst of k samples drawn with replacement from the N of a prompt, k = 2, 4, 8, ..., N: exact expectation "
     "and standard deviation, mean over prompts"},
    {"val-aux/<data source>/<field>/maj@<k>/{mean,std}", "score",
     "value of the most frequent answer of k samples: exact for N up to 64, else 1000 draws"},
};

/// The text of docs/metrics.md.
std::string metrics_markdown();

namespace detail {

/// Result of matching a text with a pattern; `never`: no suffix of the text matches either.
enum class covering { no, yes, never };

/// Whether `pattern` covers `text`: <this> stands for one character or more, {this,that} for one of the words. The time
/// is linear in the text for each <this>.
covering covers(std::string_view pattern, std::string_view text);

}  // namespace detail

/// The definition that covers `name`; null if there is none, as for names of more than 1000 characters.
const metric_definition* definition_of(std::string_view name);

/// True if a definition covers `name`.
inline bool is_defined_metric(std::string_view name) { return definition_of(name) != nullptr; }

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::string metrics_markdown() {
  std::string out =
      "# Metrics\n\n"
      "Generated from `include/rlcore/telemetry/metric_names.hpp`; do not edit. To renew it, run the test program of "
      "the\n"
      "trainers with `RLCORE_UPDATE_DOCS=1` set.\n\n"
      "`metrics.jsonl` has one JSON object per step. A number that is not finite is `null` there. A run that starts "
      "anew\n"
      "in the folder of an earlier one moves that one's rows to `metrics.1.jsonl`, or to the next number that is "
      "free,\n"
      "and says so. A run that goes on from an earlier step does so with the rows of later steps. Event files and\n"
      "`trainer.rollout_data_dir` of an earlier run move to `earlier.1` in their folder.\n\n"
      "The console has one line per step. `rlcore.console=verl` prints all metrics, `step:N - name:number - ...`, for\n"
      "programs that read them. `rlcore.console=short` prints a table of less than 80 columns; all metrics then go to\n"
      "`console.log` beside `metrics.jsonl`. Without the key, a terminal gets the table, and a pipe or a file all\n"
      "metrics. Under `mpirun` a program cannot tell whether it writes to a terminal: it prints all metrics unless "
      "the\n"
      "key says otherwise.\n\n"
      "| column | metric |\n|---|---|\n"
      "| reward | `critic/rewards/mean` |\n"
      "| length | `response_length/mean` |\n"
      "| loss | `actor/pg_loss`; supervised and preference trainers: `train/loss`, `train/kto_loss`, `train/prm_loss` "
      "|\n"
      "| acc | `train/acc` |\n"
      "| KL | to the reference: `actor/kl_loss`, `actor/reward_kl_penalty` or `train/kl` |\n"
      "| old KL | `actor/ppo_kl`, where there is no reference |\n"
      "| entropy, grad | `actor/entropy`; `actor/grad_norm` or `train/grad_norm` |\n"
      "| time | `timing_s/step` |\n"
      "| tok/s | `perf/total_num_tokens` / `timing_s/step`, of all ranks together |\n"
      "| left | time until the last step, from the mean time of the steps so far |\n\n"
      "The names are those of verl. `{a,b}` stands for one of the words,\n"
      "`<x>` for any.\n\n"
      "| name | unit | definition |\n|---|---|---|\n";
  for (const metric_definition& m : metric_definitions)
    out += "| `" + std::string(m.name) + "` | " + std::string(m.unit) + " | " + std::string(m.definition) + " |\n";
  return out;
}

}  // namespace train

namespace train::detail {

RLCORE_INLINE covering covers(std::string_view pattern, std::string_view text) {
  const std::size_t open = pattern.find_first_of("{<");
  if (open == pattern.npos) return pattern == text ? covering::yes : covering::no;
  if (text.substr(0, open) != pattern.substr(0, open)) return covering::no;
  const bool any = pattern[open] == '<';
  const std::size_t close = pattern.find(any ? '>' : '}', open);
  const std::string_view tail = pattern.substr(close + 1), rest = text.substr(open);
  if (any) {
    for (std::size_t n = 1; n <= rest.size(); ++n)
      if (const covering c = covers(tail, rest.substr(n)); c != covering::no) return c;
    return covering::never;  // a longer match of an earlier <this> leaves less text for this one
  }
  std::string_view words = pattern.substr(open + 1, close - open - 1);
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(','));
    if (rest.starts_with(word) && covers(tail, rest.substr(word.size())) == covering::yes) return covering::yes;
    words.remove_prefix(word.size() + (word.size() < words.size()));
  }
  return covering::no;
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE const metric_definition* definition_of(std::string_view name) {
  if (name.empty() || name.size() > 1000) return nullptr;
  for (const metric_definition& m : metric_definitions)  // each begins with a letter
    if (m.name.front() == name.front() && detail::covers(m.name, name) == detail::covering::yes) return &m;
  return nullptr;
}

}  // namespace train
RLCORE_END
#endif
