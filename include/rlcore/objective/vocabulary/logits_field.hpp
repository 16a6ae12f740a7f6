// The named inputs that a logits piece may read besides the logits.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A set of inputs of one position; combine with |.
enum class logits_field : unsigned {
  none = 0,
  label = 1,         ///< an entry of the vocabulary
  teacher = 2,       ///< logits of the teacher or the reference
  support = 4,       ///< a few entries of the vocabulary
  support_logp = 8,  ///< the teacher's log-probs of the support's entries
  target = 16,       ///< a distribution over the entries the piece names (soft label)
  weight = 32,       ///< constant factor of the position
};

/// The inputs of either set.
constexpr logits_field operator|(logits_field a, logits_field b) noexcept {
  return static_cast<logits_field>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// Whether `set` has an input of `f`.
constexpr bool contains(logits_field set, logits_field f) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(f)) != 0;
}

inline constexpr std::size_t logits_field_count = 6;
inline constexpr std::array<std::string_view, logits_field_count> logits_field_names{
    "labels", "teacher", "support", "support_logp", "targets", "weight"};

RLCORE_ALGORITHM_END
RLCORE_END
