// A memory block of the emulator, with a count of the tasks that use it.
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

/// Memory of a device, or pinned memory of the host (device -1). The mutex of the machine's memory guards all members
/// but the first three.
struct block {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;  ///< as requested
  int device = -1;
  std::size_t room = 0;  ///< with padding
  int users = 0;         ///< running tasks and copies that use it
  bool freed = false;
};

/// The blocks that a task or a copy uses. They keep their contents until it ends, even if the program frees them.
struct memory_use {
  int device = -1;  ///< where the task runs; -1: on the host
  std::vector<std::shared_ptr<block>> blocks;

  /// Whether b is one of the blocks.
  bool has(const block* b) const noexcept {
    return std::any_of(blocks.begin(), blocks.end(), [&](const auto& other) { return other.get() == b; });
  }
};

/// The blocks in use by the calling thread's task; null if it runs no task.
inline memory_use*& current_use() {
  thread_local memory_use* use = nullptr;
  return use;
}

}  // namespace ascend::emulated
RLCORE_END
