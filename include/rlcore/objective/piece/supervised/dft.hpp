// Dynamic fine-tuning.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -sg(e^logp) logp: cross-entropy whose tokens weigh as much as the model believes in them (Wu et al. 2025, "On the
/// Generalization of SFT"; TRL loss_type "dft"; Liger token scaling). slope: -e^logp.
struct dft {
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "dft";
  static constexpr bool stops_gradient = true;

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V p = Math::exp(t.logp);
    return {-Math::select(p == V(0), p, p * t.logp), -p};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
