// The likeliest entries of every position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/exec/executor.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// ids(i, 0 ... k - 1) are the entries of row i of `logits` [positions, V] with the k largest logits, the largest
/// first, of equal ones the lower entry first; NaN comes last. ids is [positions, k] of any integers. Throws
/// std::invalid_argument if shapes do not fit. Allocates nothing.
template <executor Executor, class Logits, class Ids>
void top_k(const Executor& exec, const Logits& logits, Ids&& ids) {
  const auto z = as_view<2>(logits);
  const auto out = as_view<2>(ids);
  using id = typename std::remove_cvref_t<decltype(out)>::value_type;
  if (z.shape[0] != out.shape[0] || out.shape[1] > z.shape[1])
    throw std::invalid_argument("rlcore: top_k: logits are " + to_string<2>(z.shape) + ", ids are " +
                                to_string<2>(out.shape));
  exec.for_each(static_cast<std::size_t>(z.shape[0]), [&](std::size_t row) {
    const extent_t i = static_cast<extent_t>(row), k = out.shape[1];
    extent_t found = 0;
    const auto before = [&](extent_t a, extent_t b) {  // a belongs before b, where a is the later entry
      const auto x = z(i, a), y = z(i, b);
      return x > y || (y != y && x == x);
    };
    for (extent_t j = 0; j < z.shape[1]; ++j) {
      if (found == k && (k == 0 || !before(j, static_cast<extent_t>(out(i, k - 1))))) continue;
      extent_t at = found < k ? found++ : k - 1;
      for (; at > 0 && before(j, static_cast<extent_t>(out(i, at - 1))); --at) out(i, at) = out(i, at - 1);
      out(i, at) = static_cast<id>(j);
    }
  });
}

RLCORE_ALGORITHM_END
RLCORE_END
