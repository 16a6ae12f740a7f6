// The group of one rank.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/communicator/sizes.hpp"

RLCORE_BEGIN
namespace parallel {

/// Empty; every collective is a copy or nothing, and loops over ranks vanish because size() is a constant.
struct alone {
  static constexpr int rank() noexcept { return 0; }
  static constexpr int size() noexcept { return 1; }
  static constexpr void barrier() noexcept {}

  template <wire T>
  void broadcast(std::span<T>, int root) const {
    check_root("broadcast", root, 1);
  }
  template <wire T>
  void all_gather(std::span<const T> in, std::span<T> out) const {
    copy("all_gather", in, out);
  }
  template <wire T>
  void all_gather_v(std::span<const T> in, std::span<T> out, std::span<const std::size_t> counts) const {
    check_counts("all_gather_v", "out", counts, 1, out.size());
    copy("all_gather_v", in, out);
  }
  template <wire T>
  void all_to_all(std::span<const T> in, std::span<T> out) const {
    copy("all_to_all", in, out);
  }
  template <wire T>
  void all_to_all_v(std::span<const T> in, std::span<const std::size_t> in_counts, std::span<T> out,
                    std::span<const std::size_t> out_counts) const {
    check_counts("all_to_all_v", "in", in_counts, 1, in.size());
    check_counts("all_to_all_v", "out", out_counts, 1, out.size());
    copy("all_to_all_v", in, out);
  }
  [[noreturn]] void abort(const std::string& why) const { throw communication_error("rlcore: aborted: " + why); }

 private:
  template <class T>
  static void copy(const char* collective, std::span<const T> in, std::span<T> out) {
    check_size(collective, "out", out.size(), in.size());
    if (in.data() != out.data() && !in.empty()) std::memcpy(out.data(), in.data(), in.size_bytes());
  }
};

static_assert(communicator<alone> && std::is_empty_v<alone>);

}  // namespace parallel
RLCORE_END
