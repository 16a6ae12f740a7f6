// verl's async_training.*: asynchronous training.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace train {

/// Responses may be begun by older weights than those that a step trains (verl's fully asynchronous policy).
struct async_settings {
  bool enabled = false;
  double staleness_threshold = 0;  ///< prompts in play beyond those that training takes until the next copy, as a share
  std::int64_t steps_per_copy = 1;  ///< steps between two copies of the weights to sampling
  bool partial_rollout = true;      ///< unfinished responses go on with the next weights; otherwise they are awaited
  std::int64_t max_staleness = 0;   ///< copies that a response may live through; 0: any number

  /// Prompts that may be in play where steps take so many until the next copy.
  std::int64_t in_play(std::int64_t taken) const {
    return static_cast<std::int64_t>(static_cast<double>(taken) * (1 + staleness_threshold));
  }
};

/// Whether a key of async_training.* that has a meaning here is set.
bool trains_asynchronously(const options& opt);

/// Throws config_error for settings that exclude each other.
async_settings read_async_training(const options& opt);

/// With asynchronous training: the sizes of a step follow from require_batches, and what verl's configuration of it has
/// in other places is put where synchronous training has it. Call before other checks.
void apply_async_training(options& opt);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE bool trains_asynchronously(const options& opt) {
  const char* const keys[] = {"async_training.staleness_threshold", "async_training.trigger_parameter_sync_step",
                              "async_training.require_batches", "async_training.partial_rollout"};
  if (opt.known().find(keys[0]) == nullptr) return false;
  return opt.find<double>(keys[0]) || std::ranges::any_of(keys, [&](const char* key) { return opt.is_set(key); });
}

RLCORE_INLINE async_settings read_async_training(const options& opt) {
  async_settings s;
  s.enabled = trains_asynchronously(opt);
  if (!s.enabled) return s;
  const std::string staleness = "rlcore.max_staleness";
  s.staleness_threshold = opt.find<double>("async_training.staleness_threshold").value_or(0.1);
  s.steps_per_copy = opt.get<std::int64_t>("async_training.trigger_parameter_sync_step");
  s.partial_rollout = opt.get<bool>("async_training.partial_rollout");
  s.max_staleness = opt.find<std::int64_t>(staleness).value_or(0);
  if (opt.get<std::int64_t>("rlcore.async_depth") > 0)
    throw config_error("rlcore.async_depth=1 and async_training.* are two ways to train asynchronously; keep one");
  if (s.max_staleness > 0 && static_cast<double>(s.max_staleness) < s.staleness_threshold)
    throw config_error(
        staleness + "=" + inline_text(opt.at(staleness)) + ": expected at least async_training.staleness_threshold=" +
        inline_text(opt.at("async_training.staleness_threshold")) + ", which has as many copies' prompts wait");
  if (opt.get<bool>("algorithm.filter_groups.enable") && !opt.get<bool>("rlcore.keep_surplus"))
    throw config_error("rlcore.keep_surplus=False throws away what async_training.* has sampled for further steps");
  return s;
}

/// Which of bypass_mode and recompute_old_log_prob counts. A configuration's yields to what is typed.
RLCORE_INLINE void apply_bypass_mode(options& opt) {
  const std::string mode = "algorithm.rollout_correction.bypass_mode", again = "rlcore.recompute_old_log_prob";
  if (!opt.is_set(mode)) return;
  const bool bypass = opt.get<bool>(mode),
             counts = bypass || trains_asynchronously(opt) || opt.get<std::int64_t>("rlcore.async_depth") > 0;
  if (counts && opt.is_set(again) && opt.get<bool>(again) == bypass)
    throw config_error(mode + "=" + inline_text(opt.at(mode)) + " and " + again + "=" + inline_text(opt.at(again)) +
                       " contradict each other; keep one");
  if (counts) opt.set(again, value(!bypass));
}

RLCORE_INLINE void apply_async_training(options& opt) {
  if (opt.find<std::string>("rlcore.replay") && opt.get<std::int64_t>("rlcore.async_depth") > 0)
    opt.note("rlcore.async_depth does not sample ahead with rlcore.replay: the stored responses are");
  apply_bypass_mode(opt);
  if (!trains_asynchronously(opt)) {
    for (const char* key : {"rollout.total_rollout_steps", "rollout.test_freq", "rlcore.max_staleness"})
      if (opt.is_set(key)) opt.note(std::string(key) + " has no effect without async_training.*");
    for (const char* key : {"data.train_batch_size", "data.gen_batch_size"})
      if (opt.get<std::int64_t>(key) == 0) throw config_error(std::string(key) + "=0: expected an integer >= 1");
    return;
  }
  const std::string mini = "actor_rollout_ref.actor.ppo_mini_batch_size", batches = "async_training.require_batches";
  const std::int64_t step = detail::product(opt.get<std::int64_t>(batches), opt.get<std::int64_t>(mini), batches);
  for (const char* key : {"data.train_batch_size", "data.gen_batch_size"}) {
    if (const auto given = opt.get<std::int64_t>(key); opt.is_set(key) && given > 1 && given != step)
      opt.note(std::string(key) + " has no effect with async_training.*: a step takes " + batches + " x " + mini +
               " = " + std::to_string(step) + " prompts");
    opt.set(key, value(step));
  }
  const bool fixed = opt.find<std::int64_t>("trainer.total_training_steps").has_value();
  if (const auto prompts = opt.find<std::int64_t>("rollout.total_rollout_steps"); prompts && fixed)
    opt.note("rollout.total_rollout_steps has no effect with trainer.total_training_steps");
  else if (prompts && *prompts < step)
    throw config_error("rollout.total_rollout_steps=" + std::to_string(*prompts) +
                       ": the prompts of the run do not fill one step of " + std::to_string(step));
  if (const auto every = opt.find<std::int64_t>("rollout.test_freq")) {
    if (opt.is_set("trainer.test_freq"))
      opt.note("trainer.test_freq, in steps, takes the place of rollout.test_freq, in copies of the weights");
    else
      opt.set("trainer.test_freq",
              value(detail::product(std::max<std::int64_t>(0, *every),
                                    opt.get<std::int64_t>("async_training.trigger_parameter_sync_step"),
                                    "rollout.test_freq")));
  }
  for (const char* name : {"rollout_is", "rollout_rs"})
    if (const std::string key = "algorithm.rollout_correction." + std::string(name); opt.find<std::string>(key))
      opt.note(key +
               " compares the recorded log-probs with those of the weights that a step begins with, which are "
               "the old log-probs then");
}

}  // namespace train
RLCORE_END
#endif
