// What a command line says about the ranks that sample: how many of them have one copy of the weights together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rlcore/config/checks/device_checks.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {

/// The tensor parallel ranks of the rollout engine, in verl's words or OpenRLHF's; nothing, unless they are given.
inline std::optional<asked_size> asked_rollout(const options& opt) {
  for (const char* name : {"actor_rollout_ref.rollout.tensor_model_parallel_size", "vllm_tensor_parallel_size"})
    if (opt.known().find(name) != nullptr && opt.is_set(name))
      return asked_size{opt.get<std::int64_t>(name), opt.known().typed_name(name)};
  return std::nullopt;
}

}  // namespace detail

/// Neighbouring ranks that have one copy of the weights together while `ranks` of them sample, and the key that says
/// so; nothing where they sample with the weights as they are in training.
inline std::optional<detail::asked_size> rollout_ranks(const options& opt, int ranks) {
  const auto asked = detail::asked_rollout(opt);
  if (!asked || ranks == 1 || runs_on_npu(opt)) return std::nullopt;  // the NPU has no tensor parallelism
  return asked->ranks == detail::read_strategy(opt).tensor.ranks ? std::nullopt : asked;
}

/// Throws config_error unless those ranks divide all.
inline void check_rollout_ranks(const options& opt, int ranks) {
  if (const auto asked = rollout_ranks(opt, ranks); asked && ranks % asked->ranks != 0)
    throw config_error(asked->text() + " does not divide the " + std::to_string(ranks) + " ranks");
}

/// Notes about a key that one rank, or the device, has no use for.
inline void note_rollout_ranks(options& opt, int ranks) {
  const auto asked = detail::asked_rollout(opt);
  if (!asked || asked->ranks == 1) return;
  if (ranks <= 1)
    opt.note(asked->text() + ": no effect on one rank; trainer.n_gpus_per_node=N or mpirun -np N starts more");
  else if (runs_on_npu(opt))
    opt.note(asked->text() + ": no effect on the NPU, where each rank samples with whole weights");
}

}  // namespace trainer
RLCORE_END
