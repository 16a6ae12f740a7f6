// Saves a checkpoint step from one or several ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <type_traits>
#include <utility>

#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/parallel/world.hpp"

RLCORE_BEGIN
namespace trainer {

/// Returns the first rank's `x` on every rank.
template <class T>
T from_first(parallel::world& ranks, T x) {
  static_assert(std::is_trivially_copyable_v<T>);
  ranks.all().broadcast(std::span<T>(&x, 1), 0);
  return x;
}

/// Calls checkpoint::save_step() for one rank, or for all `ranks` together.
template <class Write>
void save_step_together(const std::filesystem::path& root, std::int64_t step, std::int64_t keep, parallel::world* ranks,
                        Write&& write) {
  if (ranks == nullptr || ranks->all().size() == 1)
    return checkpoint::save_step(root, step, keep, std::forward<Write>(write));
  checkpoint::save_step(ranks->all(), root, step, keep, std::forward<Write>(write));
}

}  // namespace trainer
RLCORE_END
