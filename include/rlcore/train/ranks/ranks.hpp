// Launches ranks (threads, or processes under mpirun), each with a device.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/config/settings/rollout_ranks.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/train/ranks/resources.hpp"
#include "rlcore/train/ranks/same_arithmetic.hpp"
#include "rlcore/train/run/read_device.hpp"

RLCORE_BEGIN
namespace train {

/// Opens the device of one of several ranks of a machine, see place_device().
inline std::unique_ptr<any_device> open_device(const options& opt, local_place place) {
  if (place.size == 1) return open_device(opt);
  device_settings s = place_device(read_device(opt), place);
  s.emulator.collective_milliseconds = static_cast<int>(
      std::min<std::chrono::milliseconds::rep>(rank_deadline(opt).count(), std::numeric_limits<int>::max()));
  if (parallel::ranks_of_environment() > 1) {  // one file per process
    const char* asked = std::getenv("RLCORE_NPU_TRACE");
    if (s.trace.empty() && asked != nullptr) s.trace = asked;
    if (!s.trace.empty()) s.trace += "." + std::to_string(parallel::rank_of_environment());
  }
  return open_device_or_explain(s);
}

/// Whether the devices of the ranks exchange their memory themselves, which all of them must be able to do. All ranks
/// call it together.
inline bool links_devices(const options& opt, parallel::any_communicator& ranks, const any_device& device) {
  const device_abilities& asked = asked_device(opt);
  if (ranks.size() == 1 || asked.groups_key.empty() || !opt.get<bool>(std::string(asked.groups_key))) return false;
  const bool reach = asked.groups_of_processes || ranks.engine() == std::string_view("threads");
  const char able = device.forms_groups() && reach;
  std::string of_all(static_cast<std::size_t>(ranks.size()), '\0');
  ranks.all_gather(std::span(&able, 1), std::span(of_all));
  if (of_all.find('\0') == std::string::npos) return true;
  say("note: %s exchange data through the host\n",
      reach ? "an NPU is without HCCL, so that ranks" : "emulated NPUs of several processes");
  return false;
}

/// Calls f(device, ranks) on every rank of this process and returns when all are done; rethrows the first exception.
/// Only the first rank prints. Throws config_error if devices or losses of ranks differ in their bits, and, before
/// anything starts, if the command line does not fit the number of ranks.
inline void on_ranks(const options& opt, const std::function<void(any_device&, parallel::any_communicator&)>& f) {
  const int started = parallel::ranks_of_environment(), threads = thread_ranks(opt, started);
  if (opt.known().find("rlcore.zero_stage") != nullptr) {
    read_parallel(opt, std::max(started, threads));
    check_rollout_ranks(opt, std::max(started, threads));
  }
  if (parallel::rank_of_environment() == 0 && asked_device(opt).threads) {
    const int here = started > 1 ? parallel::ranks_of_this_host() : threads;
    if (const std::string note = core_counts::here().note(here, started > 1); !note.empty())
      say("note: %s\n", note.c_str());
  }
  parallel::launch_settings settings;
  settings.thread_ranks = threads;
  settings.deadline = rank_deadline(opt);
  settings.fingerprint = settings.fingerprint || opt.get<bool>("rlcore.compare_collectives");
  detail::ranks_started() = true;
  parallel::launch(settings, [&](parallel::any_communicator& ranks) {
    const silence others(ranks.rank() != 0);
    const auto device = open_device(opt, find_local_place(ranks));
    if (ranks.size() > 1) expect_same_arithmetic(ranks, arithmetic_of(*device));
    std::optional<parallel::device_links> links;
    if (links_devices(opt, ranks, *device)) links.emplace(ranks, *device, settings.deadline);
    f(*device, ranks);
  });
}

}  // namespace train
RLCORE_END
