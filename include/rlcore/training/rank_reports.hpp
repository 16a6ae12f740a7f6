// The reports of all ranks, added up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rlcore/objective/loop/report.hpp"
#include "rlcore/training/ranks/shares.hpp"
#include "rlcore/training/trainable_model.hpp"

RLCORE_BEGIN
namespace trainer {

/// Copies the names of `local` into `sum`. Names are addresses, which mean nothing in another process.
template <class T>
void keep_names(T&, const T&) noexcept {}
/// The same of an objective's pieces and monitors, whose names these are.
template <std::size_t Pieces, std::size_t Monitors>
void keep_names(report<Pieces, Monitors>& sum, const report<Pieces, Monitors>& local) noexcept {
  for (std::size_t i = 0; i < Pieces; ++i) sum.piece[i].name = local.piece[i].name;
  for (std::size_t i = 0; i < Monitors; ++i)
    sum.monitor[i].piece = local.monitor[i].piece, sum.monitor[i].name = local.monitor[i].name;
}

/// Adds up the reports of all ranks that share the rows of a step or an evaluation.
template <class Device, class Strategy, class T>
void sum_over_ranks(const trainable_model<Device, Strategy>& model, T& report) {
  const T local = report;
  model.strategy().sum(report);
  keep_names(report, local);
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

/// Gathers the numbers that each rank has for its own_rows(), in the order of all rows.
template <class Device, class Strategy, class T>
void gather_rows(const trainable_model<Device, Strategy>& model, std::vector<T>& numbers) {
  model.strategy().gather(numbers);
}

}  // namespace trainer
RLCORE_END
