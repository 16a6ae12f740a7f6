// Groups the rows of a validation set by problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "rlcore/data/prompt_dataset.hpp"

RLCORE_BEGIN
namespace trainer {

/// The number of the problem of each row. Rows of one prompt are one problem where all prompts of their data source
/// stand in equally many rows (AIME 2024 is published with 32 of each); elsewhere every row is a problem of its own.
/// verl merges in both cases, so that a single duplicate makes val-core/*@2 the score of that one prompt.
std::vector<std::uint32_t> problems_of(const data::prompt_dataset& rows);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::vector<std::uint32_t> problems_of(const data::prompt_dataset& rows) {
  struct occurrences {
    std::uint32_t first = 0;
    std::size_t count = 0;
  };
  using identity = std::tuple<std::string, std::vector<std::int32_t>, std::vector<data::content_hash>>;
  const auto identity_of = [&](std::size_t i) {
    return identity{rows[i].data_source, rows[i].ids, data::image_hashes(rows[i])};
  };
  std::map<identity, occurrences> prompts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    occurrences& o = prompts.try_emplace(identity_of(i), occurrences{}).first->second;
    if (o.count++ == 0) o.first = static_cast<std::uint32_t>(i);
  }
  std::map<std::string, std::size_t> count_of;  // 0: they differ
  for (const auto& [prompt, o] : prompts) {
    const auto [at, fresh] = count_of.try_emplace(std::get<0>(prompt), o.count);
    if (!fresh && at->second != o.count) at->second = 0;
  }
  std::vector<std::uint32_t> problem(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    problem[i] = count_of[rows[i].data_source] == 0 ? static_cast<std::uint32_t>(i) : prompts[identity_of(i)].first;
  return problem;
}

}  // namespace trainer
RLCORE_END
#endif
