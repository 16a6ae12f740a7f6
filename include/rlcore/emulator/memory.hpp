// Memory of the emulated machine: device memory, pinned host memory, and the access checks of tasks.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/npu/npu_settings.hpp"
#include "rlcore/emulator/device_memory.hpp"
#include "rlcore/emulator/errors.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// The access of a task to memory.
enum class access { read, write };

/// "0x7f...": an address in a message.
std::string hexadecimal(std::uintptr_t value);

/// The memory of all devices and the pinned memory of the host.
class memory_system {
 public:
  // What unwritten memory holds: NaN as fp32, fp16 and bf16, large as an integer.
  static constexpr std::byte fresh[2] = {std::byte{0xff}, std::byte{0x7f}};
  static constexpr std::byte canary{0xa5};

  /// False if the host cannot reserve the address space.
  bool start(const settings& machine);
  void stop();

  /// Allocates device memory with a canary after its end; null if no free range is large enough or the device does not
  /// exist.
  std::shared_ptr<block> allocate(int device, std::size_t bytes);

  /// aclrtFree by a thread with this current device.
  int free(int device, const void* p);

  /// Pinned host memory; null if the host has none left.
  std::shared_ptr<block> allocate_pinned(std::size_t bytes);
  /// aclrtFreeHost; tasks that use the memory keep it until they end.
  int free_pinned(const void* p);

  /// The memory that an address belongs to.
  struct place {
    /// On a device, in memory of aclrtMallocHost, or anywhere else on the host.
    enum kind { device, pinned, pageable } where = pageable;
    int of_device = -1;
    std::shared_ptr<block> allocation;  ///< null: pageable, or no live allocation
    bool inside = true;                 ///< all requested bytes belong to it
  };
  /// Looks up the allocation that holds the `bytes` bytes at p.
  place find(const void* p, std::size_t bytes) const;

  /// Host view of device memory for the task of `use`, which keeps the block until it is released. Throws
  /// outcome_error{507015}: freed, never allocated, beyond the end, or of another device.
  std::byte* view(memory_use* use, const void* p, std::size_t bytes);
  /// Adds a known block to `use`. False: it has been freed since.
  bool hold(memory_use& use, const std::shared_ptr<block>& b);
  /// Ends the use. True if the program freed one of the blocks meanwhile.
  bool release(memory_use& use);
  /// The host address of the device address p inside b.
  std::byte* contents(const block& b, const void* p) const {
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    return b.device < 0 ? reinterpret_cast<std::byte*>(address) : space_.contents(address);
  }

  /// Free and total bytes of a device.
  std::pair<std::size_t, std::size_t> available_and_total(int device) const {
    const std::lock_guard lock(mutex_);
    const device_memory& d = devices_[static_cast<std::size_t>(device)];
    return {d.available(), d.total()};
  }
  /// Leaked allocations, their bytes, and overwritten canaries.
  struct remainder {
    std::size_t blocks = 0, bytes = 0, overrun = 0;
  };
  /// The leaks of a device, or of pinned memory (-1).
  remainder left(int device) const;
  /// Waits until no task uses the device's memory, then frees all of it.
  void clear(int device) {
    std::unique_lock lock(mutex_);
    clear(lock, devices_[static_cast<std::size_t>(device)]);
  }

 private:
  static bool holds(const block& b, std::uintptr_t address, std::size_t bytes) {
    const std::size_t offset = address - b.address;
    return offset <= b.bytes && bytes <= b.bytes - offset;
  }
  int index_of(std::uintptr_t address) const {
    return static_cast<int>((address - space_.first()) / devices_.front().total());
  }
  device_memory& home_of(std::uintptr_t address) { return devices_[static_cast<std::size_t>(index_of(address))]; }
  const device_memory& home_of(std::uintptr_t address) const {
    return devices_[static_cast<std::size_t>(index_of(address))];
  }

  void poison(std::byte* data, std::size_t bytes) const;
  bool tail_is_intact(const block& b) const;

  /// Takes back a block that is freed and unused.
  void bury(const std::shared_ptr<block>& b);
  void drop_pinned(std::shared_ptr<block> b) {
    pinned_.erase(b->address);
    b->freed = true;
    if (b->users == 0) bury(b);
  }
  void clear(std::unique_lock<std::mutex>& lock, device_memory& d);

  mutable std::mutex mutex_;
  std::condition_variable unused_;
  address_space space_;
  std::deque<device_memory> devices_;
  std::map<std::uintptr_t, std::shared_ptr<block>> pinned_;
  std::size_t poison_bytes_ = 0;
};

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE std::string hexadecimal(std::uintptr_t value) {
  std::string digits;
  do digits.insert(digits.begin(), "0123456789abcdef"[value & 15]);
  while ((value >>= 4) != 0);
  return "0x" + digits;
}

RLCORE_INLINE bool memory_system::start(const settings& machine) {
  const std::lock_guard lock(mutex_);
  const std::size_t each = (machine.memory_bytes + 4095) / 4096 * 4096;
  if (!space_.reserve(each * static_cast<std::size_t>(machine.devices))) return false;
  devices_.clear();
  for (int d = 0; d < machine.devices; ++d)
    devices_.emplace_back(space_, d, space_.first() + each * static_cast<std::size_t>(d), each,
                          machine.quarantine_bytes);
  poison_bytes_ = machine.poison_bytes;
  space_.watch();
  return true;
}

RLCORE_INLINE void memory_system::stop() {
  space_.unwatch();
  std::unique_lock lock(mutex_);
  for (device_memory& d : devices_) clear(lock, d);
  while (!pinned_.empty()) drop_pinned(pinned_.begin()->second);
}

RLCORE_INLINE std::shared_ptr<block> memory_system::allocate(int device, std::size_t bytes) {
  std::unique_lock lock(mutex_);
  if (static_cast<std::size_t>(device) >= devices_.size()) return nullptr;
  std::shared_ptr<block> b = devices_[static_cast<std::size_t>(device)].take(bytes);
  if (b == nullptr) return nullptr;
  std::byte* data = space_.contents(b->address);
  std::memset(data + b->bytes, static_cast<int>(canary), b->room - b->bytes);
  ++b->users;  // the device is not reset meanwhile
  lock.unlock();
  poison(data, b->bytes);
  lock.lock();
  --b->users;
  unused_.notify_all();
  return b;
}

RLCORE_INLINE int memory_system::free(int device, const void* p) {
  std::unique_lock lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  const std::string name = "aclrtFree(" + hexadecimal(address) + "): ";
  if (!space_.contains(p)) return fail(errors::parameter, name + "not an address of device memory");
  device_memory& home = home_of(address);
  const std::shared_ptr<block> b = home.find(address);
  if (b == nullptr || b->address != address)
    return fail(errors::parameter, name + "no allocation begins there" + (b == nullptr ? "" : ", but before it"));
  if (b->freed) return fail(errors::parameter, name + "has been freed already");
  if (b->device != device)
    return fail(errors::parameter, name + "lies on device " + std::to_string(b->device) + ", the current one is " +
                                       std::to_string(device));
  b->freed = true;
  const bool intact = tail_is_intact(*b);
  if (b->users == 0) bury(b);
  return intact ? 0 : fail(errors::core_exception, name + "something has written past its end");
}

RLCORE_INLINE std::shared_ptr<block> memory_system::allocate_pinned(std::size_t bytes) {
  void* p = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (p == nullptr) return nullptr;
  poison(static_cast<std::byte*>(p), bytes);
  auto b = std::make_shared<block>();
  *b = {reinterpret_cast<std::uintptr_t>(p), bytes, -1, bytes, 0, false};
  const std::lock_guard lock(mutex_);
  pinned_.emplace(b->address, b);
  return b;
}

RLCORE_INLINE int memory_system::free_pinned(const void* p) {
  std::unique_lock lock(mutex_);
  const auto at = pinned_.find(reinterpret_cast<std::uintptr_t>(p));
  if (at == pinned_.end())
    return fail(errors::parameter, "aclrtFreeHost(" + hexadecimal(reinterpret_cast<std::uintptr_t>(p)) +
                                       "): not memory of aclrtMallocHost, or freed already");
  drop_pinned(at->second);
  return 0;
}

RLCORE_INLINE auto memory_system::find(const void* p, std::size_t bytes) const -> place {
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  place result;
  if (space_.contains(p)) {
    const device_memory& home = home_of(address);
    result = {place::device, index_of(address), home.find(address), false};
    if (result.allocation != nullptr && result.allocation->freed) result.allocation = nullptr;
  } else if (auto after = pinned_.upper_bound(address); after != pinned_.begin()) {
    const std::shared_ptr<block>& b = std::prev(after)->second;
    if (address < b->address + b->bytes) result = {place::pinned, -1, b, false};
  }
  if (result.allocation != nullptr) result.inside = holds(*result.allocation, address, bytes);
  return result;
}

RLCORE_INLINE std::byte* memory_system::view(memory_use* use, const void* p, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  const auto bad = [&](const std::string& why) {
    throw outcome_error{errors::core_exception, hexadecimal(address) + ": " + why};
  };
  if (!space_.contains(p)) bad("not an address of device memory");
  const std::shared_ptr<block> b = home_of(address).find(address);
  if (b == nullptr) bad("no memory is allocated there");
  if (use != nullptr && use->device >= 0 && use->device != b->device)
    bad("memory of device " + std::to_string(b->device) + " in a task of device " + std::to_string(use->device));
  const bool held = use != nullptr && use->has(b.get());
  if (b->freed && !held) bad("the memory has been freed");
  if (!holds(*b, address, bytes))
    bad(std::to_string(bytes) + " bytes from there reach past the end of an allocation of " + std::to_string(b->bytes) +
        " bytes at " + hexadecimal(b->address));
  if (use != nullptr && !held) {
    ++b->users;
    use->blocks.push_back(b);
  }
  return space_.contents(address);
}

RLCORE_INLINE bool memory_system::hold(memory_use& use, const std::shared_ptr<block>& b) {
  const std::lock_guard lock(mutex_);
  if (b->freed) return false;
  if (!use.has(b.get())) {
    ++b->users;
    use.blocks.push_back(b);
  }
  return true;
}

RLCORE_INLINE bool memory_system::release(memory_use& use) {
  bool lost = false;
  std::unique_lock lock(mutex_);
  for (const std::shared_ptr<block>& b : use.blocks) {
    lost = lost || b->freed;
    if (--b->users != 0) continue;
    if (b->freed) bury(b);
    unused_.notify_all();
  }
  use.blocks.clear();
  return lost;
}

RLCORE_INLINE auto memory_system::left(int device) const -> remainder {
  const std::lock_guard lock(mutex_);
  remainder r;
  const auto add = [&](const std::shared_ptr<block>& b) {
    ++r.blocks;
    r.bytes += b->bytes;
    if (b->device >= 0 && !tail_is_intact(*b)) ++r.overrun;
  };
  if (device >= 0) {
    devices_[static_cast<std::size_t>(device)].each_live(add);
  } else {
    for (const auto& [address, b] : pinned_) add(b);
  }
  return r;
}

RLCORE_INLINE void memory_system::poison(std::byte* data, std::size_t bytes) const {
  bytes = std::min(bytes, poison_bytes_);
  for (std::size_t i = 0; i < std::min(bytes, std::size_t{64}); ++i) data[i] = fresh[i & 1];
  for (std::size_t done = 64; done < bytes; done += 64)
    std::memcpy(data + done, data, std::min(std::size_t{64}, bytes - done));
}

RLCORE_INLINE bool memory_system::tail_is_intact(const block& b) const {
  const std::byte* tail = space_.contents(b.address) + b.bytes;
  for (std::size_t i = 0; i < b.room - b.bytes; ++i)
    if (tail[i] != canary) return false;
  return true;
}

RLCORE_INLINE void memory_system::bury(const std::shared_ptr<block>& b) {
  if (b->device < 0) {
    std::free(reinterpret_cast<void*>(b->address));
  } else {
    devices_[static_cast<std::size_t>(b->device)].give_back(b);
  }
}

RLCORE_INLINE void memory_system::clear(std::unique_lock<std::mutex>& lock, device_memory& d) {
  unused_.wait(lock, [&] {
    bool used = false;
    d.each([&](const std::shared_ptr<block>& b) { used = used || b->users != 0; });
    return !used;
  });
  d.clear();
}

}  // namespace ascend::emulated
RLCORE_END
#endif
