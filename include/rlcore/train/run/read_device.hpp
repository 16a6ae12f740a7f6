// Opens the device selected by the options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/emulator/emulated_npu.hpp"
#include "rlcore/train/ranks/resources.hpp"
#include "rlcore/train/run/devices.hpp"

RLCORE_BEGIN
namespace train {

/// Reads trainer.device, rlcore.compute and the device-specific keys.
device_settings read_device(const options& opt);

/// The device of one of several ranks of a machine: its share of the cores, unless rlcore.threads sets their number,
/// and the NPU or GPU of its number.
device_settings place_device(device_settings s, local_place place);

/// The device that `s` describes. Throws a one-line device_error if this machine has none; no fallback.
std::unique_ptr<any_device> open_device_or_explain(const device_settings& s);
/// Opens the device that the options name. Throws device_error, which names trainer.device, if this machine has none.
inline std::unique_ptr<any_device> open_device(const options& opt) { return open_device_or_explain(read_device(opt)); }

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_RUN)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE device_settings read_device(const options& opt) {
  const auto number = [&](const char* key) { return static_cast<int>(opt.get<std::int64_t>(key)); };
  device_settings s;
  s.kind = asked_device(opt).kind;
  if (const auto type = opt.find<std::string>("rlcore.compute"))
    s.type = *type == "bfloat16" ? compute::bfloat16 : *type == "hf32" ? compute::hf32 : compute::float32;
  s.threads = number("rlcore.threads");
  s.instruction_set = opt.find<std::string>("rlcore.instruction_set").value_or("");
  const bool gpu = s.kind == device_kind::cuda || s.kind == device_kind::cuda_emulator;
  s.number = number(gpu ? "rlcore.cuda.device" : "rlcore.npu.device");
  s.deterministic = opt.get<bool>("rlcore.npu.deterministic");
  s.sync_each_operation = opt.get<bool>(gpu ? "rlcore.cuda.sync_each_operation" : "rlcore.npu.sync_each_operation");
  s.trace = opt.find<std::string>("rlcore.npu.trace").value_or("");

  const std::string emulator = "rlcore.npu_emulator.", soc = opt.get<std::string>(emulator + "soc");
  s.emulator.soc = soc;
  if (const ascend::emulated::chip* chip = ascend::emulated::find_chip(soc)) {
    s.emulator.cores = chip->cores;
    s.emulator.memory_bytes = static_cast<std::size_t>(chip->memory_gib) << 30;
  }
  if (const auto memory = opt.find<std::int64_t>(emulator + "memory_gb"))
    s.emulator.memory_bytes = static_cast<std::size_t>(*memory) << 30;
  s.emulator.cann_version = ascend::emulated::cann_version_of(opt.get<std::string>(emulator + "cann_version"));
  s.emulator.devices = s.emulated_gpus = s.number + 1;
  s.emulator.seed = static_cast<std::uint64_t>(opt.get<std::int64_t>(emulator + "seed"));
  s.emulator.exp_ulp = static_cast<int>(opt.get<std::int64_t>(emulator + "exp_ulp"));
  const std::string ties = opt.get<std::string>(emulator + "hf32_ties");
  using ascend::emulated::rounding;
  s.emulator.hf32_ties = ties == "even"   ? rounding::nearest_even
                         : ties == "away" ? rounding::nearest_away
                                          : rounding::nearest_zero;
  s.emulator.delay_microseconds = static_cast<int>(opt.get<std::int64_t>(emulator + "delay_microseconds"));
  s.emulator.strict = opt.get<bool>(emulator + "strict");
  s.emulator.reference = opt.get<bool>(emulator + "reference");
  s.emulator.threads = s.threads;
  s.kernel_cache = opt.find<std::string>("rlcore.cuda.cache").value_or("");
  s.thread_order_seed = static_cast<std::uint64_t>(opt.get<std::int64_t>("rlcore.cuda_emulator.seed"));
  return s;
}

RLCORE_INLINE device_settings place_device(device_settings s, local_place place) {
  if (s.threads == 0) s.threads = s.emulator.threads = core_counts::here().share(place.size);
  s.emulator.devices = s.emulated_gpus = s.number + place.size;  // one machine for all ranks of a process
  s.number += place.rank;
  return s;
}

RLCORE_INLINE std::unique_ptr<any_device> open_device_or_explain(const device_settings& s) {
  try {
    return rlcore::open_device(s);
  } catch (const device_error& e) {
    const bool npu = s.kind == device_kind::npu;
    if (!npu && s.kind != device_kind::cuda) throw;
    const std::string name = npu ? "npu" : "cuda";
    std::string why = e.what();
    if (why.starts_with(name + ": ")) why.erase(0, name.size() + 2);
    throw device_error("trainer.device=" + name + ": " + why + "; trainer.device=cpu needs none, trainer.device=" +
                       name + "_emulator " + (npu ? "models its arithmetic" : "runs its kernels") + " on the CPU");
  }
}

}  // namespace train
RLCORE_END
#endif
