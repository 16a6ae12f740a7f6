// What ranks say of their parts, put together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/objective/loop/report.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/training/ranks/shares.hpp"
#include "rlcore/training/trainable_model.hpp"

RLCORE_BEGIN
namespace trainer {

/// Names are addresses, which mean nothing in another process: those of `own` stay.
template <class T>
void keep_names(T&, const T&) noexcept {}
template <std::size_t Pieces, std::size_t Monitors>
void keep_names(report<Pieces, Monitors>& sum, const report<Pieces, Monitors>& own) noexcept {
  for (std::size_t i = 0; i < Pieces; ++i) sum.piece[i].name = own.piece[i].name;
  for (std::size_t i = 0; i < Monitors; ++i)
    sum.monitor[i].piece = own.monitor[i].piece, sum.monitor[i].name = own.monitor[i].name;
}

/// The report of a step or an evaluation from those of all ranks that share its rows.
template <class Device, class T>
void sum_over_ranks(const trainable_model<Device>& model, T& report) {
  if (model.world() == nullptr) return;
  const T own = report;
  parallel::sum_over_ranks(*model.world(), report);
  keep_names(report, own);
}

/// Whether this rank writes files.
template <class Device>
bool writes(const trainable_model<Device>& model) {
  return model.world() == nullptr || model.world()->first();
}

/// Of `count` rows of tokens_of(row) tokens those that this rank computes when nothing is learnt from them.
template <class Device, class TokensOf>
row_range own_rows(const trainable_model<Device>& model, std::size_t count, TokensOf&& tokens_of) {
  if (model.world() == nullptr || model.world()->data().size() == 1) return {0, count};
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int64_t>(tokens_of(i)));
  parallel::any_communicator& group = model.world()->data();
  return share_by_cost(tokens, static_cast<std::size_t>(group.size()), static_cast<std::size_t>(group.rank()));
}

/// Numbers that each rank has for its own_rows(), in the order of all rows.
template <class Device, class T>
void gather_rows(const trainable_model<Device>& model, std::vector<T>& numbers) {
  if (model.world() == nullptr) return;
  numbers = gather_parts(model.world()->data(), std::span<const T>(numbers));
}

}  // namespace trainer
RLCORE_END
