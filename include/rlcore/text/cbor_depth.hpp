// CBOR nesting depth check without recursion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

/// Whether the first CBOR value (RFC 8949) of `bytes` nests lists, maps and strings of pieces deeper than `limit`.
/// Nested string pieces count too, although they are invalid: a reader may detect this too late. Invalid CBOR is
/// scanned as far as possible. Linear time.
inline bool cbor_nests_deeper(std::string_view bytes, std::size_t limit) {
  constexpr std::uint64_t endless = std::numeric_limits<std::uint64_t>::max();  // until a break
  std::vector<std::uint64_t> left;                                              // values, in each that is open
  for (std::size_t at = 0; at < bytes.size();) {
    const auto head = static_cast<unsigned char>(bytes[at++]);
    const int kind = head >> 5, info = head & 31;
    std::uint64_t n = static_cast<std::uint64_t>(info);
    if (info == 31) {
      n = endless;
    } else if (info >= 24) {
      if (info > 27) return false;
      n = 0;
      for (int k = 1 << (info - 24); k > 0 && at < bytes.size(); --k)
        n = n << 8 | static_cast<unsigned char>(bytes[at++]);
    }
    const bool is_string = kind == 2 || kind == 3, is_list = kind == 4 || kind == 5;
    if (kind == 6) continue;  // a tag stands before a value
    if (kind == 7 && n == endless) {
      if (left.empty() || left.back() != endless) return false;
      left.pop_back();
    } else if ((is_string && n == endless) || (is_list && n > 0)) {
      if (left.size() == limit) return true;
      if (kind == 5 && n != endless) n = n > endless / 2 - 1 ? endless - 1 : 2 * n;
      left.push_back(n);
      continue;
    } else if (is_string) {
      if (n > bytes.size() - at) return false;
      at += static_cast<std::size_t>(n);
    }
    // A value has ended, and every container whose last value it was.
    while (!left.empty() && left.back() != endless && --left.back() == 0) left.pop_back();
    if (left.empty()) return false;
  }
  return false;
}

}  // namespace text
RLCORE_END
