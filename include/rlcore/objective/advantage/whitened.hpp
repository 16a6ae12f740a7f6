// An estimator with values, normalised over the tokens of the batch.
#pragma once

#include "rlcore/objective/advantage/advantage_input.hpp"
#include "rlcore/objective/advantage/whitening.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// whitened{gae{}}: the advantages of the estimator, whitened over the live tokens; its returns as they are (verl's and
/// OpenRLHF's PPO). Shapes and masked slots: see gae and whitening.
template <class Estimator>
struct whitened {
  static constexpr advantage_input reads = Estimator::reads;
  Estimator estimator;
  whitening whiten{};

  constexpr void check_settings() const { estimator.check_settings(); }

  /// Writes the whitened advantages and the estimator's returns.
  template <class Rewards, class Values, class Advantages, class Returns>
  void operator()(const Rewards& rewards, const Values& values, const token_mask& mask, Advantages&& advantages,
                  Returns&& returns) const {
    estimator(rewards, values, mask, advantages, returns);
    whiten(advantages, mask, advantages);
  }
};
template <class Estimator>
whitened(Estimator) -> whitened<Estimator>;

RLCORE_ALGORITHM_END
RLCORE_END
