// Keeps the normaliser of the logits near 1.
#pragma once

#include <string_view>

#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// lse(z)^2 (PaLM, Chowdhery et al. 2022, with coefficient 1e-4). gradient: 2 lse(z) p. Next to a cross-entropy, its
/// own setting z_loss is cheaper: one softmax instead of two.
struct z_loss {
  static constexpr logits_field reads = logits_field::none;
  static constexpr std::string_view name = "z_loss";

  template <class T>
  logits_term<> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    const normalizer<T> n = normalize(x.logits);
    const double lse = n.value();
    if (g.wanted())
      for (extent_t j = 0; j < x.logits.size; j += g.lanes)
        g.write(j, pack<T>(static_cast<T>(2 * lse)) * fast_math::exp(n.logp(x.logits.load(j))));
    return lse * lse;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
