// The emulated machine: devices, contexts, streams, and what a task may do.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/npu/abi/types.hpp"
#include "rlcore/device/npu/npu_settings.hpp"
#include "rlcore/emulator/errors.hpp"
#include "rlcore/emulator/memory.hpp"
#include "rlcore/emulator/stream_queue.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// A context: its device, its default stream, and the failure state of its streams.
struct context_state {
  int device = 0;
  bool implicit = false;  ///< made by aclrtSetDevice, shared by all threads
  std::shared_ptr<failure_state> failure = std::make_shared<failure_state>();
  std::shared_ptr<stream_queue> default_stream;  ///< the null handle; made when first used
  bool deterministic = false;
};

/// An event, and when it was reached.
struct event_state {
  int device = 0;
  std::uint32_t flags = 0;
  std::shared_ptr<moment> last;  ///< of the latest record
};

/// State of a device, apart from its memory.
struct device_state {
  int references = 0;  ///< of aclrtSetDevice
  aclrtContext implicit_context = nullptr;
  overflow_mode overflow = overflow_mode::infnan;
  std::size_t streams = 0, events = 0;
};

/// Host objects that a program must destroy, counted for the report of aclFinalize.
enum class host_object { tensor, scalar, array, list, executor, communicator, count_ };
/// The vendor's name of the kind.
inline const char* name_of(host_object o) {
  constexpr const char* names[] = {"aclTensor", "aclScalar", "acl*Array", "acl*List", "aclOpExecutor", "HcclComm"};
  return names[static_cast<std::size_t>(o)];
}

/// The machine: devices, contexts, streams and events by their handles. instance() is the only one.
class machine {
 public:
  static constexpr std::size_t most_streams = 1984, most_events = 65536;  // of a device of the A2 and A3 series

  std::mutex life;   ///< held while the machine starts or ends; locked before all others
  std::mutex mutex;  ///< guards everything here but `memory`; locked before the mutexes of streams, memory and moments
  emulated::settings settings;
  bool initialised = false;
  memory_system memory;
  std::vector<device_state> devices;
  std::unordered_map<void*, std::shared_ptr<context_state>> contexts;
  std::unordered_map<void*, std::shared_ptr<stream_queue>> streams;
  std::unordered_map<void*, std::shared_ptr<event_state>> events;
  std::array<std::atomic<long>, static_cast<std::size_t>(host_object::count_)> objects{};
  std::string report;  ///< unreleased objects, one line each

  /// A handle that equals no pointer and is never reused.
  void* new_handle() { return reinterpret_cast<void*>(std::uintptr_t{0x72} << 56 | ++handles_ << 4); }

  /// Creates a stream in the context of the given handle and counts it for its device. The caller holds the mutex.
  std::shared_ptr<stream_queue> new_stream(aclrtContext handle, const context_state& context) {
    if (!at_exit_) at_exit_ = std::atexit([] { instance().end_threads(); }) == 0;
    ++devices[static_cast<std::size_t>(context.device)].streams;
    return std::make_shared<stream_queue>(memory, context.failure, handle, context.device, ++stream_number_, settings);
  }
  void restart_numbers() { stream_number_ = 0; }

  static machine& instance() {
    static machine* const one = new machine;  // never destroyed: threads may outlive main
    return *one;
  }

 private:
  machine() = default;

  /// For a process that exits without aclFinalize: threads must not run while statics are destroyed. A thread that does
  /// not end within two seconds is detached.
  void end_threads();

  std::uintptr_t handles_ = 0;
  std::uint32_t stream_number_ = 0;
  bool at_exit_ = false;
};

/// Sets the machine's settings from the next aclInit on and resets its state. If ranks are threads, each of them
/// configures the same machine; equal settings change nothing. Throws config_error for an impossible machine, and while
/// a machine with other settings is initialised.
void configure(settings s);
/// The settings of the last configure().
inline const settings& machine_settings() { return machine::instance().settings; }

/// The objects that the last aclFinalize found unreleased, one line each; empty if none.
inline std::string last_report() {
  machine& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  return m.report;
}

/// Counts a new host object.
inline void born(host_object o) { ++machine::instance().objects[static_cast<std::size_t>(o)]; }
/// Counts a destroyed host object.
inline void died(host_object o) { --machine::instance().objects[static_cast<std::size_t>(o)]; }

/// The context of the calling thread: null, or a handle that may have been destroyed since.
inline aclrtContext& current_context() {
  thread_local aclrtContext context = nullptr;
  return context;
}

/// A call into the machine: holds its mutex and knows the caller's context.
struct entry {
  /// `code` is 0, or an error: aclInit has not been called, or the thread has no live context.
  explicit entry(const char* function);
  /// Returns `number`, with the function's name and `why` as its text.
  int refuse(int number, const std::string& why) const { return fail(number, std::string(name) + ": " + why); }
  device_state& device() const { return m.devices[static_cast<std::size_t>(context->device)]; }

  /// The stream of a handle; null, and `code` set, if it is not one of the current context.
  std::shared_ptr<stream_queue> stream(aclrtStream handle);
  /// The event of a handle; null, and `code` set, if it is not one of the context's device.
  std::shared_ptr<event_state> event(aclrtEvent handle);

  const char* name;
  machine& m = machine::instance();
  std::unique_lock<std::mutex> lock;
  std::shared_ptr<context_state> context;
  int code = 0;
};

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

RLCORE_INLINE void machine::end_threads() {
  std::vector<std::shared_ptr<stream_queue>> queues;
  {
    const std::lock_guard lock(mutex);
    for (const auto& [handle, s] : streams) queues.push_back(s);
    for (const auto& [handle, c] : contexts)
      if (c->default_stream != nullptr) queues.push_back(c->default_stream);
  }
  for (const auto& s : queues) s->close(true);
  for (const auto& s : queues) s->join(std::chrono::seconds(2));
}

RLCORE_INLINE void configure(settings s) {
  validate(s);
  machine& m = machine::instance();
  const std::scoped_lock lock(m.life, m.mutex);
  if (m.initialised && m.settings == s) return;
  if (m.initialised) throw config_error("the emulated machine is in use: configure it before aclInit");
  m.settings = std::move(s);
}

RLCORE_INLINE entry::entry(const char* function) : name(function), lock(m.mutex) {
  if (!m.initialised) {
    code = refuse(errors::uninitialised, "aclInit has not been called");
    return;
  }
  const auto at = m.contexts.find(current_context());
  if (at == m.contexts.end()) {
    code = refuse(errors::no_context, "this thread has no current context; call aclrtSetDevice first");
    return;
  }
  context = at->second;
}

RLCORE_INLINE std::shared_ptr<stream_queue> entry::stream(aclrtStream handle) {
  if (handle == nullptr) {
    if (context->default_stream == nullptr) context->default_stream = m.new_stream(current_context(), *context);
    return context->default_stream;
  }
  const auto at = m.streams.find(handle);
  if (at == m.streams.end()) {
    code = refuse(errors::parameter, "not a stream, or destroyed already");
    return nullptr;
  }
  if (at->second->context != current_context()) {
    code = refuse(errors::stream_of_other_context,
                  "the stream belongs to another context, of device " + std::to_string(at->second->device));
    return nullptr;
  }
  return at->second;
}

RLCORE_INLINE std::shared_ptr<event_state> entry::event(aclrtEvent handle) {
  if (handle == nullptr) {
    code = refuse(errors::invalid_parameter, "the event is null");
    return nullptr;
  }
  const auto at = m.events.find(handle);
  if (at == m.events.end()) {
    code = refuse(errors::parameter, "not an event, or destroyed already");
    return nullptr;
  }
  if (at->second->device != context->device) {
    code = refuse(errors::stream_of_other_context, "the event belongs to device " + std::to_string(at->second->device));
    return nullptr;
  }
  return at->second;
}

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
