// A preference loss that also keeps the chosen answers likely.
#pragma once

#include "rlcore/objective/aggregation/chosen_token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/combine/scaled.hpp"
#include "rlcore/objective/piece/supervised/negative_log_likelihood.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A pair loss plus `coefficient` times the NLL of the chosen answers: the mean over their tokens (chosen_token_mean:
/// RPO, CPO, ORPO, the SFT term of TRL's loss lists) or over answers of token means (chosen_sequence_mean: OpenRLHF).
template <class Pair, class Chosen = chosen_token_mean>
struct likelihood_regularised {
  Pair pair;
  double coefficient;
};

/// Adds the likelihood of the chosen answers to a loss of pairs.
template <class Chosen = chosen_token_mean, class Advantage, class Objective, class Aggregation>
constexpr auto with_likelihood(const algorithm<Advantage, Objective, Aggregation>& pair, double coefficient) {
  static_assert(
      detail::per_pair<Aggregation>,
      "rlcore: with_likelihood adds the likelihood of the chosen answers to a loss of pairs, and this algorithm "
      "is none; the likelihood of all answers is negative_log_likelihood, a piece like any other");
  return likelihood_regularised<algorithm<Advantage, Objective, Aggregation>, Chosen>{pair, coefficient};
}

/// Both terms of one batch; join with +=.
template <class PairReport, class LikelihoodReport>
struct likelihood_regularised_report {
  PairReport pair;
  LikelihoodReport likelihood;
  double loss() const noexcept { return pair.loss() + likelihood.loss(); }
  /// Joins the terms of another part of the step.
  likelihood_regularised_report& operator+=(const likelihood_regularised_report& o) noexcept {
    pair += o.pair, likelihood += o.likelihood;
    return *this;
  }
  /// As report::keep_names().
  void keep_names(const likelihood_regularised_report& local) noexcept {
    pair.keep_names(local.pair), likelihood.keep_names(local.likelihood);
  }
};

/// Pairs are rows 2k (chosen) and 2k + 1. `chosen` counts the chosen rows of the optimizer step, `step` all rows. The
/// two terms have different denominators, hence two passes; the gradient is their sum.
template <executor Executor, class Pair, class Chosen, class T, class Counts>
auto evaluate(const Executor& exec, const likelihood_regularised<Pair, Chosen>& named, const token_batch<T>& batch,
              const Counts& step, const global_counts& chosen,
              const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  auto added = gradients;
  added.add = true;
  auto pair = evaluate(exec, named.pair, batch, step, gradients);
  auto likelihood =
      evaluate(exec, scaled{named.coefficient, negative_log_likelihood{}}, Chosen{chosen}, batch, step, added);
  return likelihood_regularised_report<decltype(pair), decltype(likelihood)>{pair, likelihood};
}

RLCORE_ALGORITHM_END
RLCORE_END
