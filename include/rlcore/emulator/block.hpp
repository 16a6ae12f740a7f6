// One allocation, and who is using it right now.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// Memory of a device, or pinned memory of the host (device -1). All but the first three is guarded by the mutex of the
/// machine's memory.
struct block {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;  ///< as asked for
  int device = -1;
  std::size_t room = 0;  ///< with padding
  int users = 0;         ///< tasks and copies at work on it
  bool freed = false;
};

/// The blocks that a task or a copy works on. They keep their contents until it ends, even if somebody frees them.
struct memory_use {
  int device = -1;  ///< where the task runs; -1: on the host
  std::vector<std::shared_ptr<block>> blocks;

  /// Is b one of the blocks?
  bool has(const block* b) const noexcept {
    return std::any_of(blocks.begin(), blocks.end(), [&](const auto& other) { return other.get() == b; });
  }
};

/// Of the calling thread; null while it is at no task.
inline memory_use*& current_use() {
  thread_local memory_use* use = nullptr;
  return use;
}

}  // namespace ascend::emulated
RLCORE_END
