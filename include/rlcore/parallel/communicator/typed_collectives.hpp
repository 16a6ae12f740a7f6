// CRTP base: typed collectives over an engine that moves bytes.
#pragma once

#include <cstddef>
#include <span>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/collective.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"

RLCORE_BEGIN
namespace parallel {

/// CRTP base of an engine: checks sizes, reduces the element type to the part that ranks compare, and calls the
/// engine's
///
///   broadcast_bytes(element, data, count, root)               all_gather_bytes(element, in, out, count)
///   all_gather_v_bytes(element, in, out, counts)              all_to_all_bytes(element, in, out, count per rank)
///   all_to_all_v_bytes(element, in, in_counts, out, counts)   shift_bytes(element, in, out, count, distance)
///
/// with counts in elements.
template <class Engine>
class typed_collectives {
 public:
  /// As communicator's. Throws std::invalid_argument if there is no rank `root`.
  template <wire T>
  void broadcast(std::span<T> data, int root) {
    check_root("broadcast", root, engine().size());
    engine().broadcast_bytes(element_of<T>(), bytes(data), data.size(), root);
  }
  /// As communicator's. Throws std::invalid_argument unless out has room for size() times `in`.
  template <wire T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    check_size("all_gather", "out", out.size(), in.size() * ranks());
    engine().all_gather_bytes(element_of<T>(), bytes(in), bytes(out), in.size());
  }
  /// As communicator's. Throws std::invalid_argument unless the counts fit `in`, `out` and the ranks.
  template <wire T>
  void all_gather_v(std::span<const T> in, std::span<T> out, std::span<const std::size_t> counts) {
    check_counts("all_gather_v", "out", counts, engine().size(), out.size());
    check_size("all_gather_v", "in", in.size(), counts[static_cast<std::size_t>(engine().rank())]);
    engine().all_gather_v_bytes(element_of<T>(), bytes(in), bytes(out), counts);
  }
  /// As communicator's. Throws std::invalid_argument unless `in` is a multiple of size() and `out` as long as `in`.
  template <wire T>
  void all_to_all(std::span<const T> in, std::span<T> out) {
    const std::size_t n = in.size() / ranks();
    check_size("all_to_all", "in", in.size(), n * ranks());
    check_size("all_to_all", "out", out.size(), in.size());
    engine().all_to_all_bytes(element_of<T>(), bytes(in), bytes(out), n);
  }
  /// As communicator's. Throws std::invalid_argument unless both lists of counts fit their data and the ranks.
  template <wire T>
  void all_to_all_v(std::span<const T> in, std::span<const std::size_t> in_counts, std::span<T> out,
                    std::span<const std::size_t> out_counts) {
    check_counts("all_to_all_v", "in", in_counts, engine().size(), in.size());
    check_counts("all_to_all_v", "out", out_counts, engine().size(), out.size());
    engine().all_to_all_v_bytes(element_of<T>(), bytes(in), in_counts, bytes(out), out_counts);
  }
  /// As communicator's. Throws std::invalid_argument unless `out` is as long as `in`.
  template <wire T>
  void shift(std::span<const T> in, std::span<T> out, int distance) {
    check_size("shift", "out", out.size(), in.size());
    engine().shift_bytes(element_of<T>(), bytes(in), bytes(out), in.size(), distance);
  }

 private:
  Engine& engine() noexcept { return static_cast<Engine&>(*this); }
  std::size_t ranks() noexcept { return static_cast<std::size_t>(engine().size()); }
  template <class T>
  static std::byte* bytes(std::span<T> s) noexcept {
    return static_cast<std::byte*>(static_cast<void*>(s.data()));
  }
  template <class T>
  static const std::byte* bytes(std::span<const T> s) noexcept {
    return static_cast<const std::byte*>(static_cast<const void*>(s.data()));
  }
};

/// The rank that is `distance` ranks after this one around the ring of `size`.
constexpr int rank_after(int rank, int distance, int size) noexcept {
  return static_cast<int>(((static_cast<long long>(rank) + distance) % size + size) % size);
}

}  // namespace parallel
RLCORE_END
