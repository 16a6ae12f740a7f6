// Returns, normalised over all tokens of the batch.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/advantage/discounted_return.hpp"
#include "rlcore/objective/advantage/whitening.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// G_t = r_t + gamma G_{t+1}, then A = whitened G (REINFORCE++, Hu 2025). The normalisation is over the tokens of the
/// batch, never over a group. Defaults are verl's; OpenRLHF's reinforce has .turns = turn_policy::discount and
/// .whiten = {.guard = variance_guard::floor, .sample_variance = false}.
///
/// Shapes and masked slots: see discounted_return and whitening. Rows that nobody scored have to be masked before
/// (filter/mask_unscored.hpp): their tokens would move the mean of all others. `returns`, if given, are those before
/// whitening.
struct reinforce_plus_plus {
  double gamma = 1.0;
  turn_policy turns = turn_policy::skip;
  whitening whiten{};

  constexpr void check_settings() const { check_setting("reinforce_plus_plus", "gamma", gamma, setting::fraction); }

  /// Writes the returns and the whitened advantages; `exec` shares out the rows.
  template <executor Executor, class Rewards, class Advantages, class Returns>
  RLCORE_FN void operator()(const Executor& exec, const Rewards& rewards, const token_mask& mask,
                            Advantages&& advantages, Returns&& returns) const {
    discounted_return{gamma, turns}(exec, rewards, mask, returns);
    whiten(exec, returns, mask, advantages);
  }
  /// The same on the calling thread.
  template <class Rewards, class Advantages, class Returns>
  requires(!executor<Rewards>) RLCORE_FN void operator()(const Rewards& rewards, const token_mask& mask,
                                                         Advantages&& advantages, Returns&& returns) const {
    (*this)(serial{}, rewards, mask, advantages, returns);
  }
  /// Without returns.
  template <class Rewards, class Advantages>
  RLCORE_FN void operator()(const Rewards& rewards, const token_mask& mask, Advantages&& advantages) const {
    (*this)(serial{}, rewards, mask, advantages, advantages);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
