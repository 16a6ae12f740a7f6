// Task submission and device memory access for emulated operators and collectives.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/emulator/machine.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// Appends a task to a stream of the caller's context (null: its default stream). An exception of the task becomes the
/// asynchronous error of the stream. Returns 0, 100001, 107002, 107000 (no stream) or 107003 (another context's).
int enqueue(aclrtStream stream, const char* name, std::function<void()> task);

/// Host view of device memory. Called by a task, it also keeps the allocation for as long as the task runs; if the
/// program frees it meanwhile, the task fails. Null for no bytes. Throws outcome_error{507015}: freed, out of bounds,
/// never allocated, or memory of another device than the task's.
inline std::byte* shadow(const void* device_address, std::size_t bytes, [[maybe_unused]] access purpose) {
  return machine::instance().memory.view(current_use(), device_address, bytes);
}

/// The device of the running task; otherwise that of the caller's context; -1 without one.
int current_device();

/// Whether the caller's context asks for deterministic operators (aclrtCtxSetSysParamOpt); for phase 1.
bool deterministic();

/// The fp16 overflow mode of the device of the caller's context (aclrtSetDeviceSatMode); for phase 1.
overflow_mode saturation();

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE int enqueue(aclrtStream stream, const char* name, std::function<void()> task) {
  entry call(name);
  if (call.code != 0) return call.code;
  const std::shared_ptr<stream_queue> queue = call.stream(stream);
  if (queue == nullptr) return call.code;
  return stream_queue::submit(queue, {name, std::move(task), nullptr});
}

RLCORE_INLINE int current_device() {
  if (current_use() != nullptr) return current_use()->device;
  machine& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  const auto at = m.contexts.find(current_context());
  return at == m.contexts.end() ? -1 : at->second->device;
}

RLCORE_INLINE bool deterministic() {
  machine& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  const auto at = m.contexts.find(current_context());
  return at != m.contexts.end() && at->second->deterministic;
}

RLCORE_INLINE overflow_mode saturation() {
  machine& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  const auto at = m.contexts.find(current_context());
  return at == m.contexts.end() ? overflow_mode::infnan
                                : m.devices[static_cast<std::size_t>(at->second->device)].overflow;
}

}  // namespace ascend::emulated
RLCORE_END
#endif
