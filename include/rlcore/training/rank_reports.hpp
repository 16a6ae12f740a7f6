// Sums reports over all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rlcore/training/ranks/shares.hpp"
#include "rlcore/training/trainable_model.hpp"

RLCORE_BEGIN
namespace trainer {

/// Adds up the reports of all ranks that share the rows of a step or an evaluation.
template <class Device, class Strategy, class T>
void sum_over_ranks(const trainable_model<Device, Strategy>& model, T& report) {
  model.strategy().sum(report);
}

/// True if this rank writes files.
template <class Device, class Strategy>
bool writes(const trainable_model<Device, Strategy>& model) {
  return model.strategy().first();
}

/// The rows that this rank evaluates, out of `count` rows of tokens_of(row) tokens each.
template <class Device, class Strategy, class TokensOf>
row_range own_rows(const trainable_model<Device, Strategy>& model, std::size_t count, TokensOf&& tokens_of) {
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int64_t>(tokens_of(i)));
  return model.strategy().rows(tokens);
}

/// Gathers each rank's numbers for its own_rows(), in the order of all rows.
template <class Device, class Strategy, class T>
void gather_rows(const trainable_model<Device, Strategy>& model, std::vector<T>& numbers) {
  model.strategy().gather(numbers);
}

}  // namespace trainer
RLCORE_END
