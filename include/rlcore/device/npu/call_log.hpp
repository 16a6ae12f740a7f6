// Call log of Ascend's functions, with names for their objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/npu/abi/calls.hpp"

RLCORE_BEGIN
namespace ascend {

/// The log of this process. A call is one line; an answer other than success is another:
///
///     t0 aclnnMuls(bfloat16[2,3]@#4, 0.5, bfloat16[2,3]@#5+96)
///     t0   -> workspace 512
///
/// Threads and objects are numbered in the order of their first use; #5+96 is byte 96 of the sixth allocation, "host"
/// is any other memory. The log leaves out times and the results of polls. So the same work of one thread gives the
/// same text with every provider.
class call_log {
 public:
  using sink = std::function<void(std::string_view line)>;

  static call_log& instance() {
    static call_log& log = *new call_log;  // never destroyed, for calls at exit
    return log;
  }

  /// Returns the table to call instead of `table`, with null where `table` has null. The functions of `table` have to
  /// stay valid. Throws device_error if another table is being logged.
  const calls& start(const calls& table, sink to);
  /// Ends the log. Calls through its table still work.
  void stop();
  const calls& target() const noexcept { return *target_; }
  const calls& table() const noexcept { return table_; }
  /// Whether calls of `table` are logged.
  bool logs(const calls& table) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return to_ && target_ == &table;
  }

  /// Writes one line, prefixed by the number of the calling thread; nothing after stop().
  void line(const std::string& message);

  /// From now on the log prints an object (tensor, executor) or a handle (stream, communicator) as `label`.
  void name(const void* object, std::string label, bool handle = false) {
    const std::lock_guard<std::mutex> lock(mutex_);
    (handle ? handles_ : objects_)[object] = std::move(label);
  }
  /// Drops a handle, since its address may be reused for another object.
  void forget(const void* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    handles_.erase(handle);
  }
  /// The next number of a kind: stream#0, stream#1.
  std::string number(const std::string& kind) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return kind + "#" + std::to_string(counts_[kind]++);
  }
  /// Notes a new allocation, so that addresses in it are printed by its number.
  void allocated(const void* memory, std::size_t bytes);
  /// An object in the log: its label, "null", or "unknown".
  std::string object(const void* p);
  /// An address in the log: "#5+96", the label of a handle, "host" or "null".
  std::string memory(const void* p);

 private:
  struct allocation {
    std::size_t bytes = 0, number = 0;
  };
  std::mutex mutex_;
  sink to_;
  const calls* target_ = nullptr;
  calls table_;
  std::map<std::thread::id, std::size_t> threads_;
  std::map<const void*, std::string> objects_, handles_;
  std::map<std::uintptr_t, allocation> memory_;
  std::map<std::string, std::size_t> counts_;
};

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend {

RLCORE_INLINE void call_log::stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  to_ = nullptr;
  threads_.clear();
  objects_.clear();
  handles_.clear();
  memory_.clear();
  counts_.clear();
}

RLCORE_INLINE void call_log::line(const std::string& message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!to_) return;
  const auto [at, added] = threads_.try_emplace(std::this_thread::get_id(), threads_.size());
  to_("t" + std::to_string(at->second) + " " + message);
}

RLCORE_INLINE void call_log::allocated(const void* memory, std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto first = reinterpret_cast<std::uintptr_t>(memory);
  // Freed memory is dropped when its addresses are reused.
  auto at = memory_.lower_bound(first);
  if (at != memory_.begin() && std::prev(at)->first + std::prev(at)->second.bytes > first) --at;
  while (at != memory_.end() && at->first < first + bytes) at = memory_.erase(at);
  memory_[first] = {bytes, counts_["memory"]++};
}

RLCORE_INLINE std::string call_log::object(const void* p) {
  if (p == nullptr) return "null";
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = objects_.find(p);
  return known == objects_.end() ? "unknown" : known->second;
}

RLCORE_INLINE std::string call_log::memory(const void* p) {
  if (p == nullptr) return "null";
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto known = handles_.find(p); known != handles_.end()) return known->second;
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  auto at = memory_.upper_bound(address);
  if (at == memory_.begin()) return "host";
  --at;
  const std::uintptr_t offset = address - at->first;
  if (offset >= at->second.bytes) return "host";
  return "#" + std::to_string(at->second.number) + (offset == 0 ? "" : "+" + std::to_string(offset));
}

}  // namespace ascend
RLCORE_END
#endif
