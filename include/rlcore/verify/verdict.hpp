// What a rule-based reward says about one response.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace verify {

/// Why a response got its score; trainers count these, so that a reward of zero is never a riddle.
enum class reason {
  correct,
  wrong,           ///< an answer was found and differs
  no_match,        ///< nothing that looks like an answer
  outside_window,  ///< an answer stands only before the part of the text that is looked at
};

constexpr std::string_view name_of(reason why) noexcept {
  constexpr std::array<std::string_view, 4> names{"correct", "wrong", "no_match", "outside_window"};
  return names[static_cast<std::size_t>(why)];
}

struct verdict {
  double score = 0;
  reason why = reason::no_match;
};

}  // namespace verify
RLCORE_END
