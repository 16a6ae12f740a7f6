// Runs policy training from a command line, with any algorithm. trainers.hpp declares it.
#pragma once

#include <optional>
#include <utility>

#include "rlcore/telemetry/console.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"
#include "rlcore/train/policy/inputs.hpp"
#include "rlcore/train/policy/models.hpp"
#include "rlcore/train/policy/run_impl.hpp"
#include "rlcore/train/ranks/team.hpp"
#include "rlcore/train/run/trainers.hpp"

RLCORE_BEGIN
namespace train {

/// Opens and checks everything, prints the plan, trains, and writes the report: the recipe of examples/grpo_trainer.cpp
/// as a function.
template <class Device>
std::optional<double> train_policy(Device& device, const options& opt, const any_algorithm& algorithm, bool quiet,
                                   reward_source* custom_rewards, parallel::any_communicator* world) {
  const team ranks(opt, world);
  const silence others(quiet || !ranks.first());
  const auto in = open_policy_inputs(device, opt, ranks, custom_rewards);
  const auto models = open_policy_models(device, opt, *in, algorithm, ranks);
  const auto run = open_policy_run(opt, *in, *models, ranks);
  while (run->next_step()) {
    if (!run->sample()) break;
    run->provide(algorithm.inputs());
    run->penalise_rewards();
    run->advantages(algorithm);
    run->update_critic();
    run->update_actor(algorithm);
    run->finish_step();
  }
  run->finish();
  return run->validated();
}

/// With the algorithm that `opt` describes in verl's terms.
template <class Device>
std::optional<double> train_policy(Device& device, const options& opt, parallel::any_communicator* world) {
  return train_policy(device, opt, read_algorithm(opt), false, nullptr, world);
}

/// train_policy() with a reward function of your own: f(answer) gives a number or a verify::verdict.
template <class Device, reward_function F>
std::optional<double> train_policy(Device& device, const options& opt, F function,
                                   parallel::any_communicator* world = nullptr) {
  function_rewards<F> custom_rewards(std::move(function), read_settings(opt).reward.dapo_manager);
  return train_policy(device, opt, read_algorithm(opt), false, &custom_rewards, world);
}

}  // namespace train
RLCORE_END
