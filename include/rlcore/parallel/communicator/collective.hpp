// Collective operations: names, arguments and checks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// The collectives of the concept communicator, and the states before and after them.
enum class collective : std::uint8_t {
  barrier,
  broadcast,
  all_gather,
  all_gather_v,
  all_to_all,
  all_to_all_v,
  shift,
  split,
  start,  ///< no collective: engine startup, the ranks connect
  end     ///< no collective: the rank has finished
};
inline constexpr std::size_t collective_kinds = 10;

/// The name used in messages.
constexpr const char* name_of(collective c) noexcept {
  constexpr const char* names[collective_kinds] = {"barrier",    "broadcast",    "all_gather", "all_gather_v",
                                                   "all_to_all", "all_to_all_v", "shift",      "split",
                                                   "the start",  "the end"};
  const auto at = static_cast<std::size_t>(c);
  return at < collective_kinds ? names[at] : "nothing known";
}

/// The part of the element type that all ranks must agree on.
struct element {
  std::size_t bytes = 0;
  char kind = 0;  ///< 'f' floating point, 'i' signed, 'u' unsigned, 'x' other
};
/// The size and kind of T.
template <class T>
constexpr element element_of() noexcept {
  if constexpr (std::is_floating_point_v<T>)
    return {sizeof(T), 'f'};
  else if constexpr (std::is_integral_v<T>)
    return {sizeof(T), std::is_signed_v<T> ? 'i' : 'u'};
  else
    return {sizeof(T), 'x'};
}

/// A collective with the arguments that all ranks must agree on.
struct collective_call {
  collective operation = collective::barrier;
  element of{};
  std::size_t count = 0;  ///< equal in all ranks; 0 where sizes differ by rank
  int root = 0;           ///< the root of a broadcast, the distance of a shift

  /// Is it the same call in both ranks? All fields must be equal.
  bool fits(const collective_call& other) const noexcept {
    return operation == other.operation && of.bytes == other.of.bytes && of.kind == other.of.kind &&
           count == other.count && root == other.root;
  }
  std::string text() const {
    std::string s = name_of(operation);
    if (of.bytes != 0)
      s += " (" + std::to_string(count) + " elements of " + std::to_string(of.bytes) + " bytes, kind '" + of.kind +
           "', " + (operation == collective::shift ? "by " : "root ") + std::to_string(root) + ")";
    return s;
  }
};

/// Throws std::invalid_argument unless `found` equals `expected`.
inline void check_size(const char* collective, const char* name, std::size_t found, std::size_t expected) {
  if (found != expected)
    throw std::invalid_argument(std::string("rlcore: ") + collective + ": " + name + " has " + std::to_string(found) +
                                " elements, expected " + std::to_string(expected));
}

/// Throws std::invalid_argument unless root is one of `size` ranks.
inline void check_root(const char* collective, int root, int size) {
  if (root < 0 || root >= size)
    throw std::invalid_argument(std::string("rlcore: ") + collective + ": root " + std::to_string(root) +
                                ", expected 0 .. " + std::to_string(size - 1));
}

/// Throws std::invalid_argument unless there is one count per rank and they add up to `elements`.
inline void check_counts(const char* collective, const char* name, std::span<const std::size_t> counts, int size,
                         std::size_t elements) {
  check_size(collective, "the list of counts", counts.size(), static_cast<std::size_t>(size));
  check_size(collective, name, elements, std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
}

/// A rank's arguments of split(): its group by color and its order in the group by key.
struct split_wish {
  int color = 0, key = 0;
};

/// The ranks with `color`, ordered by key, then by rank.
inline std::vector<int> split_group(std::span<const split_wish> wishes, int color) {
  std::vector<int> group;
  for (std::size_t r = 0; r < wishes.size(); ++r)
    if (wishes[r].color == color) group.push_back(static_cast<int>(r));
  std::stable_sort(group.begin(), group.end(), [&](int a, int b) {
    return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
  });
  return group;
}

}  // namespace parallel

RLCORE_END
