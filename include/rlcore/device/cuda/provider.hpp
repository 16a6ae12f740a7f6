// The functions of CUDA that rlcore calls, from the driver and NVRTC of this machine or from the emulator.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace nvidia {

using CUdeviceptr = unsigned long long;           ///< an address of device memory
using CUcontext = struct CUctx_st*;               ///< a GPU of this process
using CUstream = struct CUstream_st*;             ///< runs work in order
using CUmodule = struct CUmod_st*;                ///< loaded kernels
using CUfunction = struct CUfunc_st*;             ///< a kernel
using CUmemoryPool = struct CUmemPoolHandle_st*;  ///< memory of a GPU, in stream order
using nvrtcProgram = struct nvrtcProgram_st*;     ///< a text to compile

/// The driver's functions; null where it has none of the name.
struct driver_calls {
#define RLCORE_CUDA_CALL(name, parameters) int(*name) parameters = nullptr;
#include "rlcore/device/cuda/abi/driver.inc"
#undef RLCORE_CUDA_CALL
};
/// NVRTC's functions, likewise.
struct compiler_calls {
#define RLCORE_CUDA_CALL(name, parameters) int(*name) parameters = nullptr;
#include "rlcore/device/cuda/abi/compiler.inc"
#undef RLCORE_CUDA_CALL
};

// As cuda.h numbers them.
namespace device_attribute {
inline constexpr int multiprocessor_count = 16, compute_capability_major = 75, compute_capability_minor = 76,
                     memory_pools_supported = 115;
}
namespace pool_attribute {
inline constexpr int release_threshold = 4, reserved_now = 5, most_reserved = 6, used_now = 7, most_used = 8;
}
inline constexpr unsigned non_blocking_stream = 1;

/// What a device runs on. The tables stay valid for the rest of the process.
struct provider {
  const driver_calls* driver = nullptr;
  const compiler_calls* compiler = nullptr;
  std::string name = {};       ///< "CUDA 13.0, NVRTC 13.0" or "emulator"
  bool keeps_binaries = true;  ///< compiled kernels go to the cache folder
};

/// The driver and NVRTC of this machine, loaded once. Throws device_error with why_not_installed().
provider installed_provider();
/// What is missing for a GPU to be used and what to install, in one line; empty if nothing is known to be missing.
std::string why_not_installed();
/// The NVRTC of this machine, with or without a driver; null if there is none.
const compiler_calls* installed_compiler();
/// The number of GPUs that the driver names; 0 without a driver.
int installed_devices() noexcept;

/// A call of CUDA that failed.
struct cuda_error : device_error {
  int code;
  /// The message, and the driver's number.
  cuda_error(const std::string& text, int failed_with) : device_error(text), code(failed_with) {}
};
/// Throws cuda_error, which names the call, unless the driver returned 0. `what` is put behind the call's name.
void check(const driver_calls& driver, int result, const char* call, const std::string& what = {});

}  // namespace nvidia
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <vector>

RLCORE_BEGIN
namespace nvidia {
namespace detail {

/// NVRTC as it was found.
struct compiler_found {
  compiler_calls calls;
  int version = 0, revision = 0;  ///< 13 and 0 of 13.0
  bool found = false;
  std::string missing;  ///< a function that it lacks
};
/// The driver as it was found, and NVRTC.
struct installation {
  driver_calls driver;
  int driver_version = 0, devices = 0;
  const compiler_found* compiler = nullptr;
  std::string problem;
};

inline void* open_first(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  return nullptr;
}

/// Where NVRTC may be, version 13 before 12, none above `newest`: RLCORE_CUDA_LIB_DIR alone if it is set, else the
/// linker's path, the toolkit, the active Python.
RLCORE_INLINE std::vector<std::string> compiler_paths(int newest) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  std::vector<std::string> names, paths;
  for (int version = newest < 13 ? newest : 13; version >= 12; --version)
    names.push_back("libnvrtc.so." + std::to_string(version));
  const auto add = [&](const std::string& folder) {
    for (const std::string& name : names) {
      glob_t found = {};
      if (glob((folder + "/" + name).c_str(), 0, nullptr, &found) == 0)
        for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
      globfree(&found);
    }
  };
  if (const std::string chosen = variable("RLCORE_CUDA_LIB_DIR"); !chosen.empty()) {
    add(chosen);
    return paths;
  }
  paths = names;
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"})
    if (!variable(home).empty()) add(variable(home) + "/lib64");
  add("/usr/local/cuda*/lib64");
  for (const char* python : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (!variable(python).empty()) add(variable(python) + "/lib/python3*/site-packages/nvidia/*/lib");
  add("/usr/local/lib/python3*/*-packages/nvidia/*/lib");
  add("/usr/lib/python3*/*-packages/nvidia/*/lib");
  if (!variable("HOME").empty()) add(variable("HOME") + "/.local/lib/python3*/site-packages/nvidia/*/lib");
  return paths;
}

/// The function of a library; `missing` becomes the name of the first that it lacks.
template <class Function>
void find(Function*& function, void* library, const char* name, std::string& missing) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr && missing.empty()) missing = name;
}

/// The NVRTC that a driver for CUDA `newest` can run, found at the first call.
RLCORE_INLINE const compiler_found& found_compiler(int newest) {
  static const compiler_found here = [newest] {
    compiler_found c;
    void* library = open_first(compiler_paths(newest));
    c.found = library != nullptr;
    if (!c.found) return c;
#define RLCORE_CUDA_CALL(name, parameters) find(c.calls.name, library, #name, c.missing);
#include "rlcore/device/cuda/abi/compiler.inc"
#undef RLCORE_CUDA_CALL
    if (c.missing.empty()) c.calls.nvrtcVersion(&c.version, &c.revision);
    return c;
  }();
  return here;
}

RLCORE_INLINE std::string load(installation& here) {
  void* driver = open_first({"libcuda.so.1"});
  if (driver == nullptr)
    return "no NVIDIA driver: libcuda.so.1 is not found; install the driver, or start the container with --gpus all";
  std::string missing;
#define RLCORE_CUDA_CALL(name, parameters) find(here.driver.name, driver, #name, missing);
#include "rlcore/device/cuda/abi/driver.inc"
#undef RLCORE_CUDA_CALL
  if (!missing.empty())
    return "the NVIDIA driver is too old: it has no " + missing + "; install one for CUDA 12 (525) or later";
  if (const int failed = here.driver.cuInit(0)) {
    const char* text = nullptr;
    here.driver.cuGetErrorString(failed, &text);
    return "the NVIDIA driver does not start: cuInit gives " + std::to_string(failed) + " (" +
           (text != nullptr ? text : "no text") + "); does nvidia-smi list a GPU?";
  }
  here.driver.cuDriverGetVersion(&here.driver_version);
  if (here.driver.cuDeviceGetCount(&here.devices) != 0 || here.devices == 0)
    return "the NVIDIA driver has no GPU; see nvidia-smi and CUDA_VISIBLE_DEVICES";
  const int driver_major = here.driver_version / 1000;
  if (driver_major < 12)
    return "the NVIDIA driver is for CUDA " + std::to_string(driver_major) + "." +
           std::to_string(here.driver_version % 1000 / 10) + "; install one for CUDA 12 (525) or later";
  const std::string wheel = driver_major >= 13 ? "nvidia-cuda-nvrtc" : "nvidia-cuda-nvrtc-cu12";
  here.compiler = &found_compiler(driver_major);
  if (!here.compiler->found)
    return "NVRTC, which compiles the kernels, is not found: pip install " + wheel +
           ", or set RLCORE_CUDA_LIB_DIR to the folder of libnvrtc.so";
  if (!here.compiler->missing.empty())
    return "NVRTC is too old: it has no " + here.compiler->missing + "; pip install " + wheel;
  return {};
}

RLCORE_INLINE const installation& installed() {
  static const installation here = [] {
    installation found;
    found.problem = load(found);
    return found;
  }();
  return here;
}

}  // namespace detail

RLCORE_INLINE std::string why_not_installed() {
  const std::string& problem = detail::installed().problem;
  return problem.empty() ? problem : "cuda: " + problem;
}
RLCORE_INLINE const compiler_calls* installed_compiler() {
  const int driver = detail::installed().driver_version / 1000;
  const detail::compiler_found& here = detail::found_compiler(driver > 0 ? driver : 13);
  return here.found && here.missing.empty() ? &here.calls : nullptr;
}
RLCORE_INLINE int installed_devices() noexcept { return detail::installed().devices; }
RLCORE_INLINE provider installed_provider() {
  const detail::installation& here = detail::installed();
  if (!here.problem.empty()) throw device_error("cuda: " + here.problem);
  const auto version = [](int a, int b) { return std::to_string(a) + "." + std::to_string(b); };
  return {&here.driver, &here.compiler->calls,
          "CUDA " + version(here.driver_version / 1000, here.driver_version % 1000 / 10) + ", NVRTC " +
              version(here.compiler->version, here.compiler->revision),
          true};
}

RLCORE_INLINE void check(const driver_calls& driver, int result, const char* call, const std::string& what) {
  if (result == 0) return;
  const char *name = nullptr, *text = nullptr;
  driver.cuGetErrorName(result, &name);
  driver.cuGetErrorString(result, &text);
  throw cuda_error("cuda: " + std::string(call) + what + ": " + (name != nullptr ? name : "error") + " (" +
                       std::to_string(result) + (text != nullptr ? std::string("), ") + text : ")"),
                   result);
}

}  // namespace nvidia
RLCORE_END
#endif
