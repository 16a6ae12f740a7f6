// Implementation of the policy run: state between steps, and the parts of a step.
#pragma once

#include <algorithm>
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

#include "rlcore/train/files/export_model.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/asynchronous.hpp"
#include "rlcore/train/policy/collect.hpp"
#include "rlcore/train/policy/dynamic_sampling.hpp"
#include "rlcore/train/policy/final_report.hpp"
#include "rlcore/train/policy/run.hpp"
#include "rlcore/train/policy/sampler.hpp"
#include "rlcore/train/policy/scorer.hpp"
#include "rlcore/train/policy/state.hpp"
#include "rlcore/train/policy/step_metrics.hpp"
#include "rlcore/train/policy/trajectory/replay.hpp"
#include "rlcore/train/policy/update.hpp"
#include "rlcore/train/run/frame.hpp"

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
  const std::string& stopped() const noexcept override { return frame_.stopped(); }
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
    if (frame_.from()) {
      state_ = load_state(frame_.from().folder, models_.policy, critic_or_null(), settings().seed);
      frame_.say_resumed(state_.step, in_.plan.total_steps, state_.notice);
      if (stored_) drop_asynchronous(state_);  // a replay has its own
      check_kept_groups(state_, settings(), frame_.from().folder);
      for (const std::vector<trajectory>* rows : {&state_.surplus, &state_.open})
        check_surplus(*rows, in_.train, frame_.from().folder, !settings().tools.agent_file.empty());
      if (!asynchronous() || state_.prompts == 0)  // the latter: of a synchronous run
        state_.prompts = asynchronous() ? state_.rounds * in_.plan.prompts_per_round : 0;
    }
    state_.seed = settings().seed;
    if (!frame_.from() || !kl.adaptive || !(state_.reward_kl_coefficient > 0))
      state_.reward_kl_coefficient = configured;
  }
  critic<Device>* critic_or_null() { return models_.value_model ? &*models_.value_model : nullptr; }

  /// The groups of the step that are ready; some may wait for the next step.
  std::vector<trajectory>& ready() {
    return stored_ || settings().dynamic_sampling.enabled || asynchronous() ? state_.surplus : round_;
  }
  bool enough() { return std::ssize(ready()) >= in_.plan.trajectories_per_step; }

  /// Whether async_training.* decides what is sampled.
  bool asynchronous() const { return settings().async.enabled && !stored_; }
  /// Whether nothing is left to sample.
  bool sampled_all() const {
    if (asynchronous()) return state_.open.empty() && schedule_.left(state_.prompts) == 0;
    return in_.plan.total_rounds > 0 && state_.rounds >= in_.plan.total_rounds;
  }
  bool data_used_up() const {
    return in_.plan.total_rounds > 0 && sampled_all() && std::ssize(state_.surplus) < in_.plan.trajectories_per_step;
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

  /// More responses of the step, with their scores.
  std::vector<trajectory> next_round() {
    if (asynchronous()) return complete_groups(sampler_, schedule_, state_, time);
    ++state_.rounds;
    return !stored_ && settings().samples_ahead ? round_ahead(sampler_, state_, in_.plan, numbers, time)
                                                : sampler_.sample_round(state_.step, state_.rounds, time);
  }
  /// Sampling has recorded the old log-probs with the same kernels and bits: a second pass runs only on request.
  void score_old(std::vector<trajectory>& rows) {
    if (!models_.recompute_old_log_prob && !stored_) return;
    if (!stored_)
      for (trajectory& t : rows) t.rollout_logp = t.old_logp;
    scorer_.score_old(rows, stored_ != nullptr, time);
  }

  void save() {
    if (sampler_.has_ahead()) state_.surplus = sampler_.take_ahead(time);
    save_state(settings().root, models_.policy, critic_or_null(), in_.model, state_, settings().keep, &ranks_.world());
  }

  double validation() {
    return from_finite_logits(state_.step, updated_, [&] { return sampler_.validation(state_.step, numbers, time); });
  }

  std::int64_t epoch() const { return (state_.rounds - 1) / in_.plan.steps_per_epoch; }

  policy_inputs& in_;
  policy_models<Device>& models_;
  const team& ranks_;
  run_frame frame_;
  std::unique_ptr<replay> stored_;
  response_sampler<Device> sampler_;
  response_scorer<Device> scorer_;
  async_schedule schedule_;
  run_state state_, before_;            ///< now, and before the step
  std::vector<trajectory> round_;       ///< without dynamic sampling: the groups of the step
  group_counts seen_;                   ///< of the step
  bool interrupted_ = false;            ///< a signal ended sampling
  std::optional<done_update> updated_;  ///< by this process
  std::optional<double> validated_;
  signal_watch watch_;
  pipeline_idle idle_;
};

template <class Device>
policy_run_impl<Device>::policy_run_impl(const options& opt, policy_inputs& in, policy_models<Device>& models,
                                         const team& ranks)
    : in_(in),
      models_(models),
      ranks_(ranks),
      frame_(opt,
             {in.settings.root,
              in.settings.resume_mode,
              in.settings.resume_path,
              {in.settings.loggers, in.settings.events_dir, in.settings.console},
              in.settings.report},
             ranks, numbers, time),
      stored_(open_replay(in, frame_.resume(data_text(in.train)).step + 1, ranks.size() == 1)),
      sampler_(in, models, ranks, frame_.bar, stored_.get()),
      scorer_(in, models, ranks, frame_.bar),
      schedule_(in.settings.async, in.plan) {
  const policy_settings& s = in.settings;
  describe_run(opt, in.plan, models.device_description, models.description, frame_.info);
  models.load(in, static_cast<bool>(frame_.from()));
  resume();
  frame_.open([&models] { return most_memory_of(models.policy.model.device()); });
  if (ranks.first() && !s.rollout_dir.empty() && !s.val_only)
    if (const auto earlier = set_aside_rollouts(s.rollout_dir, frame_.from().step); !earlier.empty())
      say("note: responses of an earlier run are in %s now\n", earlier.c_str());
}

template <class Device>
bool policy_run_impl<Device>::next_step() {
  const policy_settings& s = settings();
  if (!frame_.begun()) {
    if (!frame_.from() && ranks_.first()) std::filesystem::remove(sample_answers_path(s.root));  // of an earlier run
    // A resumed run has already validated at its checkpoint.
    if (in_.has_validation() && s.val_before_train && (state_.step == 0 || s.val_only)) {
      validated_ = validation();
      frame_.log().write(state_.step, numbers);
    }
  }
  before_ = state_;
  const std::int64_t last = s.val_only ? state_.step : in_.plan.total_steps;
  if (!frame_.next(state_.step, last, [&] { save(); })) return false;
  seen_ = {};
  round_.clear();
  return true;
}

template <class Device>
bool policy_run_impl<Device>::needs_groups() {
  const std::int64_t rounds = state_.rounds - before_.rounds;
  if (interrupted_ || !stopped().empty()) return false;
  const std::int64_t groups = std::ssize(ready()) / settings().samples;
  const bool filters = settings().dynamic_sampling.enabled && !stored_;
  if (!asynchronous() && !filters) return rounds == 0;
  if (asynchronous() ? groups >= schedule_.wanted(state_.step) : enough()) return false;
  const std::string why = filters ? why_to_stop(rounds, groups, seen_) : "";
  if (enough()) return !sampled_all() && why.empty();  // for the steps until the next copy of the weights
  frame_.stop(why);
  return why.empty();
}

template <class Device>
std::vector<trajectory> policy_run_impl<Device>::sample_round() {
  try {
    std::vector<trajectory> round = from_finite_logits(state_.step, updated_, [&] { return next_round(); });
    if (!asynchronous()) score_old(round);
    return round;
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
    scorer_.score_reference(round, time);
    train::penalise_rewards(round, {s.reward_kl.kind, state_.reward_kl_coefficient});
  }
  seen_ += train::keep_differing_groups(std::move(round), s.samples, s.dynamic_sampling.metric, ready());
}

template <class Device>
bool policy_run_impl<Device>::take_groups() {
  const policy_settings& s = settings();
  if (interrupted_ || !stopped().empty()) {
    state_ = before_;
    if (interrupted_)
      frame_.stop_for_signal(state_.step, [&] { save(); });
    else
      frame_.save_if_missing(state_.step, [&] { save(); });
    return false;
  }
  if (!enough())
    throw data_error(s.replay + ": step " + std::to_string(state_.step) +
                     " trains on responses that an earlier step sampled; replay from that step on");
  if (asynchronous()) std::ranges::stable_sort(ready(), {}, &trajectory::sampled_step);
  batch = take_first(ready(), in_.plan.trajectories_per_step);
  numbers.set("timing_s/old_log_prob", 0.0);
  if (asynchronous()) {
    std::ranges::stable_sort(batch, {}, &trajectory::position);
    report_staleness(batch, s.samples, state_.step, numbers);
    score_old(batch);  // those of the weights that this step begins with
  }
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
  sampler_.report_rewards(numbers);
  if (s.samples > 1) seen_.write(numbers);
  if (models_.recompute_old_log_prob || stored_) compare_rollout(batch, numbers);
  if (stored_ && s.recorded_old_log_prob)
    for (trajectory& t : batch) t.old_logp = t.rollout_logp;
  set_rollout_weights(batch, s.rollout_weighting, numbers);
  reject_tokens(batch, s.rollout_rejection, numbers);
  if (stored_ && stored_->waits())
    numbers.set("async/staleness", state_.step - std::ranges::min(batch, {}, &trajectory::sampled_step).sampled_step);
  return true;
}

template <class Device>
void policy_run_impl<Device>::provide(advantage_input inputs) {
  if (contains(inputs, advantage_input::greedy_scores))
    from_finite_logits(state_.step, updated_, [&] { sampler_.score_greedy_answers(batch, state_.step, time); });
  if (contains(inputs, advantage_input::sum_squared_probs)) scorer_.score_squared_probs(batch, time);
  sampler_.pause();
  scorer_.score_reference(batch, time);
  sampler_.pause();
  scorer_.score_values(batch, time);
  sampler_.pause();
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
    frame_.bar.phase("update of the critic", 0, 0);
    for (trajectory& t : batch)  // an estimator of one advantage per response: the critic learns that
      if (t.token_return.empty()) t.token_return.assign(static_cast<std::size_t>(t.policy_length()), t.advantage);
    c.update(batch,
             update_rates(c.settings.lr, c.settings.schedule, state_.step, c.settings.updates(std::ssize(batch)),
                          settings().lr_per_update),
             key(stream::critic_mini_batches), numbers);
    c.release_gradients();
  });
}

template <class Device>
void policy_run_impl<Device>::update_actor(const any_algorithm& algorithm) {
  const policy_settings& s = settings();
  numbers.set("actor/entropy", rollout_entropy(batch, s.entropy_mean));
  if (state_.step < s.critic_warmup) return;
  time("update_actor", [&] {
    frame_.bar.phase("update", 0, 0);
    const update_plan plan{
        .mini_trajectories = in_.plan.trajectories_per_update,
        .micro_trajectories = in_.plan.micro_batch_trajectories,
        .micro_tokens = in_.plan.micro_batch_tokens,
        .epochs = s.epochs_per_step,
        .shuffle = s.shuffle_mini_batches,
        .temperature = s.sampling.temperature,
        .lr = update_rates(s.lr, s.schedule, state_.step, in_.plan.updates_per_step, s.lr_per_update),
        .grad_clip = s.grad_clip,
        .keep_routes = s.keep_routes && in_.config.has_experts(),
        .pause = [this] { sampler_.pause(); }};
    const std::int64_t skipped =
        train::update_actor(models_.policy, algorithm, batch, plan, key(stream::mini_batches), numbers);
    if (skipped > 0 && state_.skipped_updates == 0)
      say("note: step %lld: the gradient is not finite: %lld updates with the learning rate %g are left out "
          "(actor/skipped_updates)\n",
          static_cast<long long>(state_.step), static_cast<long long>(skipped), plan.lr.back());
    state_.skipped_updates += skipped;
    models_.policy.release_gradients();
    state_.optimizer_steps = models_.policy.optimizer().steps();
    updated_ = {state_.step, plan.lr.back(), numbers.get("actor/grad_norm")};
  });
}

template <class Device>
void policy_run_impl<Device>::finish_step() {
  const policy_settings& s = settings();
  if (!s.rollout_dir.empty() && ranks_.first())
    time("dump_rollout_generations",
         [&] { write_rollouts(s.rollout_dir, state_.step, batch, in_.train, in_.tokenizer, s.reward.log_overlong); });
  batch_metrics(batch, s.max_prompt_length, s.max_response_length, numbers);
  if (in_.has_validation() && due(s.test_freq)) validated_ = validation();
  if (saves()) frame_.save(state_.step, epoch(), [&] { save(); });
  frame_.stop_clock();
  timing_metrics(batch, time, numbers, ranks_.size());
  idle_(ranks_.world(), time.seconds("step"), numbers);
  frame_.end_step(state_.step, epoch(), saves());
  if (const std::string why = watch_(batch, numbers, s); !why.empty()) say("note: %s\n", why.c_str());
}

template <class Device>
void policy_run_impl<Device>::finish() {
  if (!frame_.finish()) return;
  const std::filesystem::path root = settings().root;
  print_validation(frame_.log().rows());
  const auto last = checkpoint::read_tracker(root);
  if (!last) return;
  say("checkpoint  %s\n", (checkpoint::step_folder(root, *last) / "actor" / "huggingface").c_str());
  if (!settings().export_path.empty() && (asked_to_stop() == 0 || stopped().empty()))
    export_model(checkpoint::step_folder(root, *last) / "actor", checkpoint::expand_home(settings().export_path),
                 settings().export_type);
}

template <class Device>
std::unique_ptr<policy_run> open_policy_run(const options& opt, policy_inputs& in, policy_models<Device>& models,
                                            const team& ranks) {
  return std::make_unique<policy_run_impl<Device>>(opt, in, models, ranks);
}

}  // namespace train
RLCORE_END
