// aclrtMalloc to aclrtMemsetAsync: memory and copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/npu/abi/types.hpp"
#include "rlcore/emulator/device_memory.hpp"
#include "rlcore/emulator/machine.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// Allocates memory of the current device, with any policy; 207001 if no free range is large enough.
aclError aclrtMalloc(void** device, std::size_t bytes, memory_policy);

/// Frees memory of the current device, see memory_system::free().
aclError aclrtFree(void* device);

/// Pinned memory of the host.
aclError aclrtMallocHost(void** host, std::size_t bytes);

/// Frees pinned memory of the host.
aclError aclrtFreeHost(void* host);

/// Source or destination of a copy: an address and its allocation.
struct copy_end {
  std::byte* data = nullptr;  ///< its address on the host
  std::shared_ptr<block> allocation;
  memory_system::place::kind where = memory_system::place::pageable;
};

/// Looks up an address for a copy. Returns 0 or the error.
int find_end(const entry& call, const void* p, std::size_t bytes, const char* role, copy_end& end);

/// Checks the arguments of a copy and looks up its source and destination.
int find_ends(const entry& call, void* to, std::size_t room, const void* from, std::size_t bytes, copy_kind kind,
              copy_end& target, copy_end& source);

/// Copies at once, not ordered with any stream.
aclError aclrtMemcpy(void* to, std::size_t room, const void* from, std::size_t bytes, copy_kind kind);

/// Called in a task: holds the allocation of the source or destination, which must still be alive.
inline void hold_in_task(const copy_end& end) {
  if (end.allocation != nullptr && !machine::instance().memory.hold(*current_use(), end.allocation))
    throw outcome_error{errors::core_exception,
                        hexadecimal(end.allocation->address) + " was freed before its turn came"};
}

/// Asynchronous if the host memory is pinned; otherwise it returns when the stream has done the copy.
aclError aclrtMemcpyAsync(void* to, std::size_t room, const void* from, std::size_t bytes, copy_kind kind,
                          aclrtStream stream);

/// Checks the arguments of aclrtMemset and aclrtMemsetAsync.
int find_memset(const entry& call, void* p, std::size_t room, std::size_t bytes, copy_end& end);

/// Sets bytes of device or pinned memory at once, not ordered with any stream.
aclError aclrtMemset(void* device, std::size_t room, std::int32_t value, std::size_t bytes);

/// Sets bytes of device or pinned memory in the order of the stream.
aclError aclrtMemsetAsync(void* device, std::size_t room, std::int32_t value, std::size_t bytes, aclrtStream stream);

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE aclError aclrtMalloc(void** device, std::size_t bytes, memory_policy) {
  entry call("aclrtMalloc");
  if (call.code != 0) return call.code;
  if (device == nullptr) return call.refuse(errors::invalid_parameter, "device is null");
  if (bytes == 0) return call.refuse(errors::invalid_parameter, "0 bytes");
  const int where = call.context->device;
  call.lock.unlock();
  const std::shared_ptr<block> b = call.m.memory.allocate(where, bytes);
  if (b == nullptr)
    return call.refuse(errors::out_of_memory, "device " + std::to_string(where) + " has no " + std::to_string(bytes) +
                                                  " bytes left in one piece");
  *device = reinterpret_cast<void*>(b->address);
  return 0;
}

RLCORE_INLINE aclError aclrtFree(void* device) {
  entry call("aclrtFree");
  if (call.code != 0) return call.code;
  if (device == nullptr) return call.refuse(errors::invalid_parameter, "null");
  const int where = call.context->device;
  call.lock.unlock();
  return call.m.memory.free(where, device);
}

RLCORE_INLINE aclError aclrtMallocHost(void** host, std::size_t bytes) {
  entry call("aclrtMallocHost");
  if (call.code != 0) return call.code;
  if (host == nullptr) return call.refuse(errors::invalid_parameter, "host is null");
  if (bytes == 0) return call.refuse(errors::parameter, "0 bytes");
  const std::shared_ptr<block> b = call.m.memory.allocate_pinned(bytes);
  if (b == nullptr)
    return call.refuse(errors::out_of_memory, "the host has no " + std::to_string(bytes) + " bytes left");
  *host = reinterpret_cast<void*>(b->address);
  return 0;
}

RLCORE_INLINE aclError aclrtFreeHost(void* host) {
  entry call("aclrtFreeHost");
  if (call.code != 0) return call.code;
  if (host == nullptr) return call.refuse(errors::invalid_parameter, "null");
  return call.m.memory.free_pinned(host);
}

RLCORE_INLINE int find_end(const entry& call, const void* p, std::size_t bytes, const char* role, copy_end& end) {
  const memory_system::place at = call.m.memory.find(p, bytes);
  end = {static_cast<std::byte*>(const_cast<void*>(p)), at.allocation, at.where};
  const std::string name = std::string(role) + " " + hexadecimal(reinterpret_cast<std::uintptr_t>(p));
  if (at.where == memory_system::place::device) {
    if (at.of_device != call.context->device)
      return call.refuse(errors::parameter, name + " lies on device " + std::to_string(at.of_device) +
                                                ", the current one is " + std::to_string(call.context->device));
    if (at.allocation == nullptr) return call.refuse(errors::parameter, name + ": no memory is allocated there");
    end.data = call.m.memory.contents(*at.allocation, p);
  }
  if (at.allocation != nullptr && !at.inside)
    return call.refuse(errors::parameter, name + ": " + std::to_string(bytes) + " bytes reach past the allocation of " +
                                              std::to_string(at.allocation->bytes));
  return 0;
}

RLCORE_INLINE int find_ends(const entry& call, void* to, std::size_t room, const void* from, std::size_t bytes,
                            copy_kind kind, copy_end& target, copy_end& source) {
  if (to == nullptr || from == nullptr) return call.refuse(errors::invalid_parameter, "null");
  const int number = static_cast<int>(kind);
  if (number < 0 || number > 4) return call.refuse(errors::invalid_parameter, "no kind " + std::to_string(number));
  if (bytes == 0) return call.refuse(errors::parameter, "0 bytes");
  if (bytes > room)
    return call.refuse(errors::parameter, std::to_string(bytes) + " bytes into room for " + std::to_string(room));
  if (const int code = find_end(call, to, bytes, "target", target); code != 0) return code;
  if (const int code = find_end(call, from, bytes, "source", source); code != 0) return code;
  if (kind == copy_kind::automatic) return 0;
  const bool to_device = target.where == memory_system::place::device;
  const bool from_device = source.where == memory_system::place::device;
  const bool right = to_device == (kind == copy_kind::host_to_device || kind == copy_kind::device_to_device) &&
                     from_device == (kind == copy_kind::device_to_host || kind == copy_kind::device_to_device);
  if (!right)
    return call.refuse(errors::parameter, std::string("the copy goes from ") + (from_device ? "device" : "host") +
                                              " to " + (to_device ? "device" : "host") + " memory, its kind is " +
                                              std::to_string(number));
  return 0;
}

RLCORE_INLINE aclError aclrtMemcpy(void* to, std::size_t room, const void* from, std::size_t bytes, copy_kind kind) {
  entry call("aclrtMemcpy");
  if (call.code != 0) return call.code;
  copy_end target, source;
  if (const int code = find_ends(call, to, room, from, bytes, kind, target, source); code != 0) return code;
  memory_use use;
  for (const copy_end* end : {&target, &source}) {
    if (end->allocation == nullptr || call.m.memory.hold(use, end->allocation)) continue;
    call.m.memory.release(use);
    return call.refuse(errors::parameter, "the memory has been freed");
  }
  call.lock.unlock();
  move_bytes(target.data, source.data, bytes);
  if (call.m.memory.release(use)) return call.refuse(errors::core_exception, "memory was freed during the copy");
  return 0;
}

RLCORE_INLINE aclError aclrtMemcpyAsync(void* to, std::size_t room, const void* from, std::size_t bytes, copy_kind kind,
                                        aclrtStream stream) {
  entry call("aclrtMemcpyAsync");
  if (call.code != 0) return call.code;
  copy_end target, source;
  if (const int code = find_ends(call, to, room, from, bytes, kind, target, source); code != 0) return code;
  const auto on_device = [](const copy_end& e) { return e.where == memory_system::place::device; };
  if (!on_device(target) && !on_device(source))
    return call.refuse(errors::unsupported, "no asynchronous copies from host to host");
  const std::shared_ptr<stream_queue> queue = call.stream(stream);
  if (queue == nullptr) return call.code;
  const bool blocks = target.where == memory_system::place::pageable || source.where == memory_system::place::pageable;
  const auto done = blocks ? std::make_shared<moment>() : nullptr;
  const int code = stream_queue::submit(queue, {call.name,
                                                [target, source, bytes] {
                                                  hold_in_task(target);
                                                  hold_in_task(source);
                                                  move_bytes(target.data, source.data, bytes);
                                                },
                                                done});
  call.lock.unlock();
  if (code == 0 && done != nullptr) done->wait();  // the next synchronisation reports an error, as for other tasks
  return code;
}

RLCORE_INLINE int find_memset(const entry& call, void* p, std::size_t room, std::size_t bytes, copy_end& end) {
  if (p == nullptr) return call.refuse(errors::invalid_parameter, "null");
  if (bytes == 0) return call.refuse(errors::parameter, "0 bytes");
  if (bytes > room)
    return call.refuse(errors::parameter, std::to_string(bytes) + " bytes of room for " + std::to_string(room));
  if (const int code = find_end(call, p, bytes, "target", end); code != 0) return code;
  if (end.where == memory_system::place::pageable)
    return call.refuse(errors::parameter, "not memory of aclrtMalloc or aclrtMallocHost");
  return 0;
}

RLCORE_INLINE aclError aclrtMemset(void* device, std::size_t room, std::int32_t value, std::size_t bytes) {
  entry call("aclrtMemset");
  if (call.code != 0) return call.code;
  copy_end target;
  if (const int code = find_memset(call, device, room, bytes, target); code != 0) return code;
  memory_use use;
  if (!call.m.memory.hold(use, target.allocation)) return call.refuse(errors::parameter, "the memory has been freed");
  call.lock.unlock();
  fill_bytes(target.data, static_cast<std::byte>(value), bytes);
  if (call.m.memory.release(use)) return call.refuse(errors::core_exception, "memory was freed meanwhile");
  return 0;
}

RLCORE_INLINE aclError aclrtMemsetAsync(void* device, std::size_t room, std::int32_t value, std::size_t bytes,
                                        aclrtStream stream) {
  entry call("aclrtMemsetAsync");
  if (call.code != 0) return call.code;
  copy_end target;
  if (const int code = find_memset(call, device, room, bytes, target); code != 0) return code;
  const std::shared_ptr<stream_queue> queue = call.stream(stream);
  if (queue == nullptr) return call.code;
  return stream_queue::submit(queue, {call.name,
                                      [target, value, bytes] {
                                        hold_in_task(target);
                                        fill_bytes(target.data, static_cast<std::byte>(value), bytes);
                                      },
                                      nullptr});
}

}  // namespace ascend::emulated
RLCORE_END
#endif
