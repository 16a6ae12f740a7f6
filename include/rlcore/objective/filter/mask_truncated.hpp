// Truncated responses out of the loss, but not out of the baseline.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Sets the number of live tokens to 0 where truncated[i] is not 0 (DAPO's overlong filtering; TRL's
/// mask_truncated_completions). Such a row has no gradient and is in no denominator that counts tokens or sequences;
/// its reward still takes part in its group's baseline, so compute advantages from all rows. Pass the result as
/// token_batch::lengths. Returns how many rows were masked; throws std::invalid_argument if sizes differ.
template <class Truncated, class Lengths>
std::int64_t mask_truncated(const Truncated& truncated, Lengths&& lengths) {
  const auto flag = tensor_views::vector_of(as_view(truncated));
  const auto length = tensor_views::vector_of(as_view(lengths));
  using element = typename decltype(length)::value_type;
  static_assert(decltype(flag)::rank == 1 && decltype(length)::rank == 1 && std::is_integral_v<element>,
                "rlcore: truncated and lengths are vectors with one value per row, lengths of integers");
  if (flag.shape != length.shape)
    throw std::invalid_argument("rlcore: truncated is " + to_string<1>(flag.shape) + ", lengths are " +
                                to_string<1>(length.shape));
  std::int64_t masked = 0;
  for (extent_t i = 0; i < flag.shape[0]; ++i)
    if (flag(i)) length(i) = element(0), ++masked;
  return masked;
}

RLCORE_ALGORITHM_END
RLCORE_END
