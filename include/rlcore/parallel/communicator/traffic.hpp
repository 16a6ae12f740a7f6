// What a rank has sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/collective.hpp"

RLCORE_BEGIN
namespace parallel {

/// Collectives of one rank, the bytes that it sent to other ranks (what it keeps for itself does not count, and a
/// broadcast is the root's), and the time it spent in them, waiting included.
struct traffic {
  /// The sums over the calls of one collective.
  struct line {
    std::uint64_t calls = 0, bytes = 0;
    double seconds = 0;
    /// Adds calls, bytes and seconds.
    line& operator+=(const line& x) noexcept {
      calls += x.calls;
      bytes += x.bytes;
      seconds += x.seconds;
      return *this;
    }
  };
  std::array<line, collective_kinds> lines{};

  /// The sums of one collective.
  const line& of(collective c) const noexcept { return lines[static_cast<std::size_t>(c)]; }
  line total() const noexcept {
    line sum;
    for (const line& l : lines) sum += l;
    return sum;
  }
  /// Adds collective by collective.
  traffic& operator+=(const traffic& x) noexcept {
    for (std::size_t i = 0; i < lines.size(); ++i) lines[i] += x.lines[i];
    return *this;
  }
};

}  // namespace parallel
RLCORE_END
