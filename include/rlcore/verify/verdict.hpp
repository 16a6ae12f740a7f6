// What a rule-based reward says about one response.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
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
  malformed,       ///< an answer is announced but not finished: a box that is not closed, \fbox, a cut command
  too_long,        ///< more bytes than the rule looks at
  undecided,       ///< an answer was found whose equality this library cannot decide; scored as wrong
};

inline constexpr std::array<std::string_view, 7> reason_names{"correct",   "wrong",    "no_match", "outside_window",
                                                              "malformed", "too_long", "undecided"};

/// The word under which trainers count the reason.
constexpr std::string_view name_of(reason why) noexcept { return reason_names[static_cast<std::size_t>(why)]; }

/// `acc` and `pred` are what verl's rules return beside the score; the validation names its metrics by what is there.
struct verdict {
  double score = 0;
  reason why = reason::no_match;
  std::optional<bool> acc = std::nullopt;  ///< of rules that report an accuracy
  std::optional<std::string> pred =
      std::nullopt;  ///< the answer that was found, as the rule compares it: maj@k votes by it

  bool correct() const noexcept { return why == reason::correct; }
};

}  // namespace verify
RLCORE_END
