// Local rank: place of a rank among those of its machine.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "rlcore/parallel/communicator/any.hpp"

RLCORE_BEGIN
namespace trainer {

/// A rank among those of its machine.
struct local_place {
  int rank = 0, size = 1;
};

/// Finds the ranks of this machine by its host name.
inline local_place find_local_place(parallel::any_communicator& ranks) {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  std::uint64_t hash = 1469598103934665603u;
  for (const char c : std::string_view(name)) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::vector<std::uint64_t> names(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(std::span<const std::uint64_t>(&hash, 1), std::span(names));
  local_place place{0, 0};
  for (std::size_t r = 0; r < names.size(); ++r) {
    if (names[r] != hash) continue;
    place.rank += r < static_cast<std::size_t>(ranks.rank());
    ++place.size;
  }
  return place;
}

}  // namespace trainer
RLCORE_END
