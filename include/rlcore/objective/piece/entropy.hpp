// Entropy and entropy bonus.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// H, with slope 1 by field::entropy: its gradient goes to the entropy output, not to logp.
struct token_entropy {
  static constexpr field reads = field::entropy;
  static constexpr field wrt = field::entropy;
  static constexpr std::string_view name = "entropy";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.entropy, V(1)};
  }
};

/// -coefficient H: rewards entropy. The report shows H itself.
constexpr scaled<token_entropy> entropy_bonus(double coefficient) noexcept { return {-coefficient, token_entropy{}}; }

RLCORE_ALGORITHM_END
RLCORE_END
