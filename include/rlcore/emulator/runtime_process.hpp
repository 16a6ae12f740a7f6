// aclInit to aclrtGetCurrentContext: the process, its devices and contexts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/npu/abi/types.hpp"
#include "rlcore/emulator/machine.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// Starts the machine of the last configure(); a configuration file is not read.
aclError aclInit(const char*);

/// Removes the contexts and streams of one device, or of all (-1), from the machine.
std::vector<std::shared_ptr<stream_queue>> take_streams(machine& m, int device);

/// Adds the unreleased objects of a device, or of the host (-1), to the report.
void report_left(machine& m, int device);

/// Ends the machine, its streams and its memory. Unreleased objects are written to stderr and to last_report().
aclError aclFinalize();

/// The texts of this thread's errors since the last call, the latest first; null if none.
const char* aclGetRecentErrMsg();

/// The name of the chip, settings::soc.
inline const char* aclrtGetSocName() { return machine_settings().soc.c_str(); }

/// The version of the settings: 80300 is "8.3.RC1", 80500 is "8.5.0".
aclError aclsysGetCANNVersion(package_name, package_version* version);

/// Exists from 8.5.0 on.
aclError aclsysGetVersionNum(char* package, std::int32_t* version);

/// The number of devices, settings::devices.
inline aclError aclrtGetDeviceCount(std::uint32_t* count) {
  if (count == nullptr) return fail(errors::invalid_parameter, "aclrtGetDeviceCount: count is null");
  *count = static_cast<std::uint32_t>(machine_settings().devices);
  return 0;
}

/// Makes the device's own context current in this thread, and increments the device's reference count.
aclError aclrtSetDevice(std::int32_t device);

/// Decrements the device's reference count. At zero it waits for the device's streams, destroys them and the contexts,
/// and frees the memory.
aclError aclrtResetDevice(std::int32_t device);

/// The device of the current context.
aclError aclrtGetDevice(std::int32_t* device);

/// Free and total bytes of the current device, the same for HBM and DDR.
aclError aclrtGetMemInfo(memory_kind kind, std::size_t* available, std::size_t* total);

/// Sets an option of the current context to 0 or 1; only deterministic sums have an effect.
aclError aclrtCtxSetSysParamOpt(system_option option, std::int64_t value);

/// Sets the fp16 overflow mode of the current device, see overflow_mode.
aclError aclrtSetDeviceSatMode(overflow_mode mode);

/// Creates a context of a device and makes it current in this thread.
aclError aclrtCreateContext(aclrtContext* context, std::int32_t device);

/// Destroys a context of aclrtCreateContext once its default stream is done; refused while it has other streams.
aclError aclrtDestroyContext(aclrtContext context);

/// Makes a context current in this thread.
aclError aclrtSetCurrentContext(aclrtContext context);

/// The context of this thread; 107002 if it has none.
aclError aclrtGetCurrentContext(aclrtContext* context);

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE aclError aclInit(const char*) {
  machine& m = machine::instance();
  const std::scoped_lock lock(m.life, m.mutex);
  if (m.initialised) return fail(errors::repeated_initialise, "aclInit: called before");
  if (!m.memory.start(m.settings))
    return fail(errors::bad_allocation, "aclInit: the host cannot reserve address space for the emulated devices");
  m.devices.assign(static_cast<std::size_t>(m.settings.devices), device_state{});
  for (auto& count : m.objects) count = 0;
  m.restart_numbers();
  m.report.clear();
  m.initialised = true;
  return 0;
}

RLCORE_INLINE std::vector<std::shared_ptr<stream_queue>> take_streams(machine& m, int device) {
  std::vector<std::shared_ptr<stream_queue>> taken;
  const auto of_it = [&](int d) { return device < 0 || d == device; };
  for (auto at = m.streams.begin(); at != m.streams.end();) {
    if (of_it(at->second->device)) {
      taken.push_back(at->second);
      at = m.streams.erase(at);
    } else {
      ++at;
    }
  }
  for (auto at = m.contexts.begin(); at != m.contexts.end();) {
    if (of_it(at->second->device)) {
      if (at->second->default_stream != nullptr) taken.push_back(at->second->default_stream);
      at = m.contexts.erase(at);
    } else {
      ++at;
    }
  }
  return taken;
}

RLCORE_INLINE void report_left(machine& m, int device) {
  const std::string where = device < 0 ? "the host" : "device " + std::to_string(device);
  const auto line = [&](std::size_t n, const std::string& problem) {
    if (n != 0) m.report += where + ": " + std::to_string(n) + " " + problem + "\n";
  };
  if (device >= 0) {
    std::size_t streams = 0, pending = 0, events = 0, contexts = 0;
    for (const auto& [handle, s] : m.streams) {
      if (s->device != device) continue;
      ++streams;
      pending += s->pending();
    }
    for (const auto& [handle, e] : m.events) events += e->device == device;
    for (const auto& [handle, c] : m.contexts) contexts += c->device == device && !c->implicit;
    line(streams, "streams not destroyed");
    line(pending, "tasks not waited for");
    line(events, "events not destroyed");
    line(contexts, "contexts not destroyed");
  }
  const auto memory = m.memory.left(device);
  line(memory.blocks, "allocations not freed (" + std::to_string(memory.bytes) + " bytes)");
  line(memory.overrun, "allocations written past their end");
  if (device < 0) {
    for (std::size_t o = 0; o < m.objects.size(); ++o) {
      if (const long n = m.objects[o]; n > 0)
        line(static_cast<std::size_t>(n), name_of(static_cast<host_object>(o)) + std::string(" not destroyed"));
    }
  }
}

RLCORE_INLINE aclError aclFinalize() {
  machine& m = machine::instance();
  std::vector<std::shared_ptr<stream_queue>> ended;
  const std::lock_guard life(m.life);
  {
    const std::lock_guard lock(m.mutex);
    if (!m.initialised) return fail(errors::repeated_finalise, "aclFinalize: not initialised");
    for (int d = 0; d < static_cast<int>(m.devices.size()); ++d) {
      const int references = m.devices[static_cast<std::size_t>(d)].references;
      report_left(m, d);
      if (references == 0) continue;
      m.report += "device " + std::to_string(d) + ": not reset (aclrtSetDevice was called " +
                  std::to_string(references) + " times more than aclrtResetDevice)\n";
    }
    report_left(m, -1);
    ended = take_streams(m, -1);
    m.events.clear();
    m.initialised = false;
    if (!m.report.empty())
      std::fputs(("rlcore: emulated " + m.settings.soc + ": not released\n" + m.report).c_str(), stderr);
  }
  for (const auto& s : ended) s->close(true);
  for (const auto& s : ended) s->join();
  m.memory.stop();
  return 0;
}

RLCORE_INLINE const char* aclGetRecentErrMsg() {
  error_text& text = this_threads_error();
  if (text.pending.empty()) return nullptr;
  text.fetched = std::exchange(text.pending, {});
  return text.fetched.c_str();
}

RLCORE_INLINE aclError aclsysGetCANNVersion(package_name, package_version* version) {
  if (version == nullptr) return fail(errors::invalid_parameter, "aclsysGetCANNVersion: version is null");
  const int v = machine_settings().cann_version, first = v / 10000, second = v / 100 % 100, patch = v % 100;
  const std::string last = second < 5 && patch == 0 ? "RC1" : std::to_string(patch);
  *version = {};
  const auto put = [](auto& to, const std::string& text) { std::snprintf(to, sizeof(to), "%s", text.c_str()); };
  put(version->version, std::to_string(first) + "." + std::to_string(second) + "." + last);
  put(version->major_version, std::to_string(first));
  put(version->minor_version, std::to_string(second));
  put(version->release_version, last == "RC1" ? last : "");
  put(version->patch_version, std::to_string(patch));
  return 0;
}

RLCORE_INLINE aclError aclsysGetVersionNum(char* package, std::int32_t* version) {
  if (package == nullptr || version == nullptr) return fail(errors::invalid_parameter, "aclsysGetVersionNum: null");
  const int v = machine_settings().cann_version;
  if (v < 80500) return fail(200001, "aclsysGetVersionNum: not in this version of CANN");
  *version = v / 10000 * 10000000 + v / 100 % 100 * 100000 + v % 100 * 1000;
  return 0;
}

RLCORE_INLINE aclError aclrtSetDevice(std::int32_t device) {
  machine& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  if (!m.initialised) return fail(errors::uninitialised, "aclrtSetDevice: aclInit has not been called");
  if (device < 0 || device >= m.settings.devices)
    return fail(errors::invalid_device, "aclrtSetDevice: no device " + std::to_string(device) + "; there are " +
                                            std::to_string(m.settings.devices));
  device_state& d = m.devices[static_cast<std::size_t>(device)];
  if (d.references++ == 0) {
    d.implicit_context = m.new_handle();
    auto context = std::make_shared<context_state>();
    context->device = device;
    context->implicit = true;
    m.contexts.emplace(d.implicit_context, std::move(context));
  }
  current_context() = d.implicit_context;
  return 0;
}

RLCORE_INLINE aclError aclrtResetDevice(std::int32_t device) {
  machine& m = machine::instance();
  std::vector<std::shared_ptr<stream_queue>> ended;
  {
    const std::lock_guard lock(m.mutex);
    if (!m.initialised) return fail(errors::uninitialised, "aclrtResetDevice: aclInit has not been called");
    if (device < 0 || device >= m.settings.devices)
      return fail(errors::invalid_device, "aclrtResetDevice: no device " + std::to_string(device));
    device_state& d = m.devices[static_cast<std::size_t>(device)];
    if (d.references == 0)
      return fail(errors::no_context, "aclrtResetDevice: device " + std::to_string(device) + " is not set");
    if (--d.references != 0) return 0;
    report_left(m, device);
    ended = take_streams(m, device);
    for (auto at = m.events.begin(); at != m.events.end();)
      at = at->second->device == device ? m.events.erase(at) : std::next(at);
    d = {};
  }
  for (const auto& s : ended) s->close(false);
  for (const auto& s : ended) s->join();
  const std::lock_guard lock(m.mutex);  // unless another thread has set the device again
  bool in_use =
      !m.initialised || device >= m.settings.devices || m.devices[static_cast<std::size_t>(device)].references != 0;
  for (const auto& [handle, c] : m.contexts) in_use = in_use || c->device == device;
  if (!in_use) m.memory.clear(device);
  return 0;
}

RLCORE_INLINE aclError aclrtGetDevice(std::int32_t* device) {
  const entry call("aclrtGetDevice");
  if (call.code != 0) return call.code;
  if (device == nullptr) return call.refuse(errors::invalid_parameter, "device is null");
  *device = call.context->device;
  return 0;
}

RLCORE_INLINE aclError aclrtGetMemInfo(memory_kind kind, std::size_t* available, std::size_t* total) {
  const entry call("aclrtGetMemInfo");
  if (call.code != 0) return call.code;
  if (available == nullptr || total == nullptr) return call.refuse(errors::invalid_parameter, "null");
  if (kind != memory_kind::hbm && kind != memory_kind::ddr)
    return call.refuse(errors::parameter, "no memory of kind " + std::to_string(static_cast<int>(kind)));
  std::tie(*available, *total) = call.m.memory.available_and_total(call.context->device);
  return 0;
}

RLCORE_INLINE aclError aclrtCtxSetSysParamOpt(system_option option, std::int64_t value) {
  const entry call("aclrtCtxSetSysParamOpt");
  if (call.code != 0) return call.code;
  const int number = static_cast<int>(option);
  if (number < 0 || number > (call.m.settings.cann_version < 80500 ? 1 : 2))
    return call.refuse(errors::parameter, "no option " + std::to_string(number));
  if (value != 0 && value != 1) return call.refuse(errors::parameter, "value " + std::to_string(value));
  if (option == system_option::deterministic) call.context->deterministic = value != 0;
  return 0;
}

RLCORE_INLINE aclError aclrtSetDeviceSatMode(overflow_mode mode) {
  const entry call("aclrtSetDeviceSatMode");
  if (call.code != 0) return call.code;
  if (mode != overflow_mode::saturation && mode != overflow_mode::infnan)
    return call.refuse(errors::parameter, "mode " + std::to_string(static_cast<int>(mode)));
  call.device().overflow = mode;
  return 0;
}

RLCORE_INLINE aclError aclrtCreateContext(aclrtContext* context, std::int32_t device) {
  machine& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  if (!m.initialised) return fail(errors::uninitialised, "aclrtCreateContext: aclInit has not been called");
  if (context == nullptr) return fail(errors::invalid_parameter, "aclrtCreateContext: context is null");
  if (device < 0 || device >= m.settings.devices)
    return fail(errors::invalid_device, "aclrtCreateContext: no device " + std::to_string(device));
  auto state = std::make_shared<context_state>();
  state->device = device;
  *context = m.new_handle();
  m.contexts.emplace(*context, std::move(state));
  current_context() = *context;
  return 0;
}

RLCORE_INLINE aclError aclrtDestroyContext(aclrtContext context) {
  machine& m = machine::instance();
  std::shared_ptr<stream_queue> ended;
  {
    const std::lock_guard lock(m.mutex);
    if (!m.initialised) return fail(errors::uninitialised, "aclrtDestroyContext: aclInit has not been called");
    if (context == nullptr) return fail(errors::invalid_parameter, "aclrtDestroyContext: context is null");
    const auto at = m.contexts.find(context);
    if (at == m.contexts.end())
      return fail(errors::parameter, "aclrtDestroyContext: not a context, or destroyed already");
    if (at->second->implicit) return fail(errors::parameter, "aclrtDestroyContext: aclrtSetDevice made it");
    for (const auto& [handle, s] : m.streams) {
      if (s->context == context)
        return fail(errors::parameter, "aclrtDestroyContext: streams of the context have not been destroyed");
    }
    ended = at->second->default_stream;
    if (ended != nullptr) --m.devices[static_cast<std::size_t>(at->second->device)].streams;
    m.contexts.erase(at);
    if (current_context() == context) current_context() = nullptr;
  }
  if (ended != nullptr) {
    ended->close(false);
    ended->join();
  }
  return 0;
}

RLCORE_INLINE aclError aclrtSetCurrentContext(aclrtContext context) {
  machine& m = machine::instance();
  const std::lock_guard lock(m.mutex);
  if (!m.initialised) return fail(errors::uninitialised, "aclrtSetCurrentContext: aclInit has not been called");
  if (context == nullptr) return fail(errors::invalid_parameter, "aclrtSetCurrentContext: context is null");
  if (m.contexts.count(context) == 0)
    return fail(errors::parameter, "aclrtSetCurrentContext: not a context, or its device has been reset");
  current_context() = context;
  return 0;
}

RLCORE_INLINE aclError aclrtGetCurrentContext(aclrtContext* context) {
  const entry call("aclrtGetCurrentContext");
  if (context == nullptr) return fail(errors::invalid_parameter, "aclrtGetCurrentContext: context is null");
  if (call.code != 0) return call.code;
  *context = current_context();
  return 0;
}

}  // namespace ascend::emulated
RLCORE_END
#endif
