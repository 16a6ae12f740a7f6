// Checks of trainer.device and of device-specific keys.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/environment.hpp"

RLCORE_BEGIN
namespace trainer {

/// Throws config_error for features the device lacks; adds notes.
void check_device_options(options& opt);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE void check_device_options(options& opt) {
  check_rank_options(opt, parallel::ranks_of_environment());
  const std::string device = opt.get<std::string>("trainer.device");
  const device_abilities& can = asked_device(opt);
  if (device == "cuda") opt.note("trainer.device=cuda: this build has no CUDA; the run uses the CPU");
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
  if (opt.is_set("rlcore.recompute_old_log_prob") && !opt.get<bool>("rlcore.recompute_old_log_prob"))
    opt.note("rlcore.recompute_old_log_prob=False: True " + on_device + ", where a sum's order depends on the batch");
  opt.set("rlcore.recompute_old_log_prob", value(true));
}

}  // namespace trainer
RLCORE_END
#endif
