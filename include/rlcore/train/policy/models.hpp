// Models of a policy run: policy, rollout model (tensor parallel groups filled from the training layout), reference,
// critic.
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/config/settings/rollout_ranks.hpp"
#include "rlcore/core/memory_text.hpp"
#include "rlcore/core/timeline.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/pipeline/division.hpp"
#include "rlcore/parallel/pipeline/schedule.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/parameters_text.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/model/weight_sync.hpp"
#include "rlcore/train/policy/actor.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/critic.hpp"
#include "rlcore/train/policy/inputs.hpp"
#include "rlcore/train/policy/open.hpp"
#include "rlcore/train/ranks/resources.hpp"

RLCORE_BEGIN
namespace train {

/// Groups of neighbouring ranks, each with one copy of the weights while they sample and none otherwise; so a rank has
/// 1 / size() of the matrices (with more ranks than key heads, a whole key head's projections) beside its part of
/// training, packed for products alone, and no rank the whole in floats (verl's hybrid engine, DeepSpeed-Chat's hybrid
/// engine). All ranks of a group generate the same rows together.
template <class Device>
class rollout_model {
 public:
  /// Made by all ranks of the policy's world together; `size` divides their number; `bucket` values are received, and
  /// sent, at a time. Throws config_error if the model cannot be partitioned this way.
  rollout_model(trainable_model<Device>& policy, int size, std::size_t bucket = std::size_t{1} << 24)
      : policy_(&policy),
        bucket_(bucket),
        groups_(policy.world()->all().size() / size),
        group_(policy.world()->all().rank() / size),
        ranks_(policy.world()->all().split(group_, policy.world()->all().rank() % size)),
        tensor_(*ranks_),
        model_(policy.model.device(), policy.model.settings(),
               nn::sampling_part(policy.model.settings(), ranks_->rank(), size), nn::weights_in::packed),
        weight_sync_(policy, model_) {
    model_.set_tensor_group(&tensor_);
    model_.free_weights();
  }
  rollout_model(const rollout_model&) = delete;
  rollout_model& operator=(const rollout_model&) = delete;

  /// Groups, and the number of this rank's; ranks of a group, and this rank's number there.
  int groups() const noexcept { return groups_; }
  int group() const noexcept { return group_; }
  int size() const { return ranks_->size(); }
  int rank() const { return ranks_->rank(); }
  /// Without weights, unless a rollout_weights lives.
  const nn::causal_lm<Device>& model() const noexcept { return model_; }
  /// The number of values that fill() receives from other ranks.
  std::size_t received() const noexcept { return weight_sync_.received(); }
  /// The group's communicator, with the traffic of sampling.
  parallel::any_communicator& ranks() noexcept { return *ranks_; }
  const parallel::any_communicator& ranks() const noexcept { return *ranks_; }

  /// fill() copies the current training weights, in `format` (unset: that of training); drop() frees them. All ranks of
  /// the world call fill() together.
  void fill(std::optional<weight_format> format) {
    const timeline::span traced("weights to sampling");
    weight_sync_.run(*policy_, model_, bucket_, format);
  }
  void drop() { model_.free_weights(); }

 private:
  trainable_model<Device>* policy_;
  std::size_t bucket_;
  int groups_, group_;
  std::unique_ptr<parallel::any_communicator> ranks_;
  nn::tensor_group_of<parallel::any_communicator> tensor_;
  nn::causal_lm<Device> model_;
  weight_sync<Device> weight_sync_;
};

/// Holds the rollout weights for its lifetime.
template <class Device>
class rollout_weights {
 public:
  /// Fills the model with the policy's weights, in `format`; the destructor drops them.
  rollout_weights(rollout_model<Device>& model, std::optional<weight_format> format) : model_(model) {
    model_.fill(format);
  }
  ~rollout_weights() { model_.drop(); }
  rollout_weights(const rollout_weights&) = delete;
  rollout_weights& operator=(const rollout_weights&) = delete;

 private:
  rollout_model<Device>& model_;
};

/// Bytes of keys and values that sampling may take: gpu_memory_utilization of the device's memory that is available
/// now, or of this rank's share where the memory is that of `ranks`; `part` of the heads is this rank's. Throws
/// config_error if that does not hold one sequence of the longest kind.
template <class Device>
std::size_t rollout_cache_bytes(const Device& device, const policy_settings& s, const nn::config& c, int ranks = 1,
                                const nn::partition& part = {}) {
  const auto available = available_memory_of(device, ranks);
  if (!available) return rollout::generation().max_cache_bytes;
  const auto bytes = static_cast<std::size_t>(s.cache_share * static_cast<double>(*available));
  const std::size_t needed = nn::kv_cache<Device>::page_bytes(device, c, part) *
                             static_cast<std::size_t>(kv_pages(s.max_prompt_length + s.max_response_length - 1));
  if (needed > bytes)
    throw config_error(fmt::format(
        "actor_rollout_ref.rollout.gpu_memory_utilization={:g} allows {} of {} available bytes; the keys and values of "
        "one sequence of data.max_prompt_length + data.max_response_length = {} tokens need {}",
        s.cache_share, bytes, *available, s.max_prompt_length + s.max_response_length, needed));
  return bytes;
}

/// The policy as sampled by groups of ranks. Throws config_error, naming the key, if it cannot be partitioned this way.
template <class Device>
void open_rollout(std::optional<rollout_model<Device>>& to, actor<Device>& policy, const detail::asked_size& asked,
                  std::int64_t bucket_megabytes) {
  const int size = static_cast<int>(asked.ranks);
  try {
    nn::check_partition(policy.model.settings(), nn::sampling_part(policy.model.settings(), 0, size));
  } catch (const config_error& e) {
    throw config_error(asked.text() + ": " + e.what());
  }
  to.emplace(policy, size, (static_cast<std::size_t>(bucket_megabytes) << 20) / sizeof(float));
}

/// The config of the critic in `folder`; it has to take every sequence of the actor. Throws config_error.
inline nn::config critic_config(const std::filesystem::path& folder, const nn::config& actor,
                                const policy_settings& s) {
  nn::config config = checkpoint::read_stored_config(folder);
  const std::string where = "critic.model.path=" + folder.string() + ": ";
  if (config.vocab_size < actor.vocab_size)
    throw config_error(where + "its " + std::to_string(config.vocab_size) + " tokens are fewer than the actor's " +
                       std::to_string(actor.vocab_size));
  if (config.max_position_embeddings < s.max_prompt_length + s.max_response_length)
    throw config_error(where + "its " + std::to_string(config.max_position_embeddings) +
                       " positions are fewer than data.max_prompt_length + data.max_response_length");
  return config;
}

/// Created from a command line; load() loads the weights.
template <class Device>
class policy_models {
 public:
  /// rlcore.recompute_old_log_prob, and true where sampling adds up in another order than training.
  bool recompute_old_log_prob;
  actor<Device> policy;
  /// Samples instead of the policy where ranks form rollout groups, where weights are sharded, and ahead of training.
  std::optional<rollout_model<Device>> rollout;
  std::optional<frozen_model<Device>> frozen;   ///< the reference; with LoRA the policy without its adapters is one
  std::optional<critic<Device>> value_model;    ///< if the advantages read values, or critic.enable
  std::size_t max_cache_bytes;                  ///< of keys and values while sampling
  std::string description, device_description;  ///< one line each

  /// As open_policy_models().
  policy_models(Device& device, const options& opt, const policy_inputs& in, const any_algorithm& algorithm,
                const team& ranks);
  policy_models(const policy_models&) = delete;
  policy_models& operator=(const policy_models&) = delete;
  ~policy_models();

  /// The model whose log-probs a KL compares with, or nullptr; with LoRA `policy.model`, adapters off.
  nn::causal_lm<Device>* reference() { return !needs_reference_ ? nullptr : frozen ? &frozen->model : &policy.model; }

  /// Calls f() while the reference has its weights: with param_offload they are read from its folder for each call, and
  /// freed after it.
  template <class F>
  void with_reference(F&& f) {
    const bool offloads = offloads_ && frozen && frozen->model.packed_alone();
    if (offloads) load_weights(*frozen, reference_folder_);
    f();
    if (offloads) frozen->model.free_weights();
  }

  /// Whether the reference's log-probs stay on the device between the pass that computes them and the updates: the host
  /// does not read them, and no remote rank trains on these rows.
  bool reference_stays() const { return reference_stays_ && loss_stays_on_device(policy); }

  /// Loads the weights that a checkpoint does not contain: everything unless the run `continues`, else the reference
  /// and the bases of adapters.
  void load(const policy_inputs& in, bool continues);

 private:
  static bool needs_old_log_prob(Device& device, const options& opt, const policy_settings& s, const team& ranks) {
    check_rollout_ranks(opt, ranks.size());
    bool needs = s.recompute_old_log_prob;
    if (s.async.enabled && !needs && (!device.batch_invariant() || s.rollout_weights))
      say("note: old log-probs are those that sampling has recorded, with other numbers than training has; "
          "algorithm.rollout_correction.bypass_mode=False computes them again\n");
    if (s.async.enabled || (s.recorded_old_log_prob && !s.replay.empty())) return needs;
    if (!device.batch_invariant()) {
      needs = true;
      say("note: sums of this device depend on the batch in their last places: old log-probs are computed again\n");
    }
    const auto group = rollout_ranks(opt, ranks.size());
    const bool other_order = group && group->ranks != ranks.world().tensor().size();
    if (other_order && !s.samples_ahead && ranks.world().settings().tp_reduce_chunks == 0 && !needs) {
      needs = true;
      say("note: %s adds up in another order than training without rlcore.row_chunks: old log-probs are computed "
          "again\n",
          group->text().c_str());
    }
    const bool other_numbers =
        needs || s.rollout_weights || (s.dynamic_sampling.enabled && s.dynamic_sampling.keep_surplus);
    if (s.sampled_routes && other_numbers)
      say("note: actor_rollout_ref.actor.router_replay.mode=R3: the experts kept are those that the policy chooses "
          "before its first update (R2); sampling, with other numbers or earlier weights, may have chosen others\n");
    return needs;
  }

  /// Prints models, devices and the batch plan.
  void describe(Device& device, const policy_inputs& in, const team& ranks) {
    const nn::config& c = in.config;
    description = fmt::format("{}: {}, {} layers, hidden {}, {}", in.model.folder.string(), nn::name_of(c.model),
                              c.num_hidden_layers, c.hidden_size, parameters_text(policy));
    if (const auto& lora = in.settings.lora)
      description += fmt::format(", {:.3g} M of them trained (LoRA, rank {}, alpha {:g})",
                                 static_cast<double>(whole_trained_size(policy)) * 1e-6, lora->rank, lora->alpha);
    device_description = rlcore::describe(device) + ranks.describe();
    say("model  %s\ndevice %s\n%s\n%s\n", description.c_str(), device_description.c_str(), ranks.idle_note().c_str(),
        in.plan.table().c_str());
    if ((in.settings.keep_routes || in.settings.stored_routes) && !c.has_experts())
      say("note: actor_rollout_ref.actor.router_replay.mode has no effect: the model has no experts\n");
    if (rollout && rollout->size() > 1)
      say("%s\n",
          fmt::format("rollout {} groups of {} ranks: {:.3g} M parameters each while sampling, {:.3g} M of them from "
                      "others",
                      rollout->groups(), rollout->size(), static_cast<double>(rollout->model().size()) * 1e-6,
                      static_cast<double>(rollout->received()) * 1e-6)
              .c_str());
    describe_stages(in, ranks);
    for (const std::string& warning : in.plan.warnings) say("warning: %s\n", warning.c_str());
    std::fflush(stdout);
  }

  /// Prints the layers of the stages of a pipeline, and how long they wait in an update.
  void describe_stages(const policy_inputs& in, const team& ranks) {
    const parallel::mesh& place = ranks.world().place();
    if (place.pipeline_size == 1) return;
    const auto layers = parallel::divide_layers(in.config.num_hidden_layers, ranks.world().settings().pipeline);
    std::string text = "stages " + parallel::division_text(layers, place.pipeline_size) + " layers";
    const std::int64_t rows = in.plan.trajectories_per_update, micro = in.plan.micro_batch_trajectories;
    const std::int64_t leaves = std::min<std::int64_t>(ranks.world().settings().leaves, rows);
    const auto ceil = [](std::int64_t n, std::int64_t by) { return (n + by - 1) / by; };
    const std::int64_t of_leaf = micro > 0 ? ceil(ceil(rows, leaves), micro) : 1;
    const auto passes = static_cast<int>(in.plan.micro_batch_tokens == 0 ? of_leaf * ceil(leaves, place.data_size) : 0);
    if (passes > 0) {
      const parallel::pipeline_times times =
          parallel::simulate({.stages = place.pipeline_size, .passes = passes},
                             [](int, const parallel::pipeline_action& a) { return a.forward ? 1.0 : 2.0; });
      text += fmt::format("; {} micro-batches for an update and rank: about {:.0f} % of the time idle", passes,
                          100 * times.idle());
      if (passes < place.pipeline_size)
        text +=
            "; a lower actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu, or more rlcore.gradient_leaves, gives "
            "more";
    }
    say("%s\n", text.c_str());
  }

  bool needs_reference_, reference_stays_, offloads_ = false;
  std::filesystem::path reference_folder_;
  std::filesystem::path value_folder_;
};

template <class Device>
policy_models<Device>::policy_models(Device& device, const options& opt, const policy_inputs& in,
                                     const any_algorithm& algorithm, const team& ranks)
    : recompute_old_log_prob(needs_old_log_prob(device, opt, in.settings, ranks)),
      policy(device, in.config, in.settings, &ranks.world()),
      needs_reference_(in.settings.reward_kl.enabled || contains(algorithm.reads(), field::ref_logp)),
      reference_stays_(!in.settings.reward_kl.enabled && algorithm.reference_stays() && ranks.size() == 1) {
  const policy_settings& s = in.settings;
  const auto group = rollout_ranks(opt, ranks.size());
  const bool ahead = s.samples_ahead && s.replay.empty();
  if (group && ahead && detail::asked_rollout(opt))
    say("note: rollout.tensor_model_parallel_size has no effect with rlcore.async_depth=1: each rank samples alone\n");
  const auto bucket = opt.get<std::int64_t>("actor_rollout_ref.rollout.update_weights_bucket_megabytes");
  if (group && !ahead)
    open_rollout(rollout, policy, *group, bucket);
  else if (!ahead && policy.model.units() != nullptr)
    open_rollout(rollout, policy, {ranks.world().tensor().size(), {}}, bucket);
  if (ahead) {
    if (s.dynamic_sampling.enabled)
      throw config_error("rlcore.async_depth=1: dynamic sampling (algorithm.filter_groups) samples in each step");
    if (ranks.world().tensor().size() > 1 && ranks.world().settings().tp_reduce_chunks == 0)
      throw config_error(
          "rlcore.async_depth=1: tensor parallel training adds up in another order than sampling with whole "
          "weights; pass rlcore.row_chunks");
    open_rollout(rollout, policy, {1, {}}, bucket);
  }
  describe(device, in, ranks);
  if (needs_reference_ && !s.lora) frozen.emplace(device, in.config, &ranks.world(), true);
  if (const auto value = read_critic_settings(opt, in.plan, contains(algorithm.inputs(), advantage_input::values))) {
    value_folder_ =
        value->model_path.empty() ? in.model.folder : named_model(opt, "critic.model.path", value->model_path);
    value_model.emplace(device, critic_config(value_folder_, in.config, s), *value, s.logits_bytes, s.seed,
                        &ranks.world());
    say("critic %s%s\n", value_folder_.c_str(),
        value->model_path.empty() ? ": the actor's model, since critic.model.path is not given" : "");
  }
  max_cache_bytes = ranks.least(rollout_cache_bytes(device, s, policy.model.settings(), ranks.of_this_machine(),
                                                    rollout ? rollout->model().part() : policy.model.part()));
  say("cache  at most %s of keys and values while sampling\n", memory_text(max_cache_bytes).c_str());
}

template <class Device>
policy_models<Device>::~policy_models() = default;

template <class Device>
void policy_models<Device>::load(const policy_inputs& in, bool continues) {
  offloads_ = in.settings.offload_reference, reference_folder_ = in.model.folder;
  if (offloads_ && frozen && !frozen->model.packed_alone())
    say("note: actor_rollout_ref.ref.fsdp_config.param_offload has no effect where ranks share the reference's "
        "weights\n");
  if (frozen && !(offloads_ && frozen->model.packed_alone())) load_weights(*frozen, in.model.folder);
  if (!continues || in.settings.lora) load_weights(policy, in.model.folder);
  if (value_model && (!continues || value_model->settings.lora)) load_weights(*value_model, value_folder_);
}

template <class Device>
std::shared_ptr<policy_models<Device>> open_policy_models(Device& device, const options& opt, const policy_inputs& in,
                                                          const any_algorithm& algorithm, const team& ranks) {
  return std::make_shared<policy_models<Device>>(device, opt, in, algorithm, ranks);
}

}  // namespace train
RLCORE_END
