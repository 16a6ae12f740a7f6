// Rewards that are given as numbers: ratings, scores of a judge, returns.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/preference/link.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// (score - target)^2 with slope 2 (score - target), target = field::target. A link of single rows.
struct squared_error_link {
  static constexpr field reads = field::logp | field::target;
  static constexpr std::string_view name = "squared_error";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& row) const noexcept {
    const V error = row.logp - row.target;
    return {error * error, V(2) * error};
  }
};

/// error^2 / 2 where |error| <= width, width (|error| - width / 2) beyond (Huber 1964; PyTorch's huber_loss), error =
/// score - field::target. slope: the error, held within [-width, width].
struct huber_link {
  static constexpr field reads = field::logp | field::target;
  static constexpr std::string_view name = "huber";
  double width = 1.0;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& row) const noexcept {
    const V error = row.logp - row.target, size = Math::abs(error);
    return {Math::select(size > V(width), V(width) * (size - V(0.5 * width)), V(0.5) * (error * error)),
            Math::clamp(error, V(-width), V(width))};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
