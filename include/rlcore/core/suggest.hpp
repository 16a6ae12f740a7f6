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
/// alignment). A distance above `limit` is not finished and gives limit + 1 (Ukkonen 1985: only cells within `limit` of
/// the diagonal matter), so that unlike names cost little.
inline std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit = SIZE_MAX - 1) {
  limit = std::min(limit, std::max(a.size(), b.size()));
  const std::size_t far = limit + 1, width = b.size() + 1;
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return far;
  std::vector<std::size_t> before(width, far), last(width, far), row(width, far);
  for (std::size_t j = 0; j <= std::min(b.size(), limit); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    const std::size_t first = i > limit ? i - limit : 1, end = std::min(b.size(), i + limit);
    row[first - 1] = first == 1 ? std::min(i, far) : far;
    std::size_t least = row[first - 1];
    for (std::size_t j = first; j <= end; ++j) {
      row[j] = std::min(std::min(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
      if (row[j] > far) row[j] = far;
      if (row[j] < least) least = row[j];
    }
    if (least == far) return far;
    if (end < b.size()) row[end + 1] = far;
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
    distances.push_back(compared ? edit_distance(name, candidate, limit) : far);
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
