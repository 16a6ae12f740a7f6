// A reference model that follows the policy.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// reference <- (1 - rate) reference + rate policy, every `steps` optimizer steps (TR-DPO's soft update, Gorbatovski et
/// al. 2024; TRL's sync_ref_model, whose defaults these are). rate = 1 copies.
struct reference_ema {
  double rate = 0.6;
  std::int64_t steps = 512;

  /// Whether the reference moves after optimizer step `step`, counted from 1.
  [[nodiscard]] constexpr bool due(std::int64_t step) const noexcept { return step % steps == 0; }

  /// One parameter. Throws std::invalid_argument if the shapes differ.
  template <class Reference, class Policy>
  void operator()(Reference&& reference, const Policy& policy) const {
    const auto to = tensor_views::vector_of(as_view(reference));
    const auto from = tensor_views::vector_of(as_view(policy));
    static_assert(decltype(to)::rank == 1 && decltype(from)::rank == 1,
                  "rlcore: parameters are passed as flat vectors");
    using element = typename decltype(to)::value_type;
    if (to.shape != from.shape)
      throw std::invalid_argument("rlcore: reference is " + to_string<1>(to.shape) + ", policy is " +
                                  to_string<1>(from.shape));
    const element keep = static_cast<element>(1.0 - rate), take = static_cast<element>(rate);
    for (extent_t i = 0; i < to.shape[0]; ++i) to(i) = keep * to(i) + take * from(i);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
