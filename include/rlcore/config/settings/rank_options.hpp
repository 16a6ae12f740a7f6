// Ranks, devices and layout of a run.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/async_options.hpp"
#include "rlcore/config/settings/gradient_leaves.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/cuda/provider.hpp"
#include "rlcore/device/device_settings.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/parallel/settings.hpp"

RLCORE_BEGIN
namespace train {

/// What the device of trainer.device can do. `cuda`, which published command lines name, is the CPU where no GPU can be
/// used, with a note.
inline const device_abilities& asked_device(const options& opt) {
  const std::string name = opt.get<std::string>("trainer.device");
  if (name == "cuda" && !nvidia::why_not_installed().empty()) return device_kinds[0];
  for (const device_abilities& d : device_kinds)
    if (d.name == name) return d;
  return device_kinds[0];
}

namespace detail {

/// A number of ranks and the key, or the `--flag`, that sets it.
struct asked_size {
  std::int64_t ranks = 1;
  std::string key;

  std::string text() const { return key + (key.starts_with("--") ? " " : "=") + std::to_string(ranks); }
};

/// Reads `rlcore_key` if it has a value, which may come from a flag of OpenRLHF. Otherwise reads `strategy_key` if this
/// program has it.
asked_size asked(const options& opt, const std::string& rlcore_key, const std::string& strategy_key);

/// The keys of verl's policy trainers, of its sft trainer, or of OpenRLHF.
struct strategy_keys {
  std::string strategy;  ///< "fsdp", "fsdp2", "megatron" or "zero"
  std::string fsdp;      ///< prefix of fsdp_config
  asked_size tensor, context, expert, pipeline;
};

strategy_keys read_strategy(const options& opt);

/// Throws config_error for a ring on a device without attention in parts.
parallel::context_kind context_kind_of(const options& opt, const strategy_keys& k);

int zero_of(const options& opt, const strategy_keys& k);

/// How the stages of a pipeline divide the layers. Throws config_error for what stages cannot do yet.
parallel::pipeline_division read_pipeline(const options& opt, const strategy_keys& k, int zero);
/// Adds notes about keys of pipelines that have no effect.
void note_pipeline(options& opt, const strategy_keys& k);

/// Throws config_error if another model of the run asks for another strategy, tensor or pipeline parallel size than the
/// actor's.
void check_other_models(const options& opt, const strategy_keys& actor);

/// A note about context and expert parallel sizes of other models that differ from the actor's: these models run with
/// the actor's, which changes their values by rounding at most. Empty if there are none.
std::string other_sizes(const options& opt, const strategy_keys& actor);

/// OpenRLHF's names of the two keys, for programs that take its flags.
inline std::string rank_flags(const options& opt) {
  for (const flag& f : opt.known().flags())
    if (f.key == "trainer.nnodes") return " (--actor_num_nodes, --actor_num_gpus_per_node)";
  return {};
}

}  // namespace detail

/// The number of ranks requested on the command line; 0 if unset.
std::int64_t asked_ranks(const options& opt);

/// The number of ranks to run as threads of this process. mpirun has started `started` ranks (1: it did not run).
/// Throws config_error if the two disagree.
int thread_ranks(const options& opt, int started);

/// Reads how `ranks` ranks share the work. For one rank all sizes are 1, whatever the keys say. Throws config_error if
/// the keys do not fit the ranks or each other.
parallel::parallel_settings read_parallel(const options& opt, int ranks);

/// rlcore.deadline_s: how long a rank waits in a collective.
inline std::chrono::milliseconds rank_deadline(const options& opt) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(opt.get<double>("rlcore.deadline_s") * 1000));
}

/// Adds notes about keys that have no effect with this strategy or with one rank.
void check_rank_options(options& opt, int started);

/// Throws config_error for features the device lacks; adds notes.
void check_device_options(options& opt);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
#include "rlcore/config/settings/pipeline_options.hpp"

RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE asked_size asked(const options& opt, const std::string& rlcore_key, const std::string& strategy_key) {
  if (const auto size = opt.find<std::int64_t>(rlcore_key)) {
    const std::string flag = rlcore_key == "rlcore.tensor_parallel_size"    ? "ds_tensor_parallel_size"
                             : rlcore_key == "rlcore.context_parallel_size" ? "ring_attn_size"
                                                                            : "";
    const bool by_flag = !opt.is_set(rlcore_key) && opt.known().find(flag) != nullptr && opt.is_set(flag);
    return {*size, by_flag ? opt.known().typed_name(flag) : rlcore_key};
  }
  if (!strategy_key.empty() && opt.known().find(strategy_key) != nullptr)
    return {opt.get<std::int64_t>(strategy_key), opt.known().typed_name(strategy_key)};
  return {1, rlcore_key};
}

RLCORE_INLINE strategy_keys read_strategy(const options& opt) {
  const auto has = [&](const char* name) { return opt.known().find(name) != nullptr; };
  strategy_keys k;
  std::string tensor, context, expert, pipeline;
  if (has("actor_rollout_ref.actor.strategy")) {
    const std::string actor = "actor_rollout_ref.actor.", megatron = actor + "megatron.";
    k.strategy = opt.get<std::string>(actor + "strategy");
    k.fsdp = actor + "fsdp_config.";
    context = actor + "ulysses_sequence_parallel_size";
    if (k.strategy == "megatron") {
      tensor = megatron + "tensor_model_parallel_size", context = megatron + "context_parallel_size";
      expert = megatron + "expert_model_parallel_size";
      pipeline = megatron + "pipeline_model_parallel_size";
    }
  } else if (has("model.strategy")) {
    k.strategy = opt.get<std::string>("model.strategy");
    k.fsdp = "model.fsdp_config.", context = "ulysses_sequence_parallel_size";
  } else {
    k.strategy = "zero", tensor = "ds_tensor_parallel_size", context = "ring_attn_size";
  }
  k.tensor = asked(opt, "rlcore.tensor_parallel_size", tensor);
  k.context = asked(opt, "rlcore.context_parallel_size", context);
  k.expert = asked(opt, "rlcore.expert_parallel_size", expert);
  k.pipeline = asked(opt, "rlcore.pipeline_parallel_size", pipeline);
  return k;
}

RLCORE_INLINE parallel::context_kind context_kind_of(const options& opt, const strategy_keys& k) {
  const device_abilities& device = asked_device(opt);
  const std::string name = opt.find<std::string>("rlcore.context_kind")
                               .value_or(k.strategy == "zero"       ? "gather_kv"
                                         : k.strategy != "megatron" ? "ulysses"
                                         : device.partial_attention ? "ring"
                                                                    : "gather_kv");
  if (name == "ring" && !device.partial_attention)
    throw config_error("rlcore.context_kind=ring: not on the " + std::string(device.unit) +
                       "; expected gather_kv or ulysses");
  return parallel::named<parallel::context_kind>(parallel::context_kind_names, name);
}

RLCORE_INLINE int zero_of(const options& opt, const strategy_keys& k) {
  if (const auto stage = opt.find<std::int64_t>("rlcore.zero_stage")) return static_cast<int>(*stage);
  if (k.strategy == "zero")
    return opt.known().find("zero_stage") != nullptr ? static_cast<int>(opt.get<std::int64_t>("zero_stage")) : 0;
  if (k.strategy != "megatron") return 3;
  return opt.get<bool>("actor_rollout_ref.actor.megatron.use_distributed_optimizer") ? 1 : 0;
}

RLCORE_INLINE void check_other_models(const options& opt, const strategy_keys& actor) {
  if (opt.known().find("critic.strategy") == nullptr) return;
  const auto refuse = [](const std::string& theirs, const std::string& ours) {
    throw config_error(theirs + ": another layout than the actor's (" + ours +
                       "); all models of a run share the work in the same way here");
  };
  for (const std::string key : {"critic.strategy", "actor_rollout_ref.ref.strategy"})
    if (const auto other = opt.get<std::string>(key);
        opt.is_set(key) && (other == "megatron") != (actor.strategy == "megatron"))
      refuse(key + "=" + other, "strategy=" + actor.strategy);
  const auto same = [&](const std::string& name, const asked_size& ours) {
    if (opt.is_set(name) && opt.get<std::int64_t>(name) != ours.ranks)
      refuse(name + "=" + std::to_string(opt.get<std::int64_t>(name)), ours.text());
  };
  if (actor.strategy != "megatron") return;
  for (const std::string model : {"actor_rollout_ref.ref.", "critic."}) {
    same(model + "megatron.tensor_model_parallel_size", actor.tensor);
    same(model + "megatron.pipeline_model_parallel_size", actor.pipeline);
  }
}

RLCORE_INLINE std::string other_sizes(const options& opt, const strategy_keys& actor) {
  if (opt.known().find("critic.strategy") == nullptr) return {};
  std::string theirs, ours;
  const auto compare = [&](const std::string& name, const asked_size& size) {
    if (!opt.is_set(name) || opt.get<std::int64_t>(name) == size.ranks) return;
    theirs += (theirs.empty() ? "" : ", ") + name + "=" + std::to_string(opt.get<std::int64_t>(name));
    if (ours.find(size.text()) == std::string::npos) ours += (ours.empty() ? "" : ", ") + size.text();
  };
  for (const std::string model : {"actor_rollout_ref.ref.", "critic."}) {
    if (actor.strategy != "megatron") {
      compare(model + "ulysses_sequence_parallel_size", actor.context);
      continue;
    }
    compare(model + "megatron.context_parallel_size", actor.context);
    compare(model + "megatron.expert_model_parallel_size", actor.expert);
  }
  if (theirs.empty()) return {};
  return theirs + ": all models of a run share the work as the actor does (" + ours +
         "), with the same values up to rounding";
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE std::int64_t asked_ranks(const options& opt) {
  if (!opt.is_set("trainer.nnodes") && !opt.is_set("trainer.n_gpus_per_node")) return 0;
  if (!opt.is_set("trainer.n_gpus_per_node") && opt.get<std::int64_t>("trainer.nnodes") == 1) return 0;
  return opt.get<std::int64_t>("trainer.nnodes") *
         (opt.is_set("trainer.n_gpus_per_node") ? opt.get<std::int64_t>("trainer.n_gpus_per_node") : 1);
}

RLCORE_INLINE int thread_ranks(const options& opt, int started) {
  const std::int64_t asked = asked_ranks(opt), nodes = opt.get<std::int64_t>("trainer.nnodes");
  if (started > 1) {
    if (asked > 0 && asked != started)
      throw config_error("trainer.nnodes=" + std::to_string(nodes) + " x trainer.n_gpus_per_node=" +
                         std::to_string(asked / nodes) + " = " + std::to_string(asked) + " ranks, mpirun started " +
                         std::to_string(started) + ": leave both out, or start as many" + detail::rank_flags(opt));
    return 1;
  }
  if (nodes > 1)
    throw config_error("trainer.nnodes=" + std::to_string(nodes) + ": ranks on several machines are started by MPI: " +
                       "mpirun -np " + std::to_string(asked) + " --hostfile hosts build/bin/" + opt.known().program +
                       " ...; without it trainer.nnodes=1" + detail::rank_flags(opt));
  if (asked > 1024)
    throw config_error("trainer.n_gpus_per_node=" + std::to_string(asked) +
                       ": expected at most 1024 ranks in one process");
  return asked > 0 ? static_cast<int>(asked) : 1;
}

RLCORE_INLINE parallel::parallel_settings read_parallel(const options& opt, int ranks) {
  const detail::strategy_keys k = detail::read_strategy(opt);
  parallel::parallel_settings s;
  s.zero = detail::zero_of(opt, k);
  s.reduction =
      parallel::named<parallel::reduction_kind>(parallel::reduction_names, opt.get<std::string>("rlcore.reduction"));
  s.leaves = static_cast<int>(gradient_leaves(opt));
  s.tp_reduce_chunks = static_cast<int>(opt.get<std::int64_t>("rlcore.row_chunks"));
  if (opt.known().find("trainer.balance_batch") != nullptr) s.balance = opt.get<bool>("trainer.balance_batch");
  detail::check_context_override(opt, k);
  if (ranks == 1) return s;

  detail::check_other_models(opt, k);
  s.pipeline = detail::read_pipeline(opt, k, s.zero);
  const std::int64_t product = k.tensor.ranks * k.context.ranks * k.pipeline.ranks;
  if (ranks % product != 0) {
    std::string sizes;
    for (const detail::asked_size* size : {&k.pipeline, &k.tensor, &k.context})
      if (size->ranks > 1) sizes += (sizes.empty() ? "" : " x ") + size->text();
    throw config_error(sizes + " does not divide the " + std::to_string(ranks) + " ranks");
  }
  const std::int64_t shared = ranks / (k.tensor.ranks * k.pipeline.ranks);
  if (shared % k.expert.ranks != 0)
    throw config_error(k.expert.text() + " does not divide the " + std::to_string(shared) +
                       " ranks that share the data");
  s.tensor = static_cast<int>(k.tensor.ranks), s.context = static_cast<int>(k.context.ranks);
  s.expert = static_cast<int>(k.expert.ranks);
  s.data = static_cast<int>(ranks / product);
  s.how_context = detail::context_kind_of(opt, k);
  if (k.strategy == "megatron" && s.tensor > 1)
    s.sequence_parallel = opt.get<bool>("actor_rollout_ref.actor.megatron.sequence_parallel");
  if (!k.fsdp.empty() && s.zero == 3) {
    s.reshard_after_forward = opt.get<bool>(k.fsdp + "reshard_after_forward");
    const std::int64_t group = opt.get<std::int64_t>(k.fsdp + "fsdp_size");
    if (group == 0 || (group > 0 && shared % group != 0))
      throw config_error(k.fsdp + "fsdp_size=" + std::to_string(group) + " does not divide the " +
                         std::to_string(shared) + " ranks; -1: one group of all");
    s.shard_ranks = group > 0 && group < shared ? static_cast<int>(group) : 0;
  }
  std::string wire = opt.find<std::string>("rlcore.reduce_dtype").value_or("");
  if (const std::string mixed = k.fsdp + "mixed_precision.reduce_dtype";
      wire.empty() && opt.known().find(mixed) != nullptr)
    wire = opt.find<std::string>(mixed).value_or("");
  s.bf16_wire = wire.starts_with("bf");
  return s;
}

RLCORE_INLINE void check_rank_options(options& opt, int started) {
  if (opt.known().find("rlcore.zero_stage") == nullptr) return;
  const detail::strategy_keys k = detail::read_strategy(opt);
  for (const std::string size : {"tensor_model", "pipeline_model", "context", "expert_model"})
    if (const std::string name = "actor_rollout_ref.actor.megatron." + size + "_parallel_size";
        k.strategy != "megatron" && opt.known().find(name) != nullptr && opt.is_set(name) &&
        opt.get<std::int64_t>(name) > 1)
      opt.note(name + "=" + std::to_string(opt.get<std::int64_t>(name)) + ": no effect with strategy=" + k.strategy +
               "; it is read with actor_rollout_ref.actor.strategy=megatron");
  detail::note_pipeline(opt, k);
  if (opt.get<std::string>("rlcore.reduction") == "fast")
    opt.note("rlcore.reduction=fast: no engine of this build adds up by itself, the order is that of ranked");
  if (started > 1 || asked_ranks(opt) > 1) {
    if (const std::string sizes = detail::other_sizes(opt, k); !sizes.empty()) opt.note(sizes);
    return;
  }
  std::string idle;
  for (const detail::asked_size* size : {&k.tensor, &k.context, &k.expert, &k.pipeline})
    if (size->ranks > 1) idle += (idle.empty() ? "" : ", ") + size->text();
  if (!idle.empty()) opt.note(idle + ": no effect on one rank; trainer.n_gpus_per_node=N or mpirun -np N starts more");
}

RLCORE_INLINE void check_device_options(options& opt) {
  check_rank_options(opt, parallel::ranks_of_environment());
  const std::string device = opt.get<std::string>("trainer.device");
  const device_abilities& can = asked_device(opt);
  if (const std::string why = device == "cuda" ? nvidia::why_not_installed() : std::string(); !why.empty()) {
    const std::string text = "trainer.device=" + why;  // "cuda: no NVIDIA driver ..."
    if (opt.get<bool>("rlcore.cuda.required")) throw config_error(text + " (rlcore.cuda.required=True)");
    opt.note(text + "; the run uses the CPU");
  }
  if (device == "cuda_emulator")
    opt.note("trainer.device=cuda_emulator: the kernels of trainer.device=cuda run on the CPU, for tests; slow");
  if (device == "npu_emulator")
    opt.note(
        "trainer.device=npu_emulator: a model of the NPU's arithmetic on the CPU; its numbers are modelled, no "
        "hardware has seen them");
  if (!can.hf32 && opt.find<std::string>("rlcore.compute") == "hf32")
    throw config_error("rlcore.compute=hf32 needs trainer.device=npu or npu_emulator; expected float32 or bfloat16");
  const auto idle = [&](std::string_view name) {
    if (opt.is_set(name)) opt.note(std::string(name) + " has no effect with trainer.device=" + device);
  };
  if (!can.instruction_sets) idle("rlcore.instruction_set");
  if (!can.threads) idle("rlcore.threads");
  const auto concerns = [](const device_abilities& d, const key& k) {
    return std::ranges::any_of(d.own_keys, [&](auto own) { return !own.empty() && k.name.starts_with(own); });
  };
  for (const key& k : opt.known().keys())
    if (!concerns(can, k) && std::ranges::any_of(device_kinds, [&](const auto& d) { return concerns(d, k); }))
      idle(k.name);
  const std::string on_device = "on the " + std::string(can.unit);
  if (opt.known().find("rlcore.rollout_weights") == nullptr) return;
  if (!can.int8_weights && opt.get<std::string>("rlcore.rollout_weights") == "int8")
    throw config_error("rlcore.rollout_weights=int8 is not " + on_device + "; expected same");
  if (can.batch_invariant || opt.known().find("rlcore.recompute_old_log_prob") == nullptr) return;
  if (trains_asynchronously(opt)) return;  // what is recorded stays
  if (opt.is_set("rlcore.recompute_old_log_prob") && !opt.get<bool>("rlcore.recompute_old_log_prob"))
    opt.note("rlcore.recompute_old_log_prob=False: True " + on_device + ", where a sum's order depends on the batch");
  opt.set("rlcore.recompute_old_log_prob", value(true));
}

}  // namespace train
RLCORE_END
#endif
