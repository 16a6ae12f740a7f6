// Which objects of the operator interface are alive: double destroys, uses after them and leaks are found.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

enum class object_kind : std::uint8_t { tensor, scalar, int_array, tensor_list, executor };
inline constexpr std::array<const char*, 5> object_names{"tensors", "scalars", "int arrays", "tensor lists",
                                                         "executors"};

/// All living objects of the process. A destroyed object keeps its memory until 1024 younger ones were destroyed, so
/// that a stale pointer is told from the object that would have got its address.
class object_registry {
 public:
  void add(const void* object, object_kind kind) {
    const std::lock_guard lock(guard_);
    kinds_.emplace(object, kind);
    ++alive_[static_cast<std::size_t>(kind)];
  }
  bool alive(const void* object, object_kind kind) const {
    const std::lock_guard lock(guard_);
    const auto found = kinds_.find(object);
    return found != kinds_.end() && found->second == kind;
  }
  /// False if `object` is not a living `T` of this kind.
  template <class T>
  bool destroy(const T* object, object_kind kind) {
    std::pair<void*, void (*)(void*)> oldest{nullptr, nullptr};
    {
      const std::lock_guard lock(guard_);
      const auto found = kinds_.find(object);
      if (found == kinds_.end() || found->second != kind) return false;
      kinds_.erase(found);
      --alive_[static_cast<std::size_t>(kind)];
      dead_.emplace_back(const_cast<T*>(object), [](void* p) { delete static_cast<T*>(p); });
      if (dead_.size() > quarantine) {
        oldest = dead_.front();
        dead_.pop_front();
      }
    }
    if (oldest.first) oldest.second(oldest.first);
    return true;
  }
  /// Living objects per object_kind.
  std::array<std::size_t, 5> counts() const {
    const std::lock_guard lock(guard_);
    return alive_;
  }

 private:
  static constexpr std::size_t quarantine = 1024;
  mutable std::mutex guard_;
  std::unordered_map<const void*, object_kind> kinds_;
  std::deque<std::pair<void*, void (*)(void*)>> dead_;
  std::array<std::size_t, 5> alive_{};
};

/// Never destroyed: what is destroyed at exit may still ask.
inline object_registry& objects() {
  static object_registry& all = *new object_registry;
  return all;
}

/// "2 tensors, 1 executors" that were never destroyed; empty if there are none. For the report of aclFinalize.
inline std::string leaked_objects() {
  std::string text;
  const auto counts = objects().counts();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) text += (text.empty() ? "" : ", ") + std::to_string(counts[i]) + " " + object_names[i];
  return text;
}

}  // namespace ascend::emulated
RLCORE_END
