// Warns once if a run has no learning signal, with likely causes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/trainer/policy/settings.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace trainer {

/// Looks at every step. If the scores within each group are equal, group-relative advantages are 0; without groups
/// (rollout.n=1) the same holds where all scores of the step are.
class signal_watch {
 public:
  static constexpr int patience = 3;  ///< steps in a row without a gradient

  /// The first time that a step of groups scores alike, or that `patience` steps in a row do without groups or have
  /// actor/grad_norm = 0: what is wrong and the likely reasons, in one line. "" otherwise, and ever after.
  std::string operator()(std::span<const trajectory> batch, const metrics& numbers, const policy_settings& s);

 private:
  /// Whether there is a group of two or more, and none whose scores differ.
  static bool alike(std::span<const trajectory> batch, std::size_t group);

  static std::string of_all(std::ptrdiff_t some, std::size_t all) {
    return std::to_string(some) + " of " + std::to_string(all);
  }

  static std::string why_alike(std::span<const trajectory> batch, std::size_t group, const policy_settings& s);

  int alike_ = 0, flat_ = 0;  // steps in a row
  bool said_ = false;
};

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::string signal_watch::operator()(std::span<const trajectory> batch, const metrics& numbers,
                                                   const policy_settings& s) {
  if (said_ || batch.empty()) return {};
  const std::size_t group = s.samples > 1 ? static_cast<std::size_t>(s.samples) : batch.size();
  const bool equal = alike(batch, group);
  alike_ = equal ? alike_ + 1 : 0;
  flat_ = numbers.get("actor/grad_norm") == 0 ? flat_ + 1 : 0;
  const bool enough = alike_ >= (s.samples > 1 ? 1 : patience);
  if (!enough && flat_ < patience) return {};
  said_ = true;
  if (enough) return why_alike(batch, group, s);
  return "actor/grad_norm is 0 in " + std::to_string(patience) +
         " steps in a row though scores differ: nothing is learnt. Likely reasons: advantages that are all 0 "
         "(critic/advantages/max; a clipped reward), or every token clipped or left out of the loss "
         "(actor/pg_clipfrac)";
}

RLCORE_INLINE bool signal_watch::alike(std::span<const trajectory> batch, std::size_t group) {
  if (group < 2) return false;
  for (std::size_t first = 0; first + group <= batch.size(); first += group)
    for (const trajectory& t : batch.subspan(first, group))
      if (t.score() != batch[first].score()) return false;
  return true;
}

RLCORE_INLINE std::string signal_watch::why_alike(std::span<const trajectory> batch, std::size_t group,
                                                  const policy_settings& s) {
  const auto rewarded = std::count_if(batch.begin(), batch.end(), [](const trajectory& t) { return t.score() > 0; });
  std::string text = (group < batch.size() ? "all responses to a prompt score alike, in every group"
                                           : "all responses of a step score alike") +
                     std::string(": there is nothing to learn from. ");
  if (rewarded == std::ssize(batch))
    return text + "All are right: the data are too easy for this model; take harder prompts or a higher temperature";
  if (rewarded > 0)
    return text + of_all(rewarded, batch.size()) +
           " are right, whole groups each: a higher temperature or a larger rollout.n makes answers differ";
  std::array<std::ptrdiff_t, verify::reason_names.size()> why{};
  for (const trajectory& t : batch) ++why[static_cast<std::size_t>(t.verdict.why)];
  const auto unanswered = why[static_cast<std::size_t>(verify::reason::no_match)];
  const auto cut = std::count_if(batch.begin(), batch.end(), [&](const trajectory& t) {
    return t.reason == rollout::finish::length && t.response_length() >= s.max_response_length;
  });
  text += "No response was rewarded. Likely reasons: ";
  if (unanswered > 0)
    text += "no answer in the form that the reward function looks for (" + of_all(unanswered, batch.size()) + "); ";
  if (cut > 0)
    text += "responses cut at data.max_response_length=" + std::to_string(s.max_response_length) + " (" +
            of_all(cut, batch.size()) + "); ";
  return text + "a reward function that is not meant for these data; prompts too hard for this model";
}

}  // namespace trainer
RLCORE_END
#endif
