// NVIDIA GPU emulated in the process: CUDA's functions on the host, and the text of our kernels compiled for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/device/cuda.hpp"
#include "rlcore/device/cuda/provider.hpp"

RLCORE_BEGIN
namespace nvidia {

/// Settings of the emulated machine, for devices that are opened later.
struct emulator_settings {
  int devices = 2;
  std::size_t memory_bytes = std::size_t{8} << 30;  ///< of each GPU, taken from the host when used
  std::uint64_t seed = 0;  ///< of the order of a block's threads between barriers; 0: by number
  int capability = 90;     ///< compute capability; from 80 on the tensor cores are those of Hopper
};

/// A provider of CUDA's functions without a GPU, driver or NVRTC. A kernel ends before its launch returns. Memory is
/// checked: what is copied or freed must be allocated; fresh memory is NaN.
provider emulator(emulator_settings settings = {});

/// Bytes of emulated memory in use.
std::size_t emulated_bytes_in_use();
/// Calls of the driver for emulated GPUs, so far.
struct emulated_calls {
  std::uint64_t launches = 0, uploads = 0, downloads = 0, waits = 0;
};
/// The counts.
emulated_calls calls_of_emulator();

}  // namespace nvidia

/// A cuda device on the emulator.
class emulated_cuda : public cuda {
 public:
  /// Throws device_error if the machine has not the device.
  explicit emulated_cuda(cuda_settings settings = {}, nvidia::emulator_settings machine = {})
      : cuda(nvidia::emulator(machine), std::move(settings)) {}
};
static_assert(device<emulated_cuda>);

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

#include "rlcore/device/cuda/module_text.hpp"
#include "rlcore/emulator/cuda/blocks.hpp"
#include "rlcore/emulator/cuda/kernels.hpp"

RLCORE_BEGIN
namespace nvidia {
namespace emulated {

/// The results that the emulator gives, as cuda.h numbers them.
enum result : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  not_found = 500,
  illegal_address = 700
};

/// The emulated machine.
struct machine {
  std::mutex lock;
  emulator_settings settings;
  std::map<CUdeviceptr, std::size_t> memory;
  std::size_t in_use = 0, most_in_use = 0;
  std::atomic<std::uint64_t> launches = 0, uploads = 0, downloads = 0, waits = 0;

  static machine& here() {
    static machine m;
    return m;
  }
  /// The settings now.
  emulator_settings current() {
    const std::lock_guard hold(lock);
    return settings;
  }
  /// Whether [p, p + bytes) is allocated.
  bool holds(CUdeviceptr p, std::size_t bytes) {
    const std::lock_guard hold(lock);
    auto after = memory.upper_bound(p);
    if (after == memory.begin()) return false;
    const auto& [base, size] = *--after;
    return p - base <= size && bytes <= size - (p - base);
  }
};

inline thread_local int contexts = 0;  // pushed in this thread

/// The driver's functions on the emulated machine.
inline driver_calls driver_of_emulator() {
  driver_calls d;
  d.cuInit = [](unsigned flags) -> int { return flags == 0 ? success : invalid_value; };
  d.cuDriverGetVersion = [](int* version) -> int { return *version = 13000, success; };
  d.cuGetErrorName = [](int error, const char** name) -> int {
    *name = error == out_of_memory     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == invalid_value   ? "CUDA_ERROR_INVALID_VALUE"
            : error == invalid_context ? "CUDA_ERROR_INVALID_CONTEXT"
            : error == not_found       ? "CUDA_ERROR_NOT_FOUND"
            : error == illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                       : "CUDA_ERROR_UNKNOWN";
    return success;
  };
  d.cuGetErrorString = [](int, const char** text) -> int { return *text = "by the emulator", success; };
  d.cuDeviceGetCount = [](int* count) -> int { return *count = machine::here().current().devices, success; };
  d.cuDeviceGet = [](int* device, int ordinal) -> int {
    if (ordinal < 0 || ordinal >= machine::here().current().devices) return invalid_device;
    return *device = ordinal, success;
  };
  d.cuDeviceGetName = [](char* name, int bytes, int) -> int {
    std::snprintf(name, static_cast<std::size_t>(bytes), "emulated GPU");
    return success;
  };
  d.cuDeviceGetAttribute = [](int* value, int attribute, int) -> int {
    const int capability = machine::here().current().capability;
    *value = attribute == device_attribute::multiprocessor_count       ? 2
             : attribute == device_attribute::compute_capability_major ? capability / 10
             : attribute == device_attribute::compute_capability_minor ? capability % 10
             : attribute == device_attribute::memory_pools_supported   ? 1
                                                                       : 0;
    return success;
  };
  d.cuDeviceGetDefaultMemPool = [](CUmemoryPool* pool, int) -> int { return *pool = nullptr, success; };
  d.cuDevicePrimaryCtxRetain = [](CUcontext* context, int) -> int {
    *context = reinterpret_cast<CUcontext>(&machine::here());
    return success;
  };
  d.cuDevicePrimaryCtxRelease_v2 = [](int) -> int { return success; };
  d.cuCtxPushCurrent_v2 = [](CUcontext context) -> int {
    if (context == nullptr) return invalid_context;
    return ++contexts, success;
  };
  d.cuCtxPopCurrent_v2 = [](CUcontext* context) -> int {
    if (contexts == 0) return invalid_context;
    *context = nullptr;
    return --contexts, success;
  };
  d.cuStreamCreate = [](CUstream* stream, unsigned) -> int {
    if (contexts == 0) return invalid_context;
    *stream = reinterpret_cast<CUstream>(&machine::here().settings);
    return success;
  };
  d.cuStreamDestroy_v2 = [](CUstream) -> int { return success; };
  d.cuStreamSynchronize = [](CUstream) -> int {
    ++machine::here().waits;
    return contexts == 0 ? invalid_context : success;
  };
  d.cuMemGetInfo_v2 = [](std::size_t* left, std::size_t* total) -> int {
    machine& m = machine::here();
    const std::lock_guard hold(m.lock);
    *total = m.settings.memory_bytes;
    *left = *total - std::min(*total, m.in_use);
    return success;
  };
  d.cuMemPoolSetAttribute = [](CUmemoryPool, int, void*) -> int { return success; };
  d.cuMemPoolGetAttribute = [](CUmemoryPool, int attribute, void* value) -> int {  // it keeps nothing of what is freed
    machine& m = machine::here();
    const std::lock_guard hold(m.lock);
    const bool most = attribute == pool_attribute::most_used || attribute == pool_attribute::most_reserved;
    const std::uint64_t bytes = most ? m.most_in_use : 0;
    std::memcpy(value, &bytes, sizeof bytes);
    return success;
  };
  d.cuMemAllocAsync = [](CUdeviceptr* memory, std::size_t bytes, CUstream) -> int {
    machine& m = machine::here();
    if (contexts == 0) return invalid_context;
    const std::lock_guard hold(m.lock);
    if (bytes == 0) return invalid_value;
    if (bytes > m.settings.memory_bytes - std::min(m.settings.memory_bytes, m.in_use)) return out_of_memory;
    void* p = ::operator new(bytes, std::align_val_t{256}, std::nothrow);
    if (p == nullptr) return out_of_memory;
    std::memset(p, 0xff, bytes);  // NaN
    *memory = reinterpret_cast<CUdeviceptr>(p);
    m.memory[*memory] = bytes;
    m.in_use += bytes;
    m.most_in_use = std::max(m.most_in_use, m.in_use);
    return success;
  };
  d.cuMemFreeAsync = [](CUdeviceptr memory, CUstream) -> int {
    machine& m = machine::here();
    const std::lock_guard hold(m.lock);
    const auto found = m.memory.find(memory);
    if (found == m.memory.end()) return invalid_value;
    m.in_use -= found->second;
    m.memory.erase(found);
    ::operator delete(reinterpret_cast<void*>(memory), std::align_val_t{256});
    return success;
  };
  d.cuMemcpyHtoDAsync_v2 = [](CUdeviceptr to, const void* from, std::size_t bytes, CUstream) -> int {
    if (contexts == 0) return invalid_context;
    if (!machine::here().holds(to, bytes)) return invalid_value;
    ++machine::here().uploads;
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return success;
  };
  d.cuMemcpyDtoHAsync_v2 = [](void* to, CUdeviceptr from, std::size_t bytes, CUstream) -> int {
    if (contexts == 0) return invalid_context;
    if (!machine::here().holds(from, bytes)) return invalid_value;
    ++machine::here().downloads;
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return success;
  };
  d.cuMemsetD8Async = [](CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream) -> int {
    if (contexts == 0) return invalid_context;
    if (!machine::here().holds(to, bytes)) return invalid_value;
    std::memset(reinterpret_cast<void*>(to), value, bytes);
    return success;
  };
  d.cuModuleLoadData = [](CUmodule* module, const void* image) -> int {
    if (std::string_view(static_cast<const char*>(image)) != "rlcore's kernels") return invalid_image;
    *module = reinterpret_cast<CUmodule>(&machine::here());
    return success;
  };
  d.cuModuleUnload = [](CUmodule) -> int { return success; };
  d.cuModuleGetFunction = [](CUfunction* function, CUmodule, const char* name) -> int {
    for (int k = 0; k < static_cast<int>(kernel::count); ++k)
      if (name == std::string_view(name_of(static_cast<kernel>(k)))) {
        *function = reinterpret_cast<CUfunction>(host_kernel_of(static_cast<kernel>(k)));
        return success;
      }
    return not_found;
  };
  d.cuLaunchKernel = [](CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned, CUstream, void** parameters, void**) -> int {
    if (contexts == 0) return invalid_context;
    if (grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_y > 65535 || grid_z > 65535 || block_x == 0 ||
        block_x > 1024 || block_y != 1 || block_z != 1)
      return invalid_value;
    machine& m = machine::here();
    if (function == reinterpret_cast<CUfunction>(host_kernel_of(kernel::write_bytes))) {
      const auto& a = *static_cast<const arguments::write_bytes*>(parameters[0]);
      if (!m.holds(reinterpret_cast<CUdeviceptr>(a.to), static_cast<std::size_t>(a.count))) return illegal_address;
    }
    const std::uint64_t number = ++m.launches, seed = m.current().seed;
    running_block::here().run({grid_x, grid_y, grid_z}, block_x, seed == 0 ? 0 : seed * 1000003 + number,
                              reinterpret_cast<host_kernel>(function), parameters[0]);
    return success;
  };
  return d;
}

/// NVRTC's functions: they take the text of our kernels alone.
inline compiler_calls compiler_of_emulator() {
  compiler_calls c;
  c.nvrtcVersion = [](int* first, int* second) -> int { return *first = 13, *second = 0, 0; };
  c.nvrtcCreateProgram = [](nvrtcProgram* program, const char* text, const char*, int, const char* const*,
                            const char* const*) -> int {
    *program = reinterpret_cast<nvrtcProgram>(new std::string(text));
    return 0;
  };
  c.nvrtcDestroyProgram = [](nvrtcProgram* program) -> int {
    delete reinterpret_cast<std::string*>(*program);
    return *program = nullptr, 0;
  };
  c.nvrtcCompileProgram = [](nvrtcProgram program, int, const char* const*) -> int {
    constexpr int compilation_failed = 6;
    return *reinterpret_cast<std::string*>(program) == module_text() ? 0 : compilation_failed;
  };
  constexpr static std::string_view log = "the emulator runs the kernels of rlcore alone", image = "rlcore's kernels";
  c.nvrtcGetProgramLogSize = [](nvrtcProgram, std::size_t* bytes) -> int { return *bytes = log.size() + 1, 0; };
  c.nvrtcGetProgramLog = [](nvrtcProgram, char* to) -> int { return std::memcpy(to, log.data(), log.size() + 1), 0; };
  c.nvrtcGetCUBINSize = [](nvrtcProgram, std::size_t* bytes) -> int { return *bytes = image.size() + 1, 0; };
  c.nvrtcGetCUBIN = [](nvrtcProgram, char* to) -> int { return std::memcpy(to, image.data(), image.size() + 1), 0; };
  return c;
}

}  // namespace emulated

RLCORE_INLINE provider emulator(emulator_settings settings) {
  static const driver_calls driver = emulated::driver_of_emulator();
  static const compiler_calls compiler = emulated::compiler_of_emulator();
  emulated::machine& m = emulated::machine::here();
  const std::lock_guard hold(m.lock);
  m.settings = settings;
  return {&driver, &compiler, "emulator", false};
}
RLCORE_INLINE std::size_t emulated_bytes_in_use() {
  emulated::machine& m = emulated::machine::here();
  const std::lock_guard hold(m.lock);
  return m.in_use;
}
RLCORE_INLINE emulated_calls calls_of_emulator() {
  const emulated::machine& m = emulated::machine::here();
  return {m.launches, m.uploads, m.downloads, m.waits};
}

}  // namespace nvidia
RLCORE_END
#endif
