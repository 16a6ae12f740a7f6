// A table of Ascend's functions that does as a test says: memory is host memory, streams do everything at once, every
// call is written down, and any of them can be made to fail. What order and which codes the layer above uses is read
// from the log; what the functions really do is the emulator's.
#pragma once

#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "rlcore/device/npu/abi/calls.hpp"

namespace scripted {

namespace ascend = rlcore::ascend;

struct machine {
  std::vector<std::string> log;           // calls in order, those of interest with an argument
  std::map<std::string, int> returns;     // what a function returns from now on
  std::map<std::string, int> fails_once;  // ... the next time
  std::string message;                    // of aclGetRecentErrMsg
  void* current = nullptr;                // the context of the thread
  bool initialised = false;
  std::size_t room = std::size_t{1} << 40, used = 0;  // bytes of the device
  std::map<void*, std::size_t> memory;
  std::set<void*> handles;  // streams, events, executors, arguments that live
  std::uint64_t workspace = 0;
  bool event_passed = true;
  const char* soc = "Ascend910B3";
  const char* version = "8.3.RC1";

  int call(const std::string& name, const std::string& argument = "") {
    log.push_back(argument.empty() ? name : name + " " + argument);
    if (const auto once = fails_once.find(name); once != fails_once.end()) {
      const int code = once->second;
      fails_once.erase(once);
      return code;
    }
    const auto always = returns.find(name);
    return always == returns.end() ? 0 : always->second;
  }
  template <class P>
  P make() {
    void* handle = std::malloc(1);
    handles.insert(handle);
    return static_cast<P>(handle);
  }
  int drop(const void* handle) {
    handles.erase(const_cast<void*>(handle));
    std::free(const_cast<void*>(handle));
    return 0;
  }
  int count(const std::string& name) const {
    int n = 0;
    for (const auto& line : log) n += line == name || line.rfind(name + " ", 0) == 0;
    return n;
  }
};

inline machine& state() {
  static machine m;
  return m;
}
inline char contexts[4];  // of devices 0 .. 3

template <class... A>
ascend::aclnnStatus plan(A..., std::uint64_t* bytes, ascend::aclOpExecutor** executor) {
  if (const int code = state().call("plan")) return code;
  *bytes = state().workspace;
  *executor = state().make<ascend::aclOpExecutor*>();
  return 0;
}
inline ascend::aclnnStatus run(void*, std::uint64_t, ascend::aclOpExecutor* executor, ascend::aclrtStream) {
  state().drop(executor);
  return state().call("run");
}
template <class... A>
void fill(ascend::operator_call<A...>& op) {
  op.plan = plan<A...>;
  op.run = run;
}

inline ascend::calls make_table() {
  ascend::calls t;
  auto& rt = t.rt;
  rt.aclInit = [](const char*) {
    if (const int code = state().call("aclInit")) return code;
    if (state().initialised) return 100002;
    state().initialised = true;
    return 0;
  };
  rt.aclFinalize = [] {
    state().initialised = false;
    return state().call("aclFinalize");
  };
  rt.aclGetRecentErrMsg = [] {
    state().log.push_back("aclGetRecentErrMsg");
    return state().message.empty() ? nullptr : state().message.c_str();
  };
  rt.aclrtGetSocName = [] { return state().soc; };
  rt.aclsysGetCANNVersion = [](ascend::package_name, ascend::package_version* v) {
    std::strcpy(v->version, state().version);
    return 0;
  };
  rt.aclrtGetDeviceCount = [](std::uint32_t* n) {
    *n = 2;
    return state().call("aclrtGetDeviceCount");
  };
  rt.aclrtSetDevice = [](std::int32_t device) {
    if (const int code = state().call("aclrtSetDevice", std::to_string(device))) return code;
    if (device < 0 || device > 1) return 107001;
    state().current = contexts + device;
    return 0;
  };
  rt.aclrtResetDevice = [](std::int32_t device) {
    if (state().current == contexts + device) state().current = nullptr;
    return state().call("aclrtResetDevice", std::to_string(device));
  };
  rt.aclrtGetCurrentContext = [](ascend::aclrtContext* c) {
    *c = state().current;
    return state().current == nullptr ? 107002 : 0;
  };
  rt.aclrtSetCurrentContext = [](ascend::aclrtContext c) {
    state().current = c;
    return state().call("aclrtSetCurrentContext", std::to_string(static_cast<char*>(c) - contexts));
  };
  rt.aclrtCtxSetSysParamOpt = [](ascend::system_option, std::int64_t value) {
    return state().call("aclrtCtxSetSysParamOpt", std::to_string(value));
  };
  rt.aclrtSynchronizeDevice = [] { return state().call("aclrtSynchronizeDevice"); };
  rt.aclrtGetMemInfo = [](ascend::memory_kind, std::size_t* available, std::size_t* total) {
    *total = state().room;
    *available = state().room - state().used;
    return 0;
  };
  rt.aclrtCreateStreamWithConfig = [](ascend::aclrtStream* s, std::uint32_t, std::uint32_t) {
    if (const int code = state().call("aclrtCreateStreamWithConfig")) return code;
    *s = state().make<void*>();
    return 0;
  };
  rt.aclrtSetStreamFailureMode = [](ascend::aclrtStream, ascend::failure_mode) {
    return state().call("aclrtSetStreamFailureMode");
  };
  rt.aclrtDestroyStream = [](ascend::aclrtStream s) {
    return state().call("aclrtDestroyStream", state().current == nullptr ? "nowhere" : "") + state().drop(s);
  };
  rt.aclrtSynchronizeStream = [](ascend::aclrtStream) { return state().call("aclrtSynchronizeStream"); };
  rt.aclrtStreamQuery = [](ascend::aclrtStream, ascend::stream_status* s) {
    *s = ascend::stream_status::complete;
    return state().call("aclrtStreamQuery");
  };
  rt.aclrtStreamWaitEvent = [](ascend::aclrtStream, ascend::aclrtEvent) {
    return state().call("aclrtStreamWaitEvent");
  };
  rt.aclrtCreateEventExWithFlag = [](ascend::aclrtEvent* e, std::uint32_t flag) {
    if (const int code = state().call("aclrtCreateEventExWithFlag", std::to_string(flag))) return code;
    *e = state().make<void*>();
    return 0;
  };
  rt.aclrtDestroyEvent = [](ascend::aclrtEvent e) { return state().call("aclrtDestroyEvent") + state().drop(e); };
  rt.aclrtRecordEvent = [](ascend::aclrtEvent, ascend::aclrtStream) { return state().call("aclrtRecordEvent"); };
  rt.aclrtQueryEventStatus = [](ascend::aclrtEvent, ascend::event_status* s) {
    *s = state().event_passed ? ascend::event_status::complete : ascend::event_status::not_ready;
    return state().call("aclrtQueryEventStatus");
  };
  rt.aclrtSynchronizeEvent = [](ascend::aclrtEvent) {
    state().event_passed = true;
    return state().call("aclrtSynchronizeEvent");
  };
  rt.aclrtEventElapsedTime = [](float* ms, ascend::aclrtEvent, ascend::aclrtEvent) {
    *ms = 1;
    return state().call("aclrtEventElapsedTime");
  };
  rt.aclrtMalloc = [](void** p, std::size_t bytes, ascend::memory_policy) {
    if (const int code = state().call("aclrtMalloc", std::to_string(bytes))) return code;
    if (state().used + bytes > state().room) return 207001;
    *p = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    state().memory[*p] = bytes;
    state().used += bytes;
    return 0;
  };
  rt.aclrtFree = [](void* p) {
    state().used -= state().memory.at(p);
    state().memory.erase(p);
    std::free(p);
    return state().call("aclrtFree");
  };
  rt.aclrtMallocHost = [](void** p, std::size_t bytes) {
    *p = std::malloc(bytes);
    return state().call("aclrtMallocHost", std::to_string(bytes));
  };
  rt.aclrtFreeHost = [](void* p) {
    std::free(p);
    return state().call("aclrtFreeHost");
  };
  rt.aclrtMemcpyAsync = [](void* to, std::size_t room, const void* from, std::size_t bytes, ascend::copy_kind,
                           ascend::aclrtStream) {
    if (bytes > room) return 100000;
    std::memcpy(to, from, bytes);
    return state().call("aclrtMemcpyAsync", std::to_string(bytes));
  };
  rt.aclrtMemsetAsync = [](void* to, std::size_t, std::int32_t value, std::size_t bytes, ascend::aclrtStream) {
    std::memset(to, value, bytes);
    return state().call("aclrtMemsetAsync");
  };
  auto& nn = t.nn;
  nn.aclCreateTensor = [](const std::int64_t* shape, std::uint64_t rank, ascend::data_type, const std::int64_t* strides,
                          std::int64_t offset, ascend::format, const std::int64_t* storage, std::uint64_t, void* data) {
    std::string line = "shape";
    for (std::uint64_t i = 0; i < rank; ++i) line += " " + std::to_string(shape[i]);
    line += " strides";
    for (std::uint64_t i = 0; i < rank; ++i) line += " " + std::to_string(strides[i]);
    line += " offset " + std::to_string(offset) + " storage " + std::to_string(*storage) + " at " +
            std::to_string(reinterpret_cast<std::uintptr_t>(data) % 64);
    return state().call("aclCreateTensor", line) != 0 ? nullptr : state().make<ascend::aclTensor*>();
  };
  nn.aclDestroyTensor = [](const ascend::aclTensor* p) { return state().call("aclDestroyTensor") + state().drop(p); };
  nn.aclCreateScalar = [](void* value, ascend::data_type type) {
    (void)state().call("aclCreateScalar", type == ascend::data_type::float32
                                              ? "float " + std::to_string(*static_cast<float*>(value))
                                              : std::to_string(static_cast<int>(type)));
    return state().make<ascend::aclScalar*>();
  };
  nn.aclDestroyScalar = [](const ascend::aclScalar* p) { return state().drop(p); };
  nn.aclCreateIntArray = [](const std::int64_t*, std::uint64_t n) {
    (void)state().call("aclCreateIntArray", std::to_string(n));
    return state().make<ascend::aclIntArray*>();
  };
  nn.aclDestroyIntArray = [](const ascend::aclIntArray* p) { return state().drop(p); };
  nn.aclCreateTensorList = [](const ascend::aclTensor* const* tensors, std::uint64_t n) -> ascend::aclTensorList* {
    if (state().call("aclCreateTensorList", std::to_string(n)) != 0) return nullptr;
    for (std::uint64_t i = 0; i < n; ++i) state().drop(tensors[i]);  // the list owns them; here they go at once
    return state().make<ascend::aclTensorList*>();
  };
  nn.aclDestroyTensorList = [](const ascend::aclTensorList* p) { return state().drop(p); };
  nn.aclSetAclOpExecutorRepeatable = [](ascend::aclOpExecutor*) {
    return state().call("aclSetAclOpExecutorRepeatable");
  };
  nn.aclDestroyAclOpExecutor = [](ascend::aclOpExecutor* e) {
    return state().call("aclDestroyAclOpExecutor") + state().drop(e);
  };
  fill(t.op.aclnnAdd);
  fill(t.op.aclnnMatmul);
  fill(t.op.aclnnCat);
  fill(t.op.aclnnExp);
  return t;
}

/// The one table; a new machine behind it.
inline const ascend::calls& restart() {
  static const ascend::calls table = make_table();
  state() = machine{};
  return table;
}

}  // namespace scripted
