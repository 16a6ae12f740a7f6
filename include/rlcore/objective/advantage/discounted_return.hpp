// The reward to go.
#pragma once

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/advantage/detail/backward.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// G_t = r_t + gamma G_{t+1} (Williams 1992). `turns` says how masked slots inside a row are passed: skip is verl's
/// since 0.7, reset verl's before, discount OpenRLHF's.
///
/// rewards and returns are [rows, tokens], of float or double and any strides; the sum is in double. Masked slots are
/// not read and get 0. Throws std::invalid_argument for other shapes.
struct discounted_return {
  double gamma = 1.0;
  turn_policy turns = turn_policy::skip;

  /// Writes G to `returns`; `exec` shares out the rows.
  template <executor Executor, class Rewards, class Returns>
  RLCORE_FN void operator()(const Executor& exec, const Rewards& rewards, const token_mask& mask,
                            Returns&& returns) const {
    backward_recursion::all_rows(exec, {gamma, gamma, gamma, turns}, as_view<2>(rewards), detail::no_matrix{}, mask,
                                 as_view<2>(returns), detail::no_matrix{});
  }
  /// The same on the calling thread.
  template <class Rewards, class Returns>
  RLCORE_FN void operator()(const Rewards& rewards, const token_mask& mask, Returns&& returns) const {
    (*this)(serial{}, rewards, mask, returns);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
