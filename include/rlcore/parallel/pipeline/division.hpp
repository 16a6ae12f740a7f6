// Which layers a pipeline stage has (Megatron-LM's rules).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/settings.hpp"
#include "rlcore/parallel/strategy/parallel_strategy.hpp"

RLCORE_BEGIN
namespace parallel {

/// The names of these settings in messages.
struct division_names {
  std::string stages = "the number of stages", chunks = "the number of chunks";
  std::string first = "num_layers_in_first_pipeline_stage", last = "num_layers_in_last_pipeline_stage";
  std::string embedding = "account_for_embedding_in_pipeline_split", loss = "account_for_loss_in_pipeline_split";
};

/// The layers of every virtual stage, in their order. With accounted ends a range may be empty. Throws config_error,
/// with numbers that would do, if `layers` layers cannot be divided so.
std::vector<index_range> divide_layers(std::int64_t layers, const pipeline_division& d,
                                       const division_names& names = {});

/// Layers of the first and of the last stage such that the other stages have equally many and the largest stage is
/// smallest; empty if `layers` are too few for that.
std::optional<std::pair<std::int64_t, std::int64_t>> suggested_ends(std::int64_t layers, int stages);

/// "11, 6 x 12, 11": the number of layers of each stage, all chunks together.
std::string division_text(const std::vector<index_range>& ranges, int stages);

}  // namespace parallel
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PARALLEL)
RLCORE_BEGIN
namespace parallel::detail {

/// The settings that give the stages suggested_ends(), or nothing.
RLCORE_INLINE std::string uneven_ends(std::int64_t layers, int stages, const division_names& names) {
  const auto ends = suggested_ends(layers, stages);
  if (!ends) return {};
  return "set " + names.first + "=" + std::to_string(ends->first) + " and " + names.last + "=" +
         std::to_string(ends->second);
}

RLCORE_INLINE void check_division(std::int64_t layers, const pipeline_division& d, const division_names& n) {
  const auto text = [](const std::string& name, std::int64_t value) { return name + "=" + std::to_string(value); };
  if (d.stages < 1) throw config_error(text(n.stages, d.stages) + ": expected 1 or more");
  if (d.chunks < 1) throw config_error(text(n.chunks, d.chunks) + ": expected 1 or more");
  if (d.stages > layers)
    throw config_error(text(n.stages, d.stages) + ": more stages than the " + std::to_string(layers) + " layers");
  for (const auto& [count, name] : {std::pair(d.first, n.first), std::pair(d.last, n.last)}) {
    if (count && *count < 1) throw config_error(text(name, *count) + ": expected 1 or more layers");
    if (count && (d.account_for_embedding || d.account_for_loss))
      throw config_error(text(name, *count) + " and " + (d.account_for_embedding ? n.embedding : n.loss) +
                         "=True: expected one of them");
    if (count && *count % d.chunks != 0)
      throw config_error(text(name, *count) + ": expected a multiple of the chunks, " + text(n.chunks, d.chunks));
  }
}

}  // namespace parallel::detail

namespace parallel {

RLCORE_INLINE std::optional<std::pair<std::int64_t, std::int64_t>> suggested_ends(std::int64_t layers, int stages) {
  const std::int64_t between = stages - 2;
  std::int64_t best = 0, rest = layers;
  if (between > 0) {
    best = -1;
    for (std::int64_t each = 1; each * between + 2 <= layers; ++each) {
      const std::int64_t ends = layers - each * between, largest = std::max(each, (ends + 1) / 2);
      if (best < 0 || largest < std::max(best, (rest + 1) / 2)) best = each, rest = ends;
    }
    if (best < 0) return std::nullopt;
  }
  return std::pair(rest / 2, rest - rest / 2);
}

RLCORE_INLINE std::vector<index_range> divide_layers(std::int64_t layers, const pipeline_division& d,
                                                     const division_names& n) {
  detail::check_division(layers, d, n);
  const std::string what = std::to_string(layers) + " layers over " + std::to_string(d.stages) + " stages: ";
  const std::int64_t others = d.stages - (d.first ? 1 : 0) - (d.last ? 1 : 0);
  const std::int64_t added = (d.account_for_embedding ? 1 : 0) + (d.account_for_loss ? 1 : 0);
  const std::int64_t rest = layers + added - d.first.value_or(0) - d.last.value_or(0);
  if (rest < 0 && d.first.has_value() != d.last.has_value())
    throw config_error((d.first ? n.first : n.last) + "=" + std::to_string(d.first.value_or(0) + d.last.value_or(0)) +
                       ": more than the " + std::to_string(layers) + " layers");
  if (rest < 0 || (others <= 0 && rest != 0))
    throw config_error(what + n.first + " and " + n.last + " are " +
                       std::to_string(d.first.value_or(0) + d.last.value_or(0)) + " together, expected " +
                       std::to_string(layers));
  if (others > 0 && rest % others != 0)
    throw config_error(what + std::to_string(rest) + " % " + std::to_string(others) + " = " +
                       std::to_string(rest % others) + "; " + detail::uneven_ends(layers, d.stages, n) +
                       (added > 0 ? ", without " + (d.account_for_embedding ? n.embedding : n.loss) +
                                        (added > 1 ? " and " + n.loss : std::string())
                                  : std::string()));
  const std::int64_t each = others > 0 ? rest / others : 0;
  if (others > 0 && each < 1) throw config_error(what + "no layer is left for the other stages");
  if (each % d.chunks != 0)
    throw config_error(what + std::to_string(each) + " layers of a stage are not " + std::to_string(d.chunks) +
                       " chunks (" + n.chunks + "); expected a multiple");

  std::vector<index_range> ranges;
  std::size_t at = 0;
  const int all = d.stages * d.chunks;
  for (int k = 0; k < all; ++k) {
    const int stage = k % d.stages;
    const bool is_first = stage == 0, is_last = stage == d.stages - 1;
    std::int64_t count = (is_first && d.first ? *d.first : is_last && d.last ? *d.last : each) / d.chunks;
    if (k == 0 && d.account_for_embedding) --count;
    if (k == all - 1 && d.account_for_loss) --count;
    if (count < 0) throw config_error(what + "a chunk of one layer cannot have both ends beside it");
    ranges.push_back({at, at + static_cast<std::size_t>(count)});
    at = ranges.back().last;
  }
  return ranges;
}

RLCORE_INLINE std::string division_text(const std::vector<index_range>& ranges, int stages) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(stages));
  for (std::size_t k = 0; k < ranges.size(); ++k) counts[k % counts.size()] += ranges[k].size();
  std::string text;
  for (std::size_t first = 0, last = 0; first < counts.size(); first = last) {
    while (last < counts.size() && counts[last] == counts[first]) ++last;
    text += (text.empty() ? "" : ", ") + (last - first > 1 ? std::to_string(last - first) + " x " : std::string()) +
            std::to_string(counts[first]);
  }
  return text;
}

}  // namespace parallel
RLCORE_END
#endif
