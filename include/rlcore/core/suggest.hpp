// "Did you mean ...?": the nearest known names by edit distance.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// Edit distance with insertions, deletions, substitutions and swaps of neighbours at cost 1 (optimal string
/// alignment).
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

/// Up to `count` of `known` that are plausibly what `name` meant, nearest first; empty if none is near. A name of more
/// than 256 bytes is no slip, and of very many names only the first are compared.
inline std::vector<std::string> nearest(std::string_view name, std::span<const std::string_view> known,
                                        std::size_t count = 3) {
  constexpr std::size_t longest = 256, most_work = std::size_t{1} << 27, far = SIZE_MAX;
  if (name.size() > longest) return {};
  const std::size_t limit = std::max<std::size_t>(2, name.size() / 4);
  std::vector<std::size_t> distances;
  std::size_t work = 0;
  for (const std::string_view candidate : known) {
    const std::size_t shorter = std::min(name.size(), candidate.size()),
                      longer = std::max(name.size(), candidate.size());
    const bool compared = longer - shorter <= limit && work <= most_work;
    if (compared) work += (name.size() + 1) * (candidate.size() + 1);
    distances.push_back(compared ? edit_distance(name, candidate) : far);
  }
  std::vector<std::string> names;
  for (std::size_t distance = 0; distance <= limit; ++distance)
    for (std::size_t i = 0; i < known.size() && names.size() < count; ++i)
      if (distances[i] == distance && distance < std::max(name.size(), known[i].size())) names.emplace_back(known[i]);
  return names;
}
/// The same for any range of names.
template <class Names>
std::vector<std::string> nearest(std::string_view name, const Names& known, std::size_t count = 3) {
  std::vector<std::string_view> views;
  for (const auto& candidate : known) views.push_back(candidate);
  return nearest(name, std::span<const std::string_view>(views), count);
}

/// " (did you mean 'x' or 'y'?)"; nothing without names.
inline std::string did_you_mean_text(std::span<const std::string> names) {
  if (names.empty()) return {};
  std::string text = " (did you mean '";
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : "' or '") + names[i];
  return text + "'?)";
}

/// " (did you mean 'x'?)", or nothing when no known name is near: meant to be appended to a message.
template <class Names>
std::string did_you_mean(std::string_view name, const Names& known) {
  return did_you_mean_text(nearest(name, known));
}

RLCORE_END
