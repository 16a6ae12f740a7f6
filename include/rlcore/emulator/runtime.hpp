// Runtime functions (acl, aclrt) of the emulator; here those of streams, events and the table of all.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/device/npu/abi/types.hpp"
#include "rlcore/emulator/machine.hpp"
#include "rlcore/emulator/runtime_memory.hpp"
#include "rlcore/emulator/runtime_process.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// A stream of the current context. Priorities 0 to 7 and the two fast modes are accepted and change nothing.
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, std::uint32_t priority, std::uint32_t flag);
/// A stream of the current context.
inline aclError aclrtCreateStream(aclrtStream* stream) { return aclrtCreateStreamWithConfig(stream, 0, 0); }

/// Waits for the stream's remaining tasks. Returns an asynchronous error that has not been reported yet.
aclError aclrtDestroyStream(aclrtStream stream);

/// Waits for the stream, with a timeout in milliseconds (-1: none); returns an error that has not been reported yet.
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, std::int32_t milliseconds);
/// Waits for the stream; returns an asynchronous error that has not been reported yet.
inline aclError aclrtSynchronizeStream(aclrtStream stream) { return aclrtSynchronizeStreamWithTimeout(stream, -1); }

/// Waits for all streams of the device, of all contexts; returns one of their errors.
aclError aclrtSynchronizeDevice();

/// Whether the stream has finished all tasks.
aclError aclrtStreamQuery(aclrtStream stream, stream_status* status);

/// Once a stream stops at failures, all streams of its context do.
aclError aclrtSetStreamFailureMode(aclrtStream stream, failure_mode mode);

/// Creates an event of the current device; the flags are its permitted uses.
aclError aclrtCreateEventExWithFlag(aclrtEvent* event, std::uint32_t flag);

/// Destroys an event without waiting; pending waits for it stay valid.
aclError aclrtDestroyEvent(aclrtEvent event);

/// Records the event in the stream, replacing its earlier record.
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);

/// Makes the stream wait for the latest record so far; no wait if the event has none.
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);

/// Whether the latest record has been reached; complete if the event has none.
aclError aclrtQueryEventStatus(aclrtEvent event, event_status* status);

/// Waits for the latest record; returns the error that stopped the work before it, if any.
aclError aclrtSynchronizeEvent(aclrtEvent event);

/// Milliseconds between the latest records of two events, made with TIME_LINE and reached.
aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent start, aclrtEvent end);

/// Fills the table. Does not compile if the emulator lacks a function of the list or has it with other parameters.
inline void fill(runtime_calls& table) {
#define RLCORE_NPU_CALL(name, need, result, parameters) table.name = &emulated::name;
#include "rlcore/device/npu/abi/runtime.inc"
#undef RLCORE_NPU_CALL
}

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE aclError aclrtCreateStreamWithConfig(aclrtStream* stream, std::uint32_t priority, std::uint32_t flag) {
  entry call("aclrtCreateStream");
  if (call.code != 0) return call.code;
  if (stream == nullptr) return call.refuse(errors::invalid_parameter, "stream is null");
  if (priority > 7) return call.refuse(errors::parameter, "priority " + std::to_string(priority) + " is not 0 to 7");
  if ((flag & ~(stream_fast_launch | stream_fast_sync)) != 0)
    return call.refuse(errors::parameter, "flag " + std::to_string(flag) + " is not known to the emulator");
  if (call.device().streams >= machine::most_streams)
    return call.refuse(errors::no_stream_left, "a device has " + std::to_string(machine::most_streams) + " streams");
  *stream = call.m.new_handle();
  call.m.streams.emplace(*stream, call.m.new_stream(current_context(), *call.context));
  return 0;
}

RLCORE_INLINE aclError aclrtDestroyStream(aclrtStream stream) {
  std::shared_ptr<stream_queue> queue;
  {
    entry call("aclrtDestroyStream");
    if (call.code != 0) return call.code;
    if (stream == nullptr) return call.refuse(errors::invalid_parameter, "stream is null");
    queue = call.stream(stream);
    if (queue == nullptr) return call.code;
    call.m.streams.erase(stream);
    --call.device().streams;
  }
  queue->close(false);
  queue->join();
  return queue->take_error();
}

RLCORE_INLINE aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, std::int32_t milliseconds) {
  std::shared_ptr<stream_queue> queue;
  {
    entry call("aclrtSynchronizeStream");
    if (call.code != 0) return call.code;
    if (milliseconds < -1) return call.refuse(errors::parameter, "the time must be -1 or positive");
    queue = call.stream(stream);
    if (queue == nullptr) return call.code;
  }
  if (queue->is_this_thread()) return fail(errors::parameter, "aclrtSynchronizeStream: called by a task of the stream");
  if (!queue->wait(std::chrono::milliseconds(milliseconds)))
    return fail(errors::stream_timeout,
                "aclrtSynchronizeStream: not done after " + std::to_string(milliseconds) + " ms");
  return queue->take_error();
}

RLCORE_INLINE aclError aclrtSynchronizeDevice() {
  std::vector<std::shared_ptr<stream_queue>> queues;
  {
    const entry call("aclrtSynchronizeDevice");
    if (call.code != 0) return call.code;
    for (const auto& [handle, s] : call.m.streams)
      if (s->device == call.context->device) queues.push_back(s);
    for (const auto& [handle, c] : call.m.contexts)
      if (c->device == call.context->device && c->default_stream != nullptr) queues.push_back(c->default_stream);
  }
  int code = 0;
  for (const auto& queue : queues) {
    if (queue->is_this_thread())
      return fail(errors::parameter, "aclrtSynchronizeDevice: called by a task of the device");
    queue->wait();
    if (const int its = queue->take_error(); its != 0) code = its;
  }
  return code;
}

RLCORE_INLINE aclError aclrtStreamQuery(aclrtStream stream, stream_status* status) {
  entry call("aclrtStreamQuery");
  if (call.code != 0) return call.code;
  if (status == nullptr) return call.refuse(errors::invalid_parameter, "status is null");
  const std::shared_ptr<stream_queue> queue = call.stream(stream);
  if (queue == nullptr) return call.code;
  *status = queue->idle() ? stream_status::complete : stream_status::not_ready;
  return 0;
}

RLCORE_INLINE aclError aclrtSetStreamFailureMode(aclrtStream stream, failure_mode mode) {
  entry call("aclrtSetStreamFailureMode");
  if (call.code != 0) return call.code;
  const std::shared_ptr<stream_queue> queue = call.stream(stream);
  if (queue == nullptr) return call.code;
  if (mode != failure_mode::continue_on_failure && mode != failure_mode::stop_on_failure)
    return call.refuse(errors::parameter, "no such mode");
  if (mode == failure_mode::continue_on_failure && call.context->failure->stop)
    return call.refuse(errors::parameter, "the streams of this context stop at failures already");
  if (mode == failure_mode::stop_on_failure) call.context->failure->stop = true;
  return 0;
}

RLCORE_INLINE aclError aclrtCreateEventExWithFlag(aclrtEvent* event, std::uint32_t flag) {
  entry call("aclrtCreateEventExWithFlag");
  if (call.code != 0) return call.code;
  if (event == nullptr) return call.refuse(errors::invalid_parameter, "event is null");
  if (flag == 0 || (flag & ~(event_sync | event_time_line | 0x2u)) != 0)
    return call.refuse(errors::parameter, "flag " + std::to_string(flag) + " is not known to the emulator");
  if (call.device().events >= machine::most_events)
    return call.refuse(errors::no_event_left, "a device has " + std::to_string(machine::most_events) + " events");
  auto state = std::make_shared<event_state>();
  state->device = call.context->device;
  state->flags = flag;
  *event = call.m.new_handle();
  call.m.events.emplace(*event, std::move(state));
  ++call.device().events;
  return 0;
}

RLCORE_INLINE aclError aclrtDestroyEvent(aclrtEvent event) {
  entry call("aclrtDestroyEvent");
  if (call.code != 0) return call.code;
  const std::shared_ptr<event_state> state = call.event(event);
  if (state == nullptr) return call.code;
  call.m.events.erase(event);
  --call.device().events;
  return 0;
}

RLCORE_INLINE aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  entry call("aclrtRecordEvent");
  if (call.code != 0) return call.code;
  const std::shared_ptr<event_state> state = call.event(event);
  if (state == nullptr) return call.code;
  const std::shared_ptr<stream_queue> queue = call.stream(stream);
  if (queue == nullptr) return call.code;
  auto mark = std::make_shared<moment>();
  if (const int code = stream_queue::submit(queue, {call.name, nullptr, mark}); code != 0) return code;
  state->last = std::move(mark);
  return 0;
}

RLCORE_INLINE aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  entry call("aclrtStreamWaitEvent");
  if (call.code != 0) return call.code;
  const std::shared_ptr<event_state> state = call.event(event);
  if (state == nullptr) return call.code;
  const std::shared_ptr<stream_queue> queue = call.stream(stream);
  if (queue == nullptr) return call.code;
  if ((state->flags & event_sync) == 0)
    return call.refuse(errors::parameter, "the event was made without the SYNC flag");
  if (state->last == nullptr) return 0;
  return stream_queue::submit(queue, {call.name, [last = state->last] { last->wait(); }, nullptr});
}

RLCORE_INLINE aclError aclrtQueryEventStatus(aclrtEvent event, event_status* status) {
  entry call("aclrtQueryEventStatus");
  if (call.code != 0) return call.code;
  if (status == nullptr) return call.refuse(errors::invalid_parameter, "status is null");
  const std::shared_ptr<event_state> state = call.event(event);
  if (state == nullptr) return call.code;
  *status = state->last == nullptr || state->last->reached() ? event_status::complete : event_status::not_ready;
  return 0;
}

RLCORE_INLINE aclError aclrtSynchronizeEvent(aclrtEvent event) {
  std::shared_ptr<moment> last;
  {
    entry call("aclrtSynchronizeEvent");
    if (call.code != 0) return call.code;
    const std::shared_ptr<event_state> state = call.event(event);
    if (state == nullptr) return call.code;
    last = state->last;
  }
  const int code = last == nullptr ? 0 : last->wait();
  return code == 0 ? 0 : fail(code, "aclrtSynchronizeEvent: the stream failed before it came to the event");
}

RLCORE_INLINE aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent start, aclrtEvent end) {
  entry call("aclrtEventElapsedTime");
  if (call.code != 0) return call.code;
  if (milliseconds == nullptr) return call.refuse(errors::invalid_parameter, "milliseconds is null");
  const std::shared_ptr<event_state> first = call.event(start);
  if (first == nullptr) return call.code;
  const std::shared_ptr<event_state> second = call.event(end);
  if (second == nullptr) return call.code;
  for (const auto& state : {first, second}) {
    if ((state->flags & event_time_line) == 0)
      return call.refuse(errors::event_timestamp, "an event was made without the TIME_LINE flag");
    if (state->last == nullptr || !state->last->reached())
      return call.refuse(errors::event_timestamp, "an event has not been reached");
  }
  *milliseconds = std::chrono::duration<float, std::milli>(second->last->time() - first->last->time()).count();
  return 0;
}

}  // namespace ascend::emulated
RLCORE_END
#endif
