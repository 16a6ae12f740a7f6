// Report of an objective on a batch: the loss, its pieces and their monitors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN

RLCORE_ALGORITHM_BEGIN
namespace detail {
/// sum_i coefficient_i aggregated_i. Not inlined into the caller, whose flags might contract it.
template <class Pieces>
double weighted_total(const Pieces& pieces) noexcept {
  double sum = 0;
  for (const auto& p : pieces) sum += p.coefficient * p.aggregated.value();
  return sum;
}
}  // namespace detail
RLCORE_ALGORITHM_END

/// Sums over the rows of a batch. Reports of micro-batches, threads and ranks are joined with += in any order and give
/// the bits that the whole batch would have given: every sum is exact, every denominator a global count.
template <std::size_t Pieces, std::size_t Monitors>
struct report {
  /// The sums of one piece.
  struct piece_sums {
    std::string_view name;
    double coefficient = 1;
    exact_sum aggregated;  ///< sum of row weight times the row's sum: the piece's loss before its coefficient
    exact_sum total;       ///< sum over live tokens
  };
  /// The sum of one monitor of a piece.
  struct monitor_sum {
    std::string_view piece, name;
    exact_sum total;  ///< sum over live tokens
  };

  std::array<piece_sums, Pieces> piece{};
  std::array<monitor_sum, Monitors> monitor{};
  std::int64_t tokens = 0;     ///< live tokens seen
  std::int64_t sequences = 0;  ///< rows with at least one live token
  std::int64_t rows = 0;
  std::int64_t units = 0;   ///< the count that means divide by: live tokens; for sequence objectives their terms
  bool empty_step = false;  ///< the global counts say that the step has no live token: loss and gradients are zero

  /// This batch's share of the loss of the step.
  RLCORE_FN double loss() const noexcept { return detail::weighted_total(piece); }
  /// The piece called `name` as aggregated, without its coefficient: value("kl"). Throws std::out_of_range if there is
  /// none.
  double value(std::string_view name) const {
    for (const piece_sums& p : piece)
      if (p.name == name) return p.aggregated.value();
    throw std::out_of_range(unknown(name));
  }
  /// The mean of the piece or the monitor called `name` over live tokens (of a sequence objective: over its terms), 0
  /// if there are none: report["kl"], report["clipfrac"]. Throws std::out_of_range if there is neither.
  double operator[](std::string_view name) const {
    for (const piece_sums& p : piece)
      if (p.name == name) return per_unit(p.total);
    for (const monitor_sum& m : monitor)
      if (m.name == name) return per_unit(m.total);
    throw std::out_of_range(unknown(name));
  }

  /// Takes the names of pieces and monitors from `local`: those of a report from another process are addresses in that
  /// process.
  void keep_names(const report& local) noexcept {
    for (std::size_t i = 0; i < Pieces; ++i) piece[i].name = local.piece[i].name;
    for (std::size_t i = 0; i < Monitors; ++i)
      monitor[i].piece = local.monitor[i].piece, monitor[i].name = local.monitor[i].name;
  }

  /// Joins the report of another part of the step.
  RLCORE_FN report& operator+=(const report& other) noexcept {
    for (std::size_t i = 0; i < Pieces; ++i) {
      if (!other.piece[i].name.empty()) {
        piece[i].name = other.piece[i].name;
        piece[i].coefficient = other.piece[i].coefficient;
      }
      piece[i].aggregated += other.piece[i].aggregated;
      piece[i].total += other.piece[i].total;
    }
    for (std::size_t i = 0; i < Monitors; ++i) {
      if (!other.monitor[i].name.empty()) {
        monitor[i].piece = other.monitor[i].piece;
        monitor[i].name = other.monitor[i].name;
      }
      monitor[i].total += other.monitor[i].total;
    }
    tokens += other.tokens;
    sequences += other.sequences;
    rows += other.rows;
    units += other.units;
    empty_step |= other.empty_step;
    return *this;
  }

 private:
  std::string unknown(std::string_view name) const {
    std::string text = "rlcore: this report has no '" + std::string(name) + "'; it has";
    const char* between = " ";
    for (const piece_sums& p : piece) text += between + std::string(p.name), between = ", ";
    for (const monitor_sum& m : monitor) text += between + std::string(m.name), between = ", ";
    return text;
  }
  RLCORE_FN double per_unit(const exact_sum& s) const noexcept {
    return units > 0 ? s.value() / static_cast<double>(units) : 0.0;
  }
};

RLCORE_END
