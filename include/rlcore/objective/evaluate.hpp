// All forms of evaluate: loss, gradient and report of an objective over a batch.
//
//   evaluate(grpo, batch, {.logp = dlogp})               a named algorithm; this call is the whole optimizer step
//   evaluate(objective, aggregation, batch, {...})       own parts: sum{ppo_clip{}, scaled{0.04, k3{}}}, token_mean{}
//   evaluate(where, grpo, batch, {...})                  where: threads{4}, serial{}, or the device with the arrays
//   evaluate(where, grpo, batch, counts, {...})          a part of a step: counts of all micro-batches and ranks
//   evaluate(where, grpo, aggregation, batch, counts, {...})
//   evaluate(where, objective, aggregation, batch, counts, {...})
//   evaluate(where, rpo, batch, counts, chosen_counts, {...})      pairs, plus the likelihood of the chosen answers
//   evaluate_logits(where, kd, batch, counts, {...})     losses of whole logit vectors, by logits_batch
//
// The last argument holds the arrays for the gradients and may be left out. An objective of sequences or pairs is
// sequence_objective{gather, link}; its forms are the same. device/losses.hpp has the forms for a device.
#pragma once

#include <type_traits>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_logits.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// Loss, gradient and report of a named algorithm: evaluate with its objective and its aggregation.
template <executor Executor, class Advantage, class Objective, class Aggregation, class T, class Counts>
  requires stands_for_counts<Counts>
auto evaluate(const Executor& exec, const algorithm<Advantage, Objective, Aggregation>& named,
              const token_batch<T>& batch, const Counts& step,
              const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  return evaluate(exec, named.objective, named.aggregation, batch, step, gradients);
}

/// The same with another aggregation.
template <executor Executor, class Advantage, class Objective, class Replaced, class Aggregation, class T, class Counts>
auto evaluate(const Executor& exec, const algorithm<Advantage, Objective, Replaced>& named,
              const Aggregation& aggregation, const token_batch<T>& batch, const Counts& step,
              const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  return evaluate(exec, named.objective, aggregation, batch, step, gradients);
}

/// A loss of pairs with the likelihood of the chosen answers. Pairs are rows 2k (chosen) and 2k + 1. `chosen` counts
/// the chosen rows of the optimizer step, `step` all rows. The two terms have different denominators, hence two passes;
/// the gradient is their sum.
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

/// A named algorithm where this call on this rank is the whole optimizer step: the counts are those of the batch.
template <executor Executor, class Advantage, class Objective, class Aggregation, class T>
auto evaluate(const Executor& exec, const algorithm<Advantage, Objective, Aggregation>& named,
              const token_batch<T>& batch, const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  return evaluate(exec, named, batch, loss_counts(batch), gradients);
}
/// A loss of pairs with the likelihood of the chosen answers, where this call is the whole optimizer step.
template <executor Executor, class Pair, class Chosen, class T>
auto evaluate(const Executor& exec, const likelihood_regularised<Pair, Chosen>& named, const token_batch<T>& batch,
              const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  return evaluate(exec, named, batch, loss_counts(batch), chosen_counts(batch), gradients);
}
/// The same on one thread.
template <class Advantage, class Objective, class Aggregation, class T>
auto evaluate(const algorithm<Advantage, Objective, Aggregation>& named, const token_batch<T>& batch,
              const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  return evaluate(serial{}, named, batch, gradients);
}
/// The same on one thread.
template <class Pair, class Chosen, class T>
auto evaluate(const likelihood_regularised<Pair, Chosen>& named, const token_batch<T>& batch,
              const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  return evaluate(serial{}, named, batch, gradients);
}
/// An objective and an aggregation on one thread, where this call is the whole optimizer step.
template <class Objective, aggregation Aggregation, class T>
auto evaluate(const Objective& objective, const Aggregation& aggregation, const token_batch<T>& batch,
              const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  return evaluate(serial{}, objective, aggregation, batch, loss_counts(batch), gradients);
}

namespace detail {
/// An array in the place of token_gradients.
template <class Array, class T>
concept gradient_without_name = stands_for_counts<Array> && !std::is_base_of_v<global_counts, Array> &&
                                !std::is_convertible_v<const Array&, token_gradients<T>>;
}  // namespace detail

/// Explains a call whose last argument is an array: token_gradients has one for each field.
template <class Advantage, class Objective, class Aggregation, class T, detail::gradient_without_name<T> Array>
auto evaluate(const algorithm<Advantage, Objective, Aggregation>& named, const token_batch<T>& batch, const Array&) {
  static_assert(dependent_false<Array>,
                "rlcore: name the array that receives the gradient: evaluate(grpo, batch, {.logp = dlogp})");
  return evaluate(named, batch);
}
/// Explains the same call of an objective and an aggregation.
template <class Objective, aggregation Aggregation, class T, detail::gradient_without_name<T> Array>
auto evaluate(const Objective& objective, const Aggregation& aggregation, const token_batch<T>& batch, const Array&) {
  static_assert(
      dependent_false<Array>,
      "rlcore: name the array that receives the gradient: evaluate(objective, aggregation, batch, {.logp = dlogp})");
  return evaluate(objective, aggregation, batch);
}

/// evaluate_logits with the objective and the aggregation of a named algorithm.
template <executor Executor, class Advantage, class Objective, class Aggregation, class T, class Counts>
auto evaluate_logits(const Executor& exec, const algorithm<Advantage, Objective, Aggregation>& named,
                     const logits_batch<T>& batch, const Counts& step,
                     const std::type_identity_t<logits_gradients<T>>& gradients = {}) {
  return evaluate_logits(exec, named.objective, named.aggregation, batch, step, gradients);
}
/// The same on one thread, where this call is the whole optimizer step.
template <class Advantage, class Objective, class Aggregation, class T>
auto evaluate_logits(const algorithm<Advantage, Objective, Aggregation>& named, const logits_batch<T>& batch,
                     const std::type_identity_t<logits_gradients<T>>& gradients = {}) {
  return evaluate_logits(serial{}, named, batch, loss_counts(batch), gradients);
}

RLCORE_ALGORITHM_END
RLCORE_END
