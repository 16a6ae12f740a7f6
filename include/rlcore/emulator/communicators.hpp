// HCCL communicators of the emulator: rank rendezvous, and the checks common to all collectives.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/emulator/machine.hpp"
#include "rlcore/emulator/rank_group.hpp"
#include "rlcore/emulator/rank_sum.hpp"
#include "rlcore/emulator/tasks.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// One rank's communicator.
struct communicator_state {
  std::shared_ptr<rank_group> group;
  std::uint32_t rank = 0;
  int device = 0;
  std::uint64_t collectives = 0;  ///< issued; one thread issues
};

/// All live communicators, and the groups whose ranks have not all joined.
struct communicator_table {
  std::mutex mutex;
  std::map<std::uint64_t, std::shared_ptr<rank_group>> forming;  ///< by the number in the root's token
  std::map<HcclComm, std::shared_ptr<communicator_state>> alive;
  std::uint64_t tokens = 0, handles = 0;

  static communicator_table& instance() {
    static auto* const one = new communicator_table;
    return *one;
  }
  /// Registers a rank's communicator; returns its handle, which is no valid address and is never reused.
  HcclComm add(std::shared_ptr<communicator_state> c);
  /// The communicator of a handle; null if the handle is invalid or destroyed.
  std::shared_ptr<communicator_state> find(HcclComm handle) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto at = alive.find(handle);
    return at == alive.end() ? nullptr : at->second;
  }
};

/// How long a rank waits for another, from the machine's settings.
inline std::chrono::milliseconds collective_deadline() {
  return std::chrono::milliseconds(machine_settings().collective_milliseconds);
}

/// Whether this call sums in a deterministic order: set by the context or by HCCL_DETERMINISTIC, or always on (A3).
bool deterministic_sums();

/// A call of a collective on the host: finds the communicator, runs the common checks, and enqueues.
struct collective_call {
  /// Checks that the communicator is alive and has not failed, the thread's device, and that no buffer is null.
  collective_call(const char* function, HcclComm handle, std::initializer_list<const void*> buffers = {});

  /// Sets the result to `code` and the error text to `why`.
  void refuse(int code, const std::string& why) { result = fail(code, std::string(name) + ": " + why); }
  /// Refuses types that HCCL does not support.
  void moves(hccl_type type) {
    if (result == 0 && bytes_of(type) == 0)
      refuse(hccl_errors::not_supported, "type " + std::to_string(static_cast<int>(type)) + " cannot be moved");
  }
  /// Refuses a rank beyond the last one.
  void ranked(std::uint32_t other) {
    if (result == 0 && other >= state->group->size())
      refuse(hccl_errors::parameter, "rank " + std::to_string(other) + " of " + std::to_string(state->group->size()));
  }

  /// run(state, number of this collective) on the stream's thread; messages between two ranks are not counted.
  template <class F>
  HcclResult enqueue(aclrtStream stream, F run, bool counted = true) {
    if (result != 0) return result;
    const std::uint64_t number = state->collectives;
    state->group->issued(state->rank);
    // Runs when the task ends or is dropped.
    const std::shared_ptr<void> end(nullptr, [s = state](void*) { s->group->finished(s->rank); });
    const int code =
        emulated::enqueue(stream, name, [run = std::move(run), s = state, number, end] { run(*s, number); });
    if (code != 0) return hccl_errors::runtime;
    if (counted) ++state->collectives;
    return 0;
  }

  const char* name;
  std::shared_ptr<communicator_state> state;
  HcclResult result = 0;
};

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE HcclComm communicator_table::add(std::shared_ptr<communicator_state> c) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto handle = reinterpret_cast<HcclComm>(std::uintptr_t{0x63} << 56 | ++handles << 4);  // no valid address
  alive.emplace(handle, std::move(c));
  born(host_object::communicator);
  return handle;
}

RLCORE_INLINE bool deterministic_sums() {
  const char* asked = std::getenv("HCCL_DETERMINISTIC");
  const std::string_view value = asked == nullptr ? "" : asked;
  return deterministic() || value == "true" || value == "TRUE" || value == "strict" || value == "STRICT" ||
         machine_settings().soc.rfind("Ascend910_93", 0) == 0;
}

RLCORE_INLINE collective_call::collective_call(const char* function, HcclComm handle,
                                               std::initializer_list<const void*> buffers)
    : name(function) {
  if (handle == nullptr)
    refuse(hccl_errors::pointer, "the communicator is null");
  else if (state = communicator_table::instance().find(handle); !state)
    refuse(hccl_errors::parameter, "not a communicator, or destroyed already");
  else if (state->group->failed() != 0)
    refuse(state->group->failed(), state->group->why());
  else if (current_device() != state->device)
    refuse(hccl_errors::runtime, "the communicator belongs to device " + std::to_string(state->device) +
                                     ", the thread's device is " + std::to_string(current_device()));
  for (const void* buffer : buffers)
    if (result == 0 && buffer == nullptr) refuse(hccl_errors::pointer, "a buffer is null");
}

}  // namespace ascend::emulated
RLCORE_END
#endif
