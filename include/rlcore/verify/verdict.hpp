// Result of a rule-based reward for one response.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace verify {

/// The reason for a score; trainers count the reasons to explain zero rewards.
enum class reason {
  correct,
  wrong,           ///< an answer was found and differs
  no_match,        ///< no answer was found
  outside_window,  ///< an answer was found only before the searched window
  malformed,       ///< an answer starts but does not end: an unclosed box, \fbox, a cut command
  too_long,        ///< more bytes than the rule scores
  undecided,       ///< an answer was found, but its equality cannot be decided; scored as wrong
};

inline constexpr std::array<std::string_view, 7> reason_names{"correct",   "wrong",    "no_match", "outside_window",
                                                              "malformed", "too_long", "undecided"};

/// The name of the reason in trainers' counts.
constexpr std::string_view name_of(reason why) noexcept { return reason_names[static_cast<std::size_t>(why)]; }

/// `acc` and `pred` are returned by verl's rules in addition to the score; validation names its metrics by the fields
/// that are set.
struct verdict {
  double score = 0;
  reason why = reason::no_match;
  std::optional<bool> acc = std::nullopt;          ///< for rules that report an accuracy
  std::optional<std::string> pred = std::nullopt;  ///< the extracted answer, as the rule compares it: maj@k votes by it
  bool has_reason = true;  ///< false: of a function that gives a score alone, `why` only says whether it is above 0

  bool correct() const noexcept { return why == reason::correct; }
};

}  // namespace verify
RLCORE_END
