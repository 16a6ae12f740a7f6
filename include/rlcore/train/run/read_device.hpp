// Opens the device selected by the options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/emulator/chips.hpp"
#include "rlcore/train/ranks/cores.hpp"
#include "rlcore/train/run/devices.hpp"

RLCORE_BEGIN
namespace train {

/// Reads trainer.device, rlcore.compute and the device-specific keys.
device_settings read_device(const options& opt);

/// The device of one of several ranks of a machine: its share of the cores, unless rlcore.threads sets their number,
/// and the NPU of its number.
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
  s.npu = number("rlcore.npu.device");
  s.deterministic = opt.get<bool>("rlcore.npu.deterministic");
  s.sync_each_operation = opt.get<bool>("rlcore.npu.sync_each_operation");
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
  s.emulator.devices = s.npu + 1;
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
  return s;
}

RLCORE_INLINE device_settings place_device(device_settings s, local_place place) {
  if (s.threads == 0) s.threads = s.emulator.threads = core_counts::here().share(place.size);
  s.emulator.devices = s.npu + place.size;  // one machine for all ranks of a process
  s.npu += place.rank;
  return s;
}

RLCORE_INLINE std::unique_ptr<any_device> open_device_or_explain(const device_settings& s) {
  try {
    return rlcore::open_device(s);
  } catch (const device_error& e) {
    if (s.kind != device_kind::npu) throw;
    std::string why = e.what();
    if (why.starts_with("npu: ")) why.erase(0, 5);
    throw device_error("trainer.device=npu: " + why +
                       "; trainer.device=cpu needs none, trainer.device=npu_emulator models its arithmetic on the CPU");
  }
}

}  // namespace train
RLCORE_END
#endif
