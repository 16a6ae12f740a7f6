// At which level a ratio or a divergence is judged: the token, the turn, the sequence.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Each token by itself.
struct token_level {
  static constexpr std::string_view name = "token";
  static constexpr bool per_sequence = false;
  RLCORE_FN void operator()(std::span<const extent_t>, std::span<double>) const noexcept {}
};

/// All live tokens of a row.
struct whole_sequence {
  static constexpr bool per_sequence = true;
  /// Where the sequence ends: its number of live tokens.
  static std::size_t end(std::span<const extent_t> position, std::size_t) noexcept { return position.size(); }
};
/// A run of live tokens without a gap: what the policy wrote between two masked answers of a tool.
struct one_turn {
  static constexpr bool per_sequence = false;
  /// Where the turn ends that begins with the live token `first`: the index behind its last live token.
  static std::size_t end(std::span<const extent_t> position, std::size_t first) noexcept {
    std::size_t last = first + 1;
    while (last < position.size() && position[last] == position[last - 1] + 1) ++last;
    return last;
  }
};

/// What is made of the values of a scope.
enum class level_reduction { sum, mean, largest };

/// Gives every token the sum, mean or largest of the values of its scope. Sums are taken in double, from left to right.
template <class Scope, level_reduction Reduction>
struct reduced_over {
  static constexpr bool per_sequence = Scope::per_sequence;
  static constexpr std::string_view name = [] {
    constexpr std::string_view names[2][3]{{"summed_over_turn", "mean_over_turn", "largest_in_turn"},
                                           {"summed_over_sequence", "mean_over_sequence", "largest_in_sequence"}};
    return names[per_sequence][static_cast<std::size_t>(Reduction)];
  }();

  /// In place, for one row.
  RLCORE_FN void operator()(std::span<const extent_t> position, std::span<double> x) const noexcept {
    for (std::size_t first = 0, last = 0; first < x.size(); first = last) {
      last = Scope::end(position, first);
      double reduced = Reduction == level_reduction::largest ? -std::numeric_limits<double>::infinity() : 0.0;
      for (std::size_t k = first; k < last; ++k) {
        if constexpr (Reduction == level_reduction::largest)
          reduced = x[k] > reduced || x[k] != x[k] ? x[k] : reduced;
        else
          reduced += x[k];
      }
      if constexpr (Reduction == level_reduction::mean) reduced /= static_cast<double>(last - first);
      std::fill(x.begin() + static_cast<std::ptrdiff_t>(first), x.begin() + static_cast<std::ptrdiff_t>(last), reduced);
    }
  }
};

/// Of log-ratios: the log of the product of the ratios, the sequence's importance weight.
using summed_over_sequence = reduced_over<whole_sequence, level_reduction::sum>;
/// Of log-ratios: the log of the geometric mean of the ratios.
using mean_over_sequence = reduced_over<whole_sequence, level_reduction::mean>;
/// Of log-ratios: the largest of the sequence.
using largest_in_sequence = reduced_over<whole_sequence, level_reduction::largest>;
/// The same for the turn that a token belongs to.
using summed_over_turn = reduced_over<one_turn, level_reduction::sum>;
/// Of log-ratios: the log of the geometric mean over the turn.
using mean_over_turn = reduced_over<one_turn, level_reduction::mean>;
/// Of log-ratios: the largest of the turn.
using largest_in_turn = reduced_over<one_turn, level_reduction::largest>;

RLCORE_ALGORITHM_END
RLCORE_END
