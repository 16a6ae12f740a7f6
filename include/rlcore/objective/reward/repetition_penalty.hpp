// A penalty for saying the same again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/scratch_vector.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// penalty * (1 - distinct n-grams / n-grams) of a response's token ids; 0 for fewer than n tokens (Yeo et al. 2025,
/// appendix C.2). The defaults are TRL's.
struct repetition_penalty {
  std::size_t n = 3;
  double penalty = -1.0;

  /// Throws std::invalid_argument for n = 0 or a penalty above 0.
  template <class Token>
  double operator()(std::span<const Token> ids) const {
    if (n == 0 || penalty > 0)
      throw std::invalid_argument("rlcore: repetition_penalty needs n > 0 and penalty <= 0, they are " +
                                  std::to_string(n) + " and " + std::to_string(penalty));
    if (ids.size() < n) return 0.0;
    const auto gram = [&](std::size_t i) { return ids.subspan(i, n); };
    scratch_vector<std::size_t> order(ids.size() - n + 1);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::lexicographical_compare(gram(a).begin(), gram(a).end(), gram(b).begin(), gram(b).end());
    });
    const auto last = std::unique(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::equal(gram(a).begin(), gram(a).end(), gram(b).begin());
    });
    const auto distinct = static_cast<double>(last - order.begin());
    const double repeated = 1.0 - distinct / static_cast<double>(order.size());
    return repeated > 0 ? repeated * penalty : 0.0;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
