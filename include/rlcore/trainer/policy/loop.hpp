// The policy-gradient loop (verl's main_ppo): rollout, reward, advantage, update, validation, checkpoints.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/objective/controller/adaptive_kl.hpp"
#include "rlcore/telemetry/logger.hpp"
#include "rlcore/telemetry/process_memory.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/trainer/policy/collect.hpp"
#include "rlcore/trainer/policy/dynamic_sampling.hpp"
#include "rlcore/trainer/policy/rollout_worker.hpp"
#include "rlcore/trainer/policy/run.hpp"
#include "rlcore/trainer/policy/state.hpp"
#include "rlcore/trainer/policy/step_metrics.hpp"
#include "rlcore/trainer/policy/trajectory/rollout_log.hpp"
#include "rlcore/trainer/policy/update.hpp"

RLCORE_BEGIN
namespace trainer {

/// One run from its first step, or the one after resume(), to its last.
template <class Device, policy_algorithm Algorithm = verl_algorithm>
class policy_loop {
 public:
  /// What `run` refers to, `log` and `bar` have to outlive the loop.
  policy_loop(policy_run<Device, Algorithm> run, logger& log, progress& bar)
      : run_(std::move(run)), rounds_(run_, bar), log_(log), bar_(bar) {
    state_.seed = run_.settings.seed;
    if (run_.settings.reward_kl.enabled) state_.reward_kl_coefficient = run_.settings.reward_kl.coefficient;
  }

  /// Continues after the state that load_state() returned. The command line gives a fixed coefficient of the KL in the
  /// reward; an adaptive one continues from its saved value.
  void resume(const run_state& state) {
    const double configured = state_.reward_kl_coefficient;
    state_ = state;
    if (!run_.settings.reward_kl.adaptive || !(state.reward_kl_coefficient > 0))
      state_.reward_kl_coefficient = configured;
  }

  /// Why the run ended before its last step; empty if it did not.
  const std::string& stopped() const noexcept { return stopped_; }

  /// Runs to the last step; returns the last validation reward, if there was a validation. Dynamic sampling may stop it
  /// earlier: then the last complete step is saved, and to go on from it gives the bits of a run that never stopped.
  std::optional<double> run() {
    const policy_settings& s = run_.settings;
    std::optional<double> last_validation;
    // A run that continues has validated where it stopped, if it was to.
    if (run_.val != nullptr && s.val_before_train && (state_.step == 0 || s.val_only)) {
      metrics m;
      stages time;
      last_validation = rounds_.validation(state_.step, m, time);
      log_.write(state_.step, m);
      if (s.val_only) return last_validation;
    }
    bar_.start(state_.step, run_.plan.total_steps);
    while (state_.step < run_.plan.total_steps) {
      const run_state before = state_;
      ++state_.step;
      metrics m;
      stages time;
      time("step", [&] { step(m, time, last_validation); });
      if (!stopped_.empty()) {
        state_ = before;
        save_if_missing();
        break;
      }
      timing_metrics(batch_, time, m, run_.ranks == nullptr ? 1 : run_.ranks->all().size());
      m.set("perf/cpu_memory_used_gb", resident_memory_gib());
      count(m);
      log_.write(state_.step, m);
      bar_.step_done(state_.step);
    }
    bar_.finish();
    return last_validation;
  }

 private:
  random_key key(stream purpose) const { return key_of(run_.settings, purpose, state_.step); }
  bool first() const { return run_.ranks == nullptr || run_.ranks->first(); }
  bool due(std::int64_t every) const {
    return every > 0 && (state_.step % every == 0 || state_.step == run_.plan.total_steps || data_used_up());
  }

  /// Fills batch_ with what the step trains on. With dynamic sampling it may set stopped_ instead.
  void collect(metrics& m, stages& time) {
    const policy_settings& s = run_.settings;
    const dynamic_sampling_settings& filter = s.dynamic_sampling;
    m.set("timing_s/old_log_prob", 0.0);
    group_counts seen;
    if (run_.stored != nullptr) {
      // What dynamic sampling had dropped is not stored; what it had kept for later waits here as it did then.
      for (trajectory& t : rounds_.sample_round(state_.step, ++state_.rounds, time))
        state_.surplus.push_back(std::move(t));
      if (std::ssize(state_.surplus) < run_.plan.trajectories_per_step)
        throw data_error(s.replay + ": step " + std::to_string(state_.step) +
                         " trains on responses that an earlier step sampled; replay from that step on");
      batch_ = take_first(state_.surplus, run_.plan.trajectories_per_step);
      seen = count_groups(batch_, s.samples);
    } else if (!filter.enabled) {
      batch_ = rounds_.sample_round(state_.step, ++state_.rounds, time);
      seen = count_groups(batch_, s.samples);
    } else {
      const std::int64_t first_round = state_.rounds;
      std::vector<trajectory>& ready = state_.surplus;
      while (std::ssize(ready) < run_.plan.trajectories_per_step) {
        stopped_ = why_to_stop(state_.rounds - first_round, std::ssize(ready) / s.samples, seen);
        if (!stopped_.empty()) return;
        std::vector<trajectory> round = rounds_.sample_round(state_.step, ++state_.rounds, time);
        if (filter.metric == group_metric::seq_final_reward && s.reward_kl.enabled) {
          rounds_.score_reference(round, time);
          penalise_rewards(round, {s.reward_kl.kind, state_.reward_kl_coefficient});
        }
        seen += keep_differing_groups(std::move(round), s.samples, filter.metric, ready);
      }
      batch_ = take_first(ready, run_.plan.trajectories_per_step);
      if (!filter.keep_surplus) ready.clear();
      m.set("train/num_gen_batches", state_.rounds - first_round);
      m.set("train/surplus_groups", std::ssize(ready) / s.samples);
      m.set("train/earlier_groups", std::count_if(batch_.begin(), batch_.end(), [&](const trajectory& t) {
                                      return t.sampled_step < state_.step;
                                    }) / s.samples);
    }
    rounds_.report_rewards(m);
    if (s.samples > 1) seen.write(m);
    if (s.recompute_old_log_prob || run_.stored != nullptr) compare_rollout(batch_, m);
  }

  bool data_used_up() const {
    return run_.plan.total_rounds > 0 && state_.rounds >= run_.plan.total_rounds &&
           std::ssize(state_.surplus) < run_.plan.trajectories_per_step;
  }

  /// Before another round of a step: the reason not to, or nothing.
  std::string why_to_stop(std::int64_t rounds, std::int64_t ready, const group_counts& seen) const {
    const std::string why = data_used_up() ? "the data are used up (trainer.total_epochs)"
                                           : limit_of_rounds(run_.settings.dynamic_sampling, run_.plan, rounds, ready);
    if (why.empty()) return why;
    return "before step " + std::to_string(state_.step) + ": " + why + "; it found " + std::to_string(ready) + " of " +
           std::to_string(run_.plan.prompts_per_step) + " groups whose answers differ (" +
           std::to_string(seen.all_right) + " all right, " + std::to_string(seen.all_wrong) + " all wrong)";
  }

  void save_if_missing() {
    const policy_settings& s = run_.settings;
    if (state_.step == 0) return;
    const bool there = std::filesystem::exists(checkpoint::step_folder(s.root, state_.step));
    if (run_.ranks != nullptr ? from_first(*run_.ranks, there) : there) return;
    save();
  }

  void save() {
    const policy_settings& s = run_.settings;
    save_state(s.root, run_.policy, run_.value_model, run_.model_folder, state_, s.keep, run_.ranks);
  }

  /// The step's trajectories with everything that advantages and losses read.
  void forward_work(metrics& m, stages& time) {
    collect(m, time);
    if (!stopped_.empty()) return;
    if (inputs_.greedy_scores) rounds_.score_greedy_answers(batch_, state_.step, time);
    if (inputs_.sum_squared_probs) rounds_.score_squared_probs(batch_, time);
    rounds_.score_reference(batch_, time);
    rounds_.score_values(batch_, time);
  }

  void step(metrics& m, stages& time, std::optional<double>& last_validation) {
    const policy_settings& s = run_.settings;
    forward_work(m, time);
    if (!stopped_.empty()) return;
    time("adv", [&] {
      if (s.reward_kl.enabled) penalise(m);
      run_.algorithm.advantages(batch_, s.samples, key(stream::selection));
    });
    if (run_.value_model != nullptr) time("update_critic", [&] { update_critic(m); });
    m.set("actor/entropy", rollout_entropy(batch_, run_.algorithm));
    if (s.critic_warmup <= state_.step) time("update_actor", [&] { update(m); });
    if (!s.rollout_dir.empty() && first())
      time("dump_rollout_generations", [&] {
        write_rollouts(s.rollout_dir, state_.step, batch_, run_.train, run_.tokenizer, s.reward.log_overlong);
      });
    batch_metrics(batch_, s.max_prompt_length, s.max_response_length, m);
    if (run_.val != nullptr && due(s.test_freq)) last_validation = rounds_.validation(state_.step, m, time);
    if (due(s.save_freq)) {
      metrics so_far = m;
      count(so_far);
      log_.announce(state_.step, so_far);
      time("save_checkpoint", [&] {
        bar_.phase("checkpoint", 0, 0);
        save();
      });
    }
  }

  void count(metrics& m) const {
    m.set("training/global_step", state_.step);
    m.set("training/epoch", (state_.rounds - 1) / run_.plan.steps_per_epoch);
  }

  void penalise(metrics& m) {
    const reward_kl_settings& k = run_.settings.reward_kl;
    double& coefficient = state_.reward_kl_coefficient;
    const double kl = penalise_rewards(batch_, {k.kind, coefficient});
    m.set("actor/reward_kl_penalty", kl);
    m.set("actor/reward_kl_penalty_coeff", coefficient);
    if (k.adaptive)
      coefficient = adaptive_kl{coefficient, k.target, k.horizon}.updated(kl, std::ssize(batch_)).coefficient;
  }

  /// The learning rates of the updates of this step: one for all, or one for each (rlcore.lr_per_update).
  std::vector<double> rates(double highest, const optim::schedule& schedule, std::int64_t updates) const {
    if (!run_.settings.lr_per_update) return {highest * schedule.factor(state_.step - 1)};
    std::vector<double> per_update;
    for (std::int64_t u = 0; u < updates; ++u)
      per_update.push_back(highest * schedule.factor((state_.step - 1) * updates + u));
    return per_update;
  }

  void update_critic(metrics& m) {
    critic<Device>& c = *run_.value_model;
    bar_.phase("update of the critic", 0, 0);
    for (trajectory& t : batch_)  // an estimator of one advantage per response: the critic learns that
      if (t.token_return.empty()) t.token_return.assign(static_cast<std::size_t>(t.response_length()), t.advantage);
    c.update(batch_, rates(c.settings.lr, c.settings.schedule, c.settings.updates(std::ssize(batch_))),
             key(stream::critic_mini_batches), m);
  }

  void update(metrics& m) {
    const policy_settings& s = run_.settings;
    bar_.phase("update", 0, 0);
    const update_plan plan{.mini_trajectories = run_.plan.trajectories_per_update,
                           .micro_trajectories = run_.plan.micro_batch_trajectories,
                           .micro_tokens = run_.plan.micro_batch_tokens,
                           .epochs = s.epochs_per_step,
                           .shuffle = s.shuffle_mini_batches,
                           .temperature = s.sampling.temperature,
                           .lr = rates(s.lr, s.schedule, run_.plan.updates_per_step),
                           .grad_clip = s.grad_clip};
    state_.skipped_updates += update_actor(run_.policy, run_.algorithm, batch_, plan, key(stream::mini_batches), m);
    state_.optimizer_steps = run_.policy.optimizer().steps();
  }

  policy_run<Device, Algorithm> run_;
  rollout_worker<Device, Algorithm> rounds_;
  logger& log_;
  progress& bar_;
  const advantage_inputs inputs_ = inputs_of(run_.algorithm);
  run_state state_;
  std::vector<trajectory> batch_;
  std::string stopped_;  ///< why there is no further step
};

}  // namespace trainer
RLCORE_END
