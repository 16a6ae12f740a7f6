// One GPU: its context, stream, memory and kernels.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/device/cuda/arguments.hpp"
#include "rlcore/device/cuda/provider.hpp"

RLCORE_BEGIN
namespace nvidia {

/// Settings of a queue.
struct queue_settings {
  int device = 0;
  bool sync_each_operation = false;  ///< waits after every kernel, so that an error names the one that failed
  std::string cache = {};            ///< folder of compiled kernels; empty: $XDG_CACHE_HOME or ~/.cache, "none": none
};

/// Runs kernels of one GPU in order, on a stream of its own. Memory is that of the driver's pool of the GPU, in stream
/// order. Kernels are asynchronous, copies wait.
class queue {
 public:
  /// Opens the GPU and loads the kernels: compiled by NVRTC on first use, later from the cache. Throws device_error.
  queue(nvidia::provider functions, queue_settings settings);
  queue(const queue&) = delete;
  queue& operator=(const queue&) = delete;
  ~queue() { close(); }

  const nvidia::provider& provider() const noexcept { return provider_; }
  /// "NVIDIA H100 80GB HBM3"
  const std::string& device_name() const noexcept { return device_name_; }
  /// Streaming multiprocessors.
  int processors() const noexcept { return processors_; }
  /// Its compute capability: 90 for 9.0.
  int capability() const noexcept { return capability_; }
  /// The free bytes of the GPU and of the pool; none if the driver does not say.
  std::optional<std::size_t> available_bytes() const;
  /// The most bytes of the pool; none if the driver does not say.
  std::optional<memory_peaks> most_memory() const;

  /// Device memory; null for 0 bytes. Throws cuda_error, with sizes, if the GPU has not enough.
  void* allocate(std::size_t bytes);
  /// Kernels launched before may still use it.
  void release(void* memory) noexcept;
  /// The host memory may be reused at once: few bytes travel with launches, more are waited for.
  void upload(void* device, const void* host, std::size_t bytes);
  /// Returns when the data has arrived.
  void download(void* host, const void* device, std::size_t bytes);
  /// Sets bytes of device memory to 0.
  void zero(void* device, std::size_t bytes);
  /// Waits for all work. Throws cuda_error for what failed, with the names of the latest kernels.
  void wait();

  /// Runs a kernel on x * y * z blocks; nothing if there are none.
  template <class Arguments>
  void launch(const Arguments& arguments, extent x, extent y = 1, extent z = 1) {
    Arguments copy = arguments;
    launch(kernel_of(arguments), &copy, Arguments::threads, x, y, z);
  }
  /// Runs a kernel of one thread for each of n elements, or of more than one for each thread of a large n.
  template <class Arguments>
  void launch_elements(const Arguments& arguments, extent n) {
    const extent blocks = (n + Arguments::threads - 1) / Arguments::threads, most = extent{64} * processors_;
    launch(arguments, blocks < most ? blocks : most);
  }

 private:
  /// Makes the GPU's context current in this thread, as long as it lives.
  class guard {
   public:
    explicit guard(const queue& q) : driver_(*q.provider_.driver) {
      check(driver_, driver_.cuCtxPushCurrent_v2(q.context_), "cuCtxPushCurrent");
    }
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;
    ~guard() {
      CUcontext before = nullptr;
      driver_.cuCtxPopCurrent_v2(&before);
    }

   private:
    const driver_calls& driver_;
  };

  void launch(kernel k, void* arguments, int threads, extent x, extent y, extent z);
  void load_kernels();
  void close() noexcept;
  std::string recent() const;

  nvidia::provider provider_;
  queue_settings settings_;
  std::string device_name_;
  int device_ = 0, processors_ = 1, capability_ = 0;
  CUcontext context_ = nullptr;
  CUmemoryPool pool_ = nullptr;
  CUstream stream_ = nullptr;
  CUmodule module_ = nullptr;
  std::array<CUfunction, static_cast<std::size_t>(kernel::count)> functions_{};
  std::array<kernel, 8> recent_{};
  std::size_t launched_ = 0;
};

}  // namespace nvidia
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "rlcore/core/memory_text.hpp"
#include "rlcore/device/cuda/module_text.hpp"

RLCORE_BEGIN
namespace nvidia {
namespace detail {

inline CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

/// 128 bits of a text in hexadecimal: two FNV-1a, from different starts.
inline std::string hash_text(std::string_view text) {
  std::string digits;
  for (std::uint64_t h : {std::uint64_t{0xcbf29ce484222325u}, std::uint64_t{1}}) {
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[(h >> shift) & 15];
  }
  return digits;
}

/// Where compiled kernels are kept; empty for nowhere.
RLCORE_INLINE std::filesystem::path cache_folder(const std::string& asked) {
  if (asked == "none") return {};
  if (!asked.empty()) return asked;
  for (const auto& [variable, below] : {std::pair{"XDG_CACHE_HOME", "rlcore"}, std::pair{"HOME", ".cache/rlcore"}})
    if (const char* home = std::getenv(variable); home != nullptr && *home != 0)
      return std::filesystem::path(home) / below / "cuda";
  return {};
}

}  // namespace detail

RLCORE_INLINE queue::queue(nvidia::provider functions, queue_settings settings)
    : provider_(std::move(functions)), settings_(std::move(settings)) {
  const driver_calls& driver = *provider_.driver;
  check(driver, driver.cuInit(0), "cuInit");
  int devices = 0;
  check(driver, driver.cuDeviceGetCount(&devices), "cuDeviceGetCount");
  if (settings_.device < 0 || settings_.device >= devices)
    throw device_error("cuda: no GPU " + std::to_string(settings_.device) + ": this machine has " +
                       std::to_string(devices) + ", from 0 to " + std::to_string(devices - 1));
  check(driver, driver.cuDeviceGet(&device_, settings_.device), "cuDeviceGet");
  const auto attribute = [&](int number) {
    int value = 0;
    check(driver, driver.cuDeviceGetAttribute(&value, number, device_), "cuDeviceGetAttribute");
    return value;
  };
  char name[256] = "";
  check(driver, driver.cuDeviceGetName(name, sizeof name - 1, device_), "cuDeviceGetName");
  device_name_ = name;
  processors_ = std::max(1, attribute(device_attribute::multiprocessor_count));
  capability_ = 10 * attribute(device_attribute::compute_capability_major) +
                attribute(device_attribute::compute_capability_minor);
  if (capability_ < 70 || attribute(device_attribute::memory_pools_supported) == 0)
    throw device_error("cuda: GPU " + std::to_string(settings_.device) + ", " + device_name_ +
                       ", has compute capability " + std::to_string(capability_ / 10) + "." +
                       std::to_string(capability_ % 10) +
                       (capability_ < 70 ? "; expected 7.0 or later" : " and no memory pools"));
  check(driver, driver.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  try {
    const guard here(*this);
    check(driver, driver.cuDeviceGetDefaultMemPool(&pool_, device_), "cuDeviceGetDefaultMemPool");
    std::uint64_t keep = ~std::uint64_t{0};  // what is released stays with the process
    check(driver, driver.cuMemPoolSetAttribute(pool_, pool_attribute::release_threshold, &keep),
          "cuMemPoolSetAttribute");
    check(driver, driver.cuStreamCreate(&stream_, non_blocking_stream), "cuStreamCreate");
    load_kernels();
  } catch (...) {
    close();
    throw;
  }
}

RLCORE_INLINE void queue::close() noexcept {
  const driver_calls& driver = *provider_.driver;
  if (context_ == nullptr) return;
  CUcontext before = nullptr;
  if (driver.cuCtxPushCurrent_v2(context_) == 0) {
    if (stream_ != nullptr) driver.cuStreamSynchronize(stream_);
    if (module_ != nullptr) driver.cuModuleUnload(module_);
    if (stream_ != nullptr) driver.cuStreamDestroy_v2(stream_);
    driver.cuCtxPopCurrent_v2(&before);
  }
  driver.cuDevicePrimaryCtxRelease_v2(device_);
}

RLCORE_INLINE void queue::load_kernels() {
  const driver_calls& driver = *provider_.driver;
  const std::string text = module_text();
  const std::vector<std::string> options = module_options(capability_);
  std::filesystem::path file;
  if (provider_.keeps_binaries) file = detail::cache_folder(settings_.cache);
  if (!file.empty()) {
    std::string key = provider_.name + "\n" + text;
    for (const std::string& o : options) key += "\n" + o;
    file /= detail::hash_text(key) + ".cubin";
    if (std::ifstream in(file, std::ios::binary); in) {
      const std::string content((std::istreambuf_iterator<char>(in)), {});
      const std::size_t digits = std::min<std::size_t>(content.size(), 32);  // of the binary behind them
      const std::string image = content.substr(digits);
      if (detail::hash_text(image) == content.substr(0, digits) &&  // else damaged: it is made anew
          driver.cuModuleLoadData(&module_, image.c_str()) != 0)
        module_ = nullptr;
    }
  }
  if (module_ == nullptr) {
    const std::string image = compiled(*provider_.compiler, text, options);
    check(driver, driver.cuModuleLoadData(&module_, image.c_str()), "cuModuleLoadData", " of the kernels");
    if (!file.empty()) {  // a folder that cannot be written costs time at the next start, nothing else
      std::error_code ignored;
      std::filesystem::create_directories(file.parent_path(), ignored);
      const std::filesystem::path draft = file.string() + "." + std::to_string(getpid()) + "." +
                                          std::to_string(std::hash<std::thread::id>{}(std::this_thread::get_id()));
      const std::string content = detail::hash_text(image) + image;
      if (std::ofstream out(draft, std::ios::binary); out && out.write(content.data(), std::ssize(content)).flush())
        std::filesystem::rename(draft, file, ignored);
      std::filesystem::remove(draft, ignored);
    }
  }
  for (std::size_t k = 0; k < functions_.size(); ++k) {
    const char* name = name_of(static_cast<kernel>(k));
    check(driver, driver.cuModuleGetFunction(&functions_[k], module_, name), "cuModuleGetFunction",
          std::string(" ") + name);
  }
}

RLCORE_INLINE std::optional<std::size_t> queue::available_bytes() const {
  const driver_calls& driver = *provider_.driver;
  const guard here(*this);
  std::size_t left = 0, total = 0;
  std::uint64_t reserved = 0, used = 0;
  if (driver.cuMemGetInfo_v2(&left, &total) != 0 ||
      driver.cuMemPoolGetAttribute(pool_, pool_attribute::reserved_now, &reserved) != 0 ||
      driver.cuMemPoolGetAttribute(pool_, pool_attribute::used_now, &used) != 0)
    return std::nullopt;
  return left + (reserved - used);
}

RLCORE_INLINE std::optional<memory_peaks> queue::most_memory() const {
  const driver_calls& driver = *provider_.driver;
  const guard here(*this);
  std::uint64_t reserved = 0, used = 0;
  if (driver.cuMemPoolGetAttribute(pool_, pool_attribute::most_reserved, &reserved) != 0 ||
      driver.cuMemPoolGetAttribute(pool_, pool_attribute::most_used, &used) != 0)
    return std::nullopt;
  return memory_peaks{used, reserved};
}

RLCORE_INLINE void* queue::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const driver_calls& driver = *provider_.driver;
  const guard here(*this);
  CUdeviceptr memory = 0;
  const int result = driver.cuMemAllocAsync(&memory, bytes, stream_);
  if (constexpr int out_of_memory = 2; result == out_of_memory) {
    std::size_t left = 0, total = 0;
    driver.cuMemGetInfo_v2(&left, &total);
    throw cuda_error("cuda: out of memory on GPU " + std::to_string(settings_.device) + ": " + memory_text(bytes) +
                         " asked for, " + memory_text(available_bytes().value_or(left)) + " of " + memory_text(total) +
                         " are left; smaller micro-batches need less",
                     result);
  }
  check(driver, result, "cuMemAllocAsync", " of " + memory_text(bytes));
  return reinterpret_cast<void*>(memory);
}

RLCORE_INLINE void queue::release(void* memory) noexcept {
  if (memory == nullptr) return;
  CUcontext before = nullptr;
  if (provider_.driver->cuCtxPushCurrent_v2(context_) != 0) return;
  provider_.driver->cuMemFreeAsync(detail::address(memory), stream_);
  provider_.driver->cuCtxPopCurrent_v2(&before);
}

RLCORE_INLINE void queue::upload(void* device, const void* host, std::size_t bytes) {
  using arguments::write_bytes;
  constexpr std::size_t most = write_bytes::most, launches = 4;
  if (bytes <= launches * most) {
    for (std::size_t first = 0; first < bytes; first += most) {
      write_bytes part;
      part.to = static_cast<std::byte*>(device) + first;
      part.count = static_cast<int>(std::min(most, bytes - first));
      std::memcpy(part.bytes, static_cast<const std::byte*>(host) + first, static_cast<std::size_t>(part.count));
      launch(kernel::write_bytes, &part, write_bytes::threads, 1, 1, 1);
    }
    return;
  }
  {
    const guard here(*this);
    check(*provider_.driver, provider_.driver->cuMemcpyHtoDAsync_v2(detail::address(device), host, bytes, stream_),
          "cuMemcpyHtoDAsync", " of " + memory_text(bytes));
  }
  wait();  // where the GPU reads the host's pages itself, nothing else says that the copy is done
}

RLCORE_INLINE void queue::download(void* host, const void* device, std::size_t bytes) {
  if (bytes == 0) return;
  {
    const guard here(*this);
    check(*provider_.driver, provider_.driver->cuMemcpyDtoHAsync_v2(host, detail::address(device), bytes, stream_),
          "cuMemcpyDtoHAsync", " of " + memory_text(bytes));
  }
  wait();
}

RLCORE_INLINE void queue::zero(void* device, std::size_t bytes) {
  if (bytes == 0) return;
  const guard here(*this);
  check(*provider_.driver, provider_.driver->cuMemsetD8Async(detail::address(device), 0, bytes, stream_),
        "cuMemsetD8Async");
}

RLCORE_INLINE std::string queue::recent() const {
  std::string names;
  for (std::size_t k = 0; k < std::min(launched_, recent_.size()); ++k)
    names += (k == 0 ? "; the latest kernels: " : ", ") +
             std::string(name_of(recent_[(launched_ - 1 - k) % recent_.size()]));
  return names;
}

RLCORE_INLINE void queue::wait() {
  const guard here(*this);
  check(*provider_.driver, provider_.driver->cuStreamSynchronize(stream_), "cuStreamSynchronize", recent());
}

RLCORE_INLINE void queue::launch(kernel k, void* arguments, int threads, extent x, extent y, extent z) {
  if (x <= 0 || y <= 0 || z <= 0) return;
  constexpr extent most_x = 0x7fffffff, most = 0xffff;
  if (x > most_x || y > most || z > most)
    throw device_error("cuda: " + std::string(name_of(k)) + " on a grid of " + std::to_string(x) + " x " +
                       std::to_string(y) + " x " + std::to_string(z) +
                       " blocks; at most 2147483647 x 65535 x 65535: smaller micro-batches need fewer");
  {
    const guard here(*this);
    void* parameters[] = {arguments};
    const int result = provider_.driver->cuLaunchKernel(
        functions_[static_cast<std::size_t>(k)], static_cast<unsigned>(x), static_cast<unsigned>(y),
        static_cast<unsigned>(z), static_cast<unsigned>(threads), 1, 1, 0, stream_, parameters, nullptr);
    check(*provider_.driver, result, "cuLaunchKernel", " of " + std::string(name_of(k)));
  }
  recent_[launched_++ % recent_.size()] = k;
  if (settings_.sync_each_operation) wait();
}

}  // namespace nvidia
RLCORE_END
#endif
