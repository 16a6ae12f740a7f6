// The forms that an estimator of advantages may have.
#pragma once

#include <cstdint>
#include <vector>

#include "rlcore/objective/advantage/advantage_input.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/tensor/span.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// One advantage per token, of token rewards: (rewards [rows, tokens], mask, advantages), or with returns. The braces
/// fit a token_mask alone, neither the size of a group nor a parameter whose type is deduced.
template <class Estimator>
concept token_estimator = requires(const Estimator e, matrix_view<float>& m, const token_mask& mask) {
  e(m, {mask}, m);
}
|| requires(const Estimator e, matrix_view<float>& m, const token_mask& mask) { e(m, {mask}, m, m); };

/// One advantage per response: (rewards, group size, advantages), or with the length of each response.
template <class Estimator>
concept response_estimator = !token_estimator<Estimator> && !requires {
  Estimator::reads;
}
&&requires(const Estimator e, std::vector<float>& x, const std::vector<std::int64_t>& n) {
  requires requires { e(x, std::int64_t{}, x); } || requires {
    e(x, std::int64_t{}, n, x);
  };
};

RLCORE_ALGORITHM_END
RLCORE_END
