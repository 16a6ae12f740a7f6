// A table of Ascend's functions that do as little as can be: what remains is the layer above them.
#pragma once

#include <cstdlib>

#include "rlcore/device/npu/abi/calls.hpp"

/// One device with host memory; operators that run ask for 1000 bytes of workspace.
inline const rlcore::ascend::calls& idle_npu() {
  using namespace rlcore::ascend;
  static const calls table = [] {
    static char object;
    calls t;
    runtime_calls& rt = t.rt;
    rt.aclInit = [](const char*) { return 0; };
    rt.aclFinalize = [] { return 0; };
    rt.aclrtGetDeviceCount = [](std::uint32_t* n) { return *n = 1, 0; };
    rt.aclrtSetDevice = [](std::int32_t) { return 0; };
    rt.aclrtResetDevice = [](std::int32_t) { return 0; };
    rt.aclrtGetCurrentContext = [](aclrtContext* c) { return *c = &object, 0; };
    rt.aclrtSetCurrentContext = [](aclrtContext) { return 0; };
    rt.aclrtCtxSetSysParamOpt = [](system_option, std::int64_t) { return 0; };
    rt.aclrtCreateStreamWithConfig = [](aclrtStream* s, std::uint32_t, std::uint32_t) { return *s = &object, 0; };
    rt.aclrtSetStreamFailureMode = [](aclrtStream, failure_mode) { return 0; };
    rt.aclrtDestroyStream = [](aclrtStream) { return 0; };
    rt.aclrtSynchronizeStream = [](aclrtStream) { return 0; };
    rt.aclrtCreateEventExWithFlag = [](aclrtEvent* e, std::uint32_t) { return *e = &object, 0; };
    rt.aclrtDestroyEvent = [](aclrtEvent) { return 0; };
    rt.aclrtRecordEvent = [](aclrtEvent, aclrtStream) { return 0; };
    rt.aclrtSynchronizeEvent = [](aclrtEvent) { return 0; };
    rt.aclrtMalloc = [](void** p, std::size_t bytes, memory_policy) {
      *p = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
      return *p == nullptr ? 207001 : 0;
    };
    rt.aclrtFree = [](void* p) { return std::free(p), 0; };
    rt.aclrtMallocHost = [](void** p, std::size_t bytes) { return *p = std::malloc(bytes), 0; };
    rt.aclrtFreeHost = [](void* p) { return std::free(p), 0; };
    rt.aclrtMemcpyAsync = [](void*, std::size_t, const void*, std::size_t, copy_kind, aclrtStream) { return 0; };
    t.nn.aclCreateTensor = [](const std::int64_t*, std::uint64_t, data_type, const std::int64_t*, std::int64_t, format,
                              const std::int64_t*, std::uint64_t,
                              void*) { return reinterpret_cast<aclTensor*>(&object); };
    t.nn.aclDestroyTensor = [](const aclTensor*) { return 0; };
    t.op.aclnnMul.plan = [](input, input, output, std::uint64_t* bytes, aclOpExecutor** e) {
      *bytes = 1000;
      return *e = reinterpret_cast<aclOpExecutor*>(&object), 0;
    };
    t.op.aclnnMul.run = [](void*, std::uint64_t, aclOpExecutor*, aclrtStream) { return 0; };
    return t;
  }();
  return table;
}
