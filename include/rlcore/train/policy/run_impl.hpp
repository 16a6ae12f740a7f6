// Implementation of the policy run: state between steps, and the parts of a step.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/telemetry/logger.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/telemetry/stages.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/collect.hpp"
#include "rlcore/train/policy/dynamic_sampling.hpp"
#include "rlcore/train/policy/final_report.hpp"
#include "rlcore/train/policy/rollout_worker.hpp"
#include "rlcore/train/policy/run.hpp"
#include "rlcore/train/policy/state.hpp"
#include "rlcore/train/policy/step_metrics.hpp"
#include "rlcore/train/policy/trajectory/replay.hpp"
#include "rlcore/train/policy/trajectory/rollout_log.hpp"
#include "rlcore/train/policy/update.hpp"
#include "rlcore/train/files/export_model.hpp"
#include "rlcore/train/files/run_settings.hpp"
#include "rlcore/train/run/interrupt.hpp"
#include "rlcore/train/run/open_log.hpp"

RLCORE_BEGIN
namespace train {

/// The policy_run of a device.
template <class Device>
class policy_run_impl final : public policy_run {
 public:
  /// As open_policy_run().
  policy_run_impl(const options& opt, policy_inputs& in, policy_models<Device>& models, const team& ranks);

  const policy_settings& settings() const noexcept override { return in_.settings; }
  std::int64_t step() const noexcept override { return state_.step; }
  random_key key(stream purpose) const override { return key_of(settings().seed, purpose, state_.step); }
  const std::string& stopped() const noexcept override { return stopped_; }
  std::optional<double> validated() const noexcept override { return validated_; }

  bool next_step() override;
  bool needs_groups() override;
  std::vector<trajectory> sample_round() override;
  void keep_differing_groups(std::vector<trajectory> round) override;
  bool take_groups() override;
  void provide(advantage_input inputs) override;
  void penalise_rewards() override;
  void advantages(const any_algorithm& algorithm) override;
  void update_critic() override;
  void update_actor(const any_algorithm& algorithm) override;
  void finish_step() override;
  void finish() override;

 private:
  static constexpr const char* report_name = "report.html";

  /// Writes the report of the steps so far, for monitoring long runs.
  void write_current_report() {
    reported_ = std::chrono::steady_clock::now();
    if (!settings().report || !ranks_.first()) return;
    write_report(std::filesystem::path(settings().root) / report_name,
                 describe_run(opt_, in_.plan, models_.device_description, models_.description), log_->rows());
  }

  /// Saves the last complete step and prints how to resume. Returns false.
  bool stop_for_signal() {
    stopped_ = std::string(name_of_stop()) + " after step " + std::to_string(state_.step);
    if (state_.step > 0)
      stopped_ += "; " + resuming_text(opt_, settings().resume_mode == "disable") + " to go on to the same bits";
    save_if_missing();
    return false;
  }

  bool due(std::int64_t every) const {
    return every > 0 && (state_.step % every == 0 || state_.step == in_.plan.total_steps || data_used_up());
  }

  /// Whether the step is to be saved: with a folder for the trained model, the last one whatever trainer.save_freq is.
  bool saves() const {
    return due(settings().save_freq) || (!settings().export_path.empty() && due(in_.plan.total_steps));
  }

  /// Where the run starts. The command line gives a fixed coefficient of the KL in the reward; an adaptive one
  /// continues from its saved value.
  void resume() {
    const reward_kl_settings& kl = settings().reward_kl;
    const double configured = kl.enabled ? kl.coefficient : 0;
    if (from_) {
      state_ = load_state(from_.folder, models_.policy, critic_or_null(), settings().seed);
      say("%s", resumed_text(opt_, state_.step, in_.plan.total_steps, from_.folder.string()).c_str());
      if (!models_.policy.notice().empty()) say("note: %s\n", models_.policy.notice().c_str());
      check_surplus(state_.surplus, in_.train, from_.folder);
    }
    state_.seed = settings().seed;
    if (!from_ || !kl.adaptive || !(state_.reward_kl_coefficient > 0)) state_.reward_kl_coefficient = configured;
  }
  critic<Device>* critic_or_null() { return models_.value_model ? &*models_.value_model : nullptr; }

  /// The groups of the step that are ready: of dynamic sampling and of a replay they may wait for the next step.
  std::vector<trajectory>& ready() { return stored_ || settings().dynamic_sampling.enabled ? state_.surplus : round_; }
  bool enough() { return std::ssize(ready()) >= in_.plan.trajectories_per_step; }

  bool data_used_up() const {
    return in_.plan.total_rounds > 0 && state_.rounds >= in_.plan.total_rounds &&
           std::ssize(state_.surplus) < in_.plan.trajectories_per_step;
  }

  /// Before another round of a step: the reason not to, or nothing.
  std::string why_to_stop(std::int64_t rounds, std::int64_t ready, const group_counts& seen) const {
    const std::string why = data_used_up() ? "the data are used up (trainer.total_epochs)"
                                           : limit_of_rounds(settings().dynamic_sampling, in_.plan, rounds, ready);
    if (why.empty()) return why;
    return "before step " + std::to_string(state_.step) + ": " + why + "; it found " + std::to_string(ready) + " of " +
           std::to_string(in_.plan.prompts_per_step) + " groups whose answers differ (" +
           std::to_string(seen.all_right) + " all right, " + std::to_string(seen.all_wrong) + " all wrong)";
  }

  void save_if_missing() {
    if (state_.step == 0) return;
    const bool there = std::filesystem::exists(checkpoint::step_folder(settings().root, state_.step));
    if (!from_first(ranks_.world(), there)) save();
  }
  void save() {
    save_state(settings().root, models_.policy, critic_or_null(), in_.model_folder, state_, settings().keep,
               &ranks_.world());
  }

  void count(metrics& m) const {
    m.set("training/global_step", state_.step);
    m.set("training/epoch", (state_.rounds - 1) / in_.plan.steps_per_epoch);
  }

  const options& opt_;
  policy_inputs& in_;
  policy_models<Device>& models_;
  const team& ranks_;
  checkpoint::folder_lock lock_;
  checkpoint::resume_point from_;
  std::unique_ptr<replay> stored_;
  std::optional<logger> log_;
  progress bar_;
  rollout_worker<Device> worker_;
  run_state state_, before_;       ///< now, and before the step
  std::vector<trajectory> round_;  ///< without dynamic sampling: the groups of the step
  group_counts seen_;              ///< of the step
  bool interrupted_ = false;       ///< a signal ended sampling
  std::string stopped_;            ///< reason for stopping
  std::optional<double> validated_;
  signal_watch watch_;
  std::chrono::steady_clock::time_point begin_, reported_;
  bool started_ = false;
  stop_signals signals_;
};

template <class Device>
policy_run_impl<Device>::policy_run_impl(const options& opt, policy_inputs& in, policy_models<Device>& models,
                                         const team& ranks)
    : opt_(opt),
      in_(in),
      models_(models),
      ranks_(ranks),
      lock_(lock_run(in.settings.root, opt, ranks.first())),
      from_(checkpoint::find_resume(in.settings.resume_mode, checkpoint::expand_home(in.settings.resume_path).string(),
                                    in.settings.root)),
      stored_(open_replay(in, (from_ ? from_.step : 0) + 1)),
      bar_(stderr, ranks.first() && isatty(fileno(stderr)) != 0),
      worker_(in, models, ranks, bar_, stored_.get()) {
  ranks.agree(from_.step, "checkpoint", in.settings.root);
  if (from_) check_run_settings(in.settings.root, opt, data_text(in.train));
  if (!from_.notice.empty()) say("note: %s\n", from_.notice.c_str());
  models.load(in, static_cast<bool>(from_));
  resume();
  const policy_settings& s = in.settings;
  open_log(log_, opt, {s.loggers, s.events_dir, s.console}, s.root, from_ ? from_.step : -1, ranks.first());
  if (ranks.first() && !s.rollout_dir.empty() && !s.val_only)
    if (const auto earlier = set_aside_rollouts(s.rollout_dir, from_ ? from_.step : 0); !earlier.empty())
      say("note: responses of an earlier run are in %s now\n", earlier.c_str());
  if (!from_ && ranks.first()) write_run_settings(s.root, opt, data_text(in.train));
}

template <class Device>
bool policy_run_impl<Device>::next_step() {
  const policy_settings& s = settings();
  if (!started_) {
    if (!from_ && ranks_.first()) std::filesystem::remove(sample_answers_path(s.root));  // of an earlier run
    // A resumed run has already validated at its checkpoint.
    if (in_.has_validation() && s.val_before_train && (state_.step == 0 || s.val_only)) {
      validated_ = worker_.validation(state_.step, numbers, time);
      log_->write(state_.step, numbers);
    }
    bar_.start(state_.step, in_.plan.total_steps);
    started_ = true;
  }
  if (s.val_only || !stopped_.empty() || state_.step >= in_.plan.total_steps) return false;
  if (ranks_.least(asked_to_stop() == 0) == 0) return stop_for_signal();
  before_ = state_;
  ++state_.step;
  numbers = {}, time = {}, seen_ = {};
  round_.clear();
  begin_ = std::chrono::steady_clock::now();
  return true;
}

template <class Device>
bool policy_run_impl<Device>::needs_groups() {
  const std::int64_t rounds = state_.rounds - before_.rounds;
  if (interrupted_ || !stopped_.empty()) return false;
  if (stored_ || !settings().dynamic_sampling.enabled) return rounds == 0;
  if (enough()) return false;
  stopped_ = why_to_stop(rounds, std::ssize(ready()) / settings().samples, seen_);
  return stopped_.empty();
}

template <class Device>
std::vector<trajectory> policy_run_impl<Device>::sample_round() {
  try {
    return worker_.sample_round(state_.step, ++state_.rounds, time);
  } catch (const sampling_interrupted&) {  // of one rank: several end the step together
    interrupted_ = true;
    return {};
  }
}

template <class Device>
void policy_run_impl<Device>::keep_differing_groups(std::vector<trajectory> round) {
  const policy_settings& s = settings();
  if (interrupted_) return;
  if (stored_ || !s.dynamic_sampling.enabled) {  // a replay has stored no group that was dropped
    ready().insert(ready().end(), std::make_move_iterator(round.begin()), std::make_move_iterator(round.end()));
    return;
  }
  if (s.dynamic_sampling.metric == group_metric::seq_final_reward && s.reward_kl.enabled) {
    worker_.score_reference(round, time);
    train::penalise_rewards(round, {s.reward_kl.kind, state_.reward_kl_coefficient});
  }
  seen_ += train::keep_differing_groups(std::move(round), s.samples, s.dynamic_sampling.metric, ready());
}

template <class Device>
bool policy_run_impl<Device>::take_groups() {
  const policy_settings& s = settings();
  if (interrupted_ || !stopped_.empty()) {
    state_ = before_;
    if (interrupted_) return stop_for_signal();
    save_if_missing();
    return false;
  }
  if (!enough())
    throw data_error(s.replay + ": step " + std::to_string(state_.step) +
                     " trains on responses that an earlier step sampled; replay from that step on");
  batch = take_first(ready(), in_.plan.trajectories_per_step);
  numbers.set("timing_s/old_log_prob", 0.0);
  if (s.dynamic_sampling.enabled && !stored_) {
    if (!s.dynamic_sampling.keep_surplus) ready().clear();
    numbers.set("train/num_gen_batches", state_.rounds - before_.rounds);
    numbers.set("train/surplus_groups", std::ssize(ready()) / s.samples);
    numbers.set("train/earlier_groups", std::count_if(batch.begin(), batch.end(), [&](const trajectory& t) {
                                          return t.sampled_step < state_.step;
                                        }) / s.samples);
  } else {
    seen_ = count_groups(batch, s.samples);
  }
  worker_.report_rewards(numbers);
  if (s.samples > 1) seen_.write(numbers);
  if (s.recompute_old_log_prob || stored_) compare_rollout(batch, numbers);
  return true;
}

template <class Device>
void policy_run_impl<Device>::provide(advantage_input inputs) {
  worker_.provide(inputs, batch, state_.step, time);
}

template <class Device>
void policy_run_impl<Device>::penalise_rewards() {
  const reward_kl_settings& kl = settings().reward_kl;
  if (kl.enabled) time("adv", [&] { subtract_kl_from_rewards(batch, kl, state_.reward_kl_coefficient, numbers); });
}

template <class Device>
void policy_run_impl<Device>::advantages(const any_algorithm& algorithm) {
  time("adv", [&] { algorithm.advantages(batch, settings().samples, key(stream::selection)); });
}

template <class Device>
void policy_run_impl<Device>::update_critic() {
  if (!models_.value_model) return;
  time("update_critic", [&] {
    critic<Device>& c = *models_.value_model;
    bar_.phase("update of the critic", 0, 0);
    for (trajectory& t : batch)  // an estimator of one advantage per response: the critic learns that
      if (t.token_return.empty()) t.token_return.assign(static_cast<std::size_t>(t.response_length()), t.advantage);
    c.update(batch,
             update_rates(c.settings.lr, c.settings.schedule, state_.step, c.settings.updates(std::ssize(batch)),
                          settings().lr_per_update),
             key(stream::critic_mini_batches), numbers);
  });
}

template <class Device>
void policy_run_impl<Device>::update_actor(const any_algorithm& algorithm) {
  const policy_settings& s = settings();
  numbers.set("actor/entropy", rollout_entropy(batch, s.entropy_mean));
  if (state_.step < s.critic_warmup) return;
  time("update_actor", [&] {
    bar_.phase("update", 0, 0);
    const update_plan plan{
        .mini_trajectories = in_.plan.trajectories_per_update,
        .micro_trajectories = in_.plan.micro_batch_trajectories,
        .micro_tokens = in_.plan.micro_batch_tokens,
        .epochs = s.epochs_per_step,
        .shuffle = s.shuffle_mini_batches,
        .temperature = s.sampling.temperature,
        .lr = update_rates(s.lr, s.schedule, state_.step, in_.plan.updates_per_step, s.lr_per_update),
        .grad_clip = s.grad_clip};
    state_.skipped_updates +=
        train::update_actor(models_.policy, algorithm, batch, plan, key(stream::mini_batches), numbers);
    state_.optimizer_steps = models_.policy.optimizer().steps();
  });
}

template <class Device>
void policy_run_impl<Device>::finish_step() {
  const policy_settings& s = settings();
  if (!s.rollout_dir.empty() && ranks_.first())
    time("dump_rollout_generations",
         [&] { write_rollouts(s.rollout_dir, state_.step, batch, in_.train, in_.tokenizer, s.reward.log_overlong); });
  batch_metrics(batch, s.max_prompt_length, s.max_response_length, numbers);
  if (in_.has_validation() && due(s.test_freq)) validated_ = worker_.validation(state_.step, numbers, time);
  if (saves()) {
    metrics so_far = numbers;
    count(so_far);
    log_->announce(state_.step, so_far);
    time("save_checkpoint", [&] {
      bar_.phase("checkpoint", 0, 0);
      save();
    });
  }
  time.add("step", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
  timing_metrics(batch, time, numbers, ranks_.size());
  numbers.set("perf/cpu_memory_used_gb", resident_memory_gib());
  count(numbers);
  bar_.step_done(state_.step);
  log_->write(state_.step, numbers, bar_.pace());
  if (const std::string why = watch_(batch, numbers, s); !why.empty()) say("note: %s\n", why.c_str());
  if (saves() || std::chrono::steady_clock::now() - reported_ > std::chrono::minutes(1)) write_current_report();
}

template <class Device>
void policy_run_impl<Device>::finish() {
  bar_.finish();
  if (!stopped_.empty()) say("stopped     %s\n", stopped_.c_str());
  if (!ranks_.first()) return;
  const std::filesystem::path root = settings().root;
  write_current_report();
  if (settings().report) say("report      %s\n", (root / report_name).c_str());
  say("metrics     %s\n", log_->path().c_str());
  print_validation(log_->rows());
  const auto last = checkpoint::read_tracker(root);
  if (!last) return;
  say("checkpoint  %s\n", (checkpoint::step_folder(root, *last) / "actor" / "huggingface").c_str());
  if (!settings().export_path.empty() && (asked_to_stop() == 0 || stopped_.empty()))
    export_model(checkpoint::step_folder(root, *last) / "actor", checkpoint::expand_home(settings().export_path));
}

template <class Device>
std::unique_ptr<policy_run> open_policy_run(const options& opt, policy_inputs& in, policy_models<Device>& models,
                                            const team& ranks) {
  return std::make_unique<policy_run_impl<Device>>(opt, in, models, ranks);
}

}  // namespace train
RLCORE_END
