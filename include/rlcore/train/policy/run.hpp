// Policy run: the parts of one training step, as called by a recipe, and its streams of random numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// Purposes of the run's seed; their streams never overlap.
enum class stream : std::uint32_t { rollout = 1, validation, mini_batches, selection, greedy, critic_mini_batches };

/// The random numbers for a purpose in the step or round `number`.
inline random_key key_of(std::uint64_t seed, stream purpose, std::int64_t number) {
  return random_key{seed}.child(static_cast<std::uint32_t>(purpose)).child(static_cast<std::uint32_t>(number));
}

class any_algorithm;
class options;
struct policy_inputs;
struct policy_settings;
class team;
template <class Device>
class policy_models;

/// A recipe calls the parts of a step in the order of its paper, between next_step() and finish_step():
///   sample()            responses to the step's prompts, scored by the reward source
///   provide(inputs)     what the estimator declares, the log-probs of the reference, the values of the critic
///   penalise_rewards()  the KL in the reward
///   advantages(a)       the algorithm's estimator and selection
///   update_critic()     if there is a critic
///   update_actor(a)     mini-batches, micro-batches, one optimizer step for each mini-batch
/// sample() is the loop of dynamic sampling, which a recipe may write out: while (needs_groups())
/// keep_differing_groups(sample_round()); then take_groups().
/// `batch` and `numbers` are there for a recipe's own stages. All ranks make the same calls. policy_run_impl<Device> is
/// behind it: a recipe does not compile the models.
class policy_run {
 public:
  std::vector<trajectory> batch;  ///< of the step; the responses to one prompt are neighbours
  metrics numbers;                ///< of the step, to be logged
  stages time;                    ///< of the step: time("name", f) adds to timing_s/name

  policy_run() = default;
  policy_run(const policy_run&) = delete;
  policy_run& operator=(const policy_run&) = delete;
  virtual ~policy_run() = default;

  virtual const policy_settings& settings() const noexcept = 0;
  /// The number of the step, from 1; 0 before the first.
  virtual std::int64_t step() const noexcept = 0;
  /// The random numbers of this step for that purpose.
  virtual random_key key(stream purpose) const = 0;
  /// The reason why the run ended before its last step; empty otherwise.
  virtual const std::string& stopped() const noexcept = 0;
  /// The last validation reward, if there was a validation.
  virtual std::optional<double> validated() const noexcept = 0;

  /// Begins the next step; false after the last, after dynamic sampling has stopped the run, and after a signal has:
  /// then the last step is saved.
  virtual bool next_step() = 0;

  /// Whether the step wants another round of prompts: one, with dynamic sampling until data.train_batch_size groups are
  /// ready, with async_training.* until what is trained before the next copy of the weights is. False as well where the
  /// allowed rounds or the data are used up, or a signal ended sampling.
  virtual bool needs_groups() = 0;
  /// A round of prompts, or with async_training.* what is complete: rollout.n responses to each, scored. The responses
  /// to one prompt are neighbours.
  virtual std::vector<trajectory> sample_round() = 0;
  /// Adds those groups of the round that are ready for training: with dynamic sampling the ones whose answers differ by
  /// algorithm.filter_groups.metric, else all.
  virtual void keep_differing_groups(std::vector<trajectory> round) = 0;
  /// Fills `batch` with the first of the ready groups; the others wait for the next step. False if there are too few:
  /// the run has ended before its last step, the last complete one is saved, and resuming from it is bit-identical to
  /// an uninterrupted run.
  virtual bool take_groups() = 0;
  /// All of that: fills `batch`, or ends the run.
  bool sample() {
    while (needs_groups()) keep_differing_groups(sample_round());
    return take_groups();
  }
  /// Sets in `batch` the estimator's declared `inputs`, reference log-probs and critic values.
  virtual void provide(advantage_input inputs) = 0;
  /// Subtracts the KL to the reference from the rewards of `batch`, if algorithm.use_kl_in_reward.
  virtual void penalise_rewards() = 0;
  /// The algorithm's advantages of `batch`.
  virtual void advantages(const any_algorithm& algorithm) = 0;

  /// All updates of the critic in this step; nothing without a critic.
  virtual void update_critic() = 0;
  /// All updates of the policy in this step; none while the critic warms up.
  virtual void update_actor(const any_algorithm& algorithm) = 0;

  /// Stores the responses, validates and saves when it is time, and logs the step.
  virtual void finish_step() = 0;

  /// Writes report.html, and prints the locations of all files.
  virtual void finish() = 0;
};

/// Loads the models, or resumes from the checkpoint set by `opt`; opens metrics.jsonl. All arguments must outlive the
/// run. Throws rlcore::error. run_impl.hpp defines it.
template <class Device>
std::unique_ptr<policy_run> open_policy_run(const options& opt, policy_inputs& in, policy_models<Device>& models,
                                            const team& ranks);

}  // namespace train

RLCORE_END
