// Checks of the arguments of one rank, shared by the engines.
#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// Throws std::invalid_argument unless `found` elements are the `expected` ones.
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

}  // namespace parallel
RLCORE_END
