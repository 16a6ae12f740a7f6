// Single-rank communicator.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/communicator/typed_collectives.hpp"

RLCORE_BEGIN
namespace parallel {

/// Empty; every collective is a copy or nothing, and loops over ranks vanish because size() is a constant.
struct alone : typed_collectives<alone> {
  static constexpr const char* engine_name = "alone";
  static constexpr int rank() noexcept { return 0; }
  static constexpr int size() noexcept { return 1; }
  static constexpr void barrier() noexcept {}
  /// Returns the single-rank group for any color.
  static constexpr alone split(int, int) noexcept { return {}; }
  /// Throws communication_error.
  [[noreturn]] static void abort(const std::string& why) { throw communication_error("rlcore: aborted: " + why); }

  /// Does nothing.
  static void broadcast_bytes(element, std::byte*, std::size_t, int) noexcept {}
  /// Copies in to out.
  static void all_gather_bytes(element e, const std::byte* in, std::byte* out, std::size_t count) noexcept {
    if (in != out && count != 0) std::memcpy(out, in, count * e.bytes);
  }
  /// Copies in to out.
  static void all_gather_v_bytes(element e, const std::byte* in, std::byte* out,
                                 std::span<const std::size_t> counts) noexcept {
    all_gather_bytes(e, in, out, counts[0]);
  }
  /// Copies in to out.
  static void all_to_all_bytes(element e, const std::byte* in, std::byte* out, std::size_t count) noexcept {
    all_gather_bytes(e, in, out, count);
  }
  /// Copies in to out. Throws std::invalid_argument if the two counts differ.
  static void all_to_all_v_bytes(element e, const std::byte* in, std::span<const std::size_t> counts, std::byte* out,
                                 std::span<const std::size_t> out_counts) {
    check_size("all_to_all_v", "out", out_counts[0], counts[0]);
    all_gather_bytes(e, in, out, counts[0]);
  }
  /// Copies in to out for any distance.
  static void shift_bytes(element e, const std::byte* in, std::byte* out, std::size_t count, int) noexcept {
    all_gather_bytes(e, in, out, count);
  }
};

static_assert(communicator<alone> && std::is_empty_v<alone>);

}  // namespace parallel
RLCORE_END
