// Registry of live objects of the operator interface. It detects double destroys, uses after destroy and, at
// aclFinalize, leaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "rlcore/emulator/machine.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// All live objects of the process. A destroyed object keeps its memory until 1024 later ones are destroyed, so that no
/// new object gets the address of a stale pointer.
class object_registry {
 public:
  /// Registers a new object.
  void add(const void* object, host_object kind) {
    const std::lock_guard lock(guard_);
    kinds_.emplace(object, kind);
    born(kind);
  }
  /// Whether `object` is a live object of this kind.
  bool alive(const void* object, host_object kind) const {
    const std::lock_guard lock(guard_);
    const auto found = kinds_.find(object);
    return found != kinds_.end() && found->second == kind;
  }
  /// False if `object` is not a live `T` of this kind.
  template <class T>
  bool destroy(const T* object, host_object kind) {
    std::pair<void*, void (*)(void*)> oldest{nullptr, nullptr};
    {
      const std::lock_guard lock(guard_);
      const auto found = kinds_.find(object);
      if (found == kinds_.end() || found->second != kind) return false;
      kinds_.erase(found);
      died(kind);
      dead_.emplace_back(const_cast<T*>(object), [](void* p) { delete static_cast<T*>(p); });
      if (dead_.size() > quarantine) {
        oldest = dead_.front();
        dead_.pop_front();
      }
    }
    if (oldest.first) oldest.second(oldest.first);
    return true;
  }

 private:
  static constexpr std::size_t quarantine = 1024;
  mutable std::mutex guard_;
  std::unordered_map<const void*, host_object> kinds_;
  std::deque<std::pair<void*, void (*)(void*)>> dead_;
};

/// Never destroyed, since destructors at exit may still use it.
inline object_registry& objects() {
  static object_registry& registry = *new object_registry;
  return registry;
}

}  // namespace ascend::emulated
RLCORE_END
