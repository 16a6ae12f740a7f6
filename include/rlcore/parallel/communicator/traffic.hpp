// Communication statistics of a rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/collective.hpp"

RLCORE_BEGIN
namespace parallel {

/// The collectives of one rank: calls, bytes sent to other ranks (without data for itself; a broadcast counts only in
/// the root), and time, including waiting.
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
  /// Adds the sums per collective.
  traffic& operator+=(const traffic& x) noexcept {
    for (std::size_t i = 0; i < lines.size(); ++i) lines[i] += x.lines[i];
    return *this;
  }
};

}  // namespace parallel
RLCORE_END
