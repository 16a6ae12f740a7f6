// The description of a collective that a rank enters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// The collectives of the concept communicator, and what a rank does before and after them.
enum class collective : std::uint8_t {
  barrier,
  broadcast,
  all_gather,
  all_gather_v,
  all_to_all,
  all_to_all_v,
  shift,
  split,
  start,  ///< no collective: the engine itself begins, and the ranks find each other
  end     ///< no collective: the rank's work is done
};
inline constexpr std::size_t collective_kinds = 10;

/// The name for messages.
constexpr const char* name_of(collective c) noexcept {
  constexpr const char* names[collective_kinds] = {"barrier",    "broadcast",    "all_gather", "all_gather_v",
                                                   "all_to_all", "all_to_all_v", "shift",      "split",
                                                   "the start",  "the end"};
  const auto at = static_cast<std::size_t>(c);
  return at < collective_kinds ? names[at] : "nothing known";
}

/// The type of one element, as far as ranks have to agree on it.
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

/// A collective with the arguments that have to agree between ranks.
struct collective_call {
  collective operation = collective::barrier;
  element of{};
  std::size_t count = 0;  ///< equal in all ranks; 0 where sizes differ by rank
  int root = 0;           ///< the root of a broadcast, the distance of a shift

  /// Do two ranks mean the same call? All fields have to be equal.
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

}  // namespace parallel
RLCORE_END
