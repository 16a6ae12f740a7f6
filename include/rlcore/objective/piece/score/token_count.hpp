// How long a sequence is, as a score.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// 1 per token, a constant: sum_of<token_count> is the number of live tokens.
struct token_count {
  static constexpr field reads = field::none;
  static constexpr std::string_view name = "token_count";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>&) const noexcept {
    return {V(1), V(0)};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
