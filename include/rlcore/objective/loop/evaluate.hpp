// The token loop: loss, gradient and metrics of an objective over a batch, in one pass.
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/as_written.hpp"
#include "rlcore/core/order.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/detail/rows.hpp"
#include "rlcore/objective/piece/fields_used.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

template <class Objective, std::size_t... Index>
constexpr std::size_t monitors_in_all(std::index_sequence<Index...>) noexcept {
  return (monitor_count<piece_type<Index, Objective>> + ... + 0);
}

template <class P>
constexpr bool zero_mean_gradient() noexcept {
  if constexpr (requires { P::zero_mean_gradient; })
    return P::zero_mean_gradient;
  else
    return false;
}

template <class A>
inline constexpr bool weighs_terms =
    requires { requires A::per_sequence; } || requires { requires A::per_pair; } || requires { requires A::per_batch; };
template <class A>
inline constexpr bool averages_tokens = requires { requires A::averages_tokens; };

template <class Objective, class Aggregation, std::size_t... Index>
consteval bool check_objective(std::index_sequence<Index...>) {
  if constexpr ((check_piece<piece_type<Index, Objective>>() && ...)) {
    static_assert(unique_gather<gathers_of<piece_type<Index, Objective>>...>::agree,
                  "rlcore: two pieces of this objective gather different things over a row, and field::gathered is one "
                  "number; evaluate them by two calls, the second with token_gradients::add");
    static_assert(((!contains(piece_type<Index, Objective>::reads, field::gathered) ||
                    !std::is_same_v<gathers_of<piece_type<Index, Objective>>, no_gather>) &&
                   ...),
                  "rlcore: a piece that reads field::gathered has to say what is gathered, e.g. "
                  "using gathers = mean_of<log_ratio_to_old>;");
    static_assert(
        !weighs_terms<Aggregation>,
        "rlcore: sequence_mean, pair_mean and batch_total weigh one term per sequence, pair or batch, but this "
        "objective has one per token; aggregate it with token_mean{}, sequence_mean_token_mean{}, "
        "sequence_mean_token_sum{} or fixed_length{}");
    static_assert((!is_per_sequence<piece_type<Index, Objective>> && ...) || averages_tokens<Aggregation>,
                  "rlcore: a piece of this objective has one value per sequence, repeated at each of its tokens, so "
                  "any other weight than sequence_mean_token_mean would count long sequences more than once; "
                  "aggregate it with sequence_mean_token_mean{}, or use its token form (sequence_is)");
    static_assert(
        (!zero_mean_gradient<piece_type<Index, Objective>>() && ...),
        "rlcore: k1 as a loss has a gradient that is zero in expectation; use k2 or k3, put k1 into the reward "
        "(kl_in_reward), or write accept_zero_gradient{k1{}} if you mean it");
    return true;
  } else {
    return false;
  }
}

}  // namespace detail

/// The report that evaluating an objective of token pieces or logits pieces returns.
template <class Objective>
using report_of = report<piece_count<Objective>,
                         detail::monitors_in_all<Objective>(std::make_index_sequence<piece_count<Objective>>{})>;

/// A report without rows, with the names and coefficients of the objective's pieces.
template <class Objective>
report_of<Objective> empty_report(const Objective& objective) noexcept {
  report_of<Objective> r;
  [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    std::size_t m = 0;
    const auto name = [&]<class Piece>(std::type_identity<Piece>, std::size_t i, double coefficient) {
      r.piece[i].name = Piece::name;
      r.piece[i].coefficient = coefficient;
      for (const std::string_view monitor : monitors_of<Piece>())
        r.monitor[m].piece = Piece::name, r.monitor[m++].name = monitor;
    };
    (name(std::type_identity<piece_type<Index, Objective>>{}, Index, coefficient_at<Index>(objective)), ...);
  }(std::make_index_sequence<piece_count<Objective>>{});
  return r;
}

namespace token_loop {

/// Throws std::invalid_argument if a gradient would be written over another one, or over an input that is read.
template <class T>
void check_outputs_differ(const prepared_batch<T>& p) {
  for (std::size_t f = 0; f < field_count; ++f) {
    if (p.output[f].data == nullptr) continue;
    for (std::size_t g = 0; g < f; ++g)
      if (detail::share_elements(p.output[f], p.output[g], p.shape))
        throw std::invalid_argument("rlcore: token_gradients::" + std::string(field_names[g]) + " and " +
                                    std::string(field_names[f]) + " are one array; each needs its own");
    for (std::size_t g = 0; g < field_count; ++g)
      if (detail::share_elements(p.output[f], p.input[g], p.shape))
        throw std::invalid_argument("rlcore: token_gradients::" + std::string(field_names[f]) +
                                    " lies over token_batch::" + std::string(field_names[g]) +
                                    ", which is still read; it needs an array of its own");
  }
}

/// Checks everything that the loop will rely on.
template <class T>
prepared_batch<T> prepare(const token_batch<T>& b, const token_gradients<T>& g, field reads, field writes) {
  require_arithmetic_as_written();
  const detail::input_fields<T> inputs = detail::inputs_of(b);
  const token_field<T>* const outputs[field_count] = {&g.logp,    nullptr,  nullptr, nullptr, nullptr, nullptr,
                                                      &g.entropy, &g.value, nullptr, nullptr, nullptr, nullptr};
  prepared_batch<T> p;
  for (std::size_t f = 0; f < field_count; ++f)
    if (contains(reads, field_at(f)) && inputs[f] && !inputs[f]->present())
      throw std::invalid_argument("rlcore: the objective reads " + std::string(field_names[f]) +
                                  ", but the batch has none; set token_batch::" + std::string(field_names[f]));
  p.shape = detail::shape_of(b, inputs, reads);
  for (std::size_t f = 0; f < field_count; ++f)
    if (contains(reads, field_at(f)) && inputs[f])
      p.input[f] = detail::resolve(field_names[f], *inputs[f], p.shape, false);
  detail::check_mask(b.mask, p.shape);
  p.mask = b.mask, p.lengths = b.lengths, p.offsets = b.offsets;
  p.adds = g.add;
  p.wants_gradients = g.logp.present() || g.entropy.present() || g.value.present();
  for (std::size_t f = 0; f < field_count; ++f) {
    const token_field<T>* out = outputs[f];
    const bool produced = contains(writes, field_at(f));
    if (out && out->present())
      p.output[f] = detail::resolve(field_names[f], *out, p.shape, true);
    else if (produced && p.wants_gradients)
      throw std::invalid_argument(
          "rlcore: the objective has a gradient by " + std::string(field_names[f]) +
          ", but there is nowhere to write it; set token_gradients::" + std::string(field_names[f]));
  }
  check_outputs_differ(p);
  return p;
}

/// Throws std::invalid_argument if an executor has left calls out or repeated some.
inline void check_calls(extent_t done, extent_t expected) {
  if (done != expected)
    throw std::invalid_argument("rlcore: the executor made " + std::to_string(done) + " calls of " +
                                std::to_string(expected) + "; for_each(count, f) calls f(i) once for every i");
}

/// f(begin, end, part) over chunks of `items`, each with a report of its own; the parts are joined in `total`.
template <class Executor, class T, class Report, class F>
void for_each_chunk(const Executor& exec, const prepared_batch<T>& batch, extent_t items, Report& total, const F& f) {
  // Chunks of about 16k tokens, at most 128 of them: enough to share out, few enough to merge.
  const extent_t tokens = batch.shape.packed ? batch.shape.width : batch.shape.rows * batch.shape.width;
  const extent_t most = exec.concurrency() == 1 ? 1 : detail::least<extent_t>(items, 128);
  const extent_t chunks = items == 0 ? 0 : detail::between<extent_t>(tokens / 16384, 1, most);
  std::atomic_flag merging;  // sums are exact, so the order in which chunks arrive does not matter
  extent_t done = 0;
  exec.for_each(static_cast<std::size_t>(chunks), [&](std::size_t chunk) {
    const extent_t c = static_cast<extent_t>(chunk);
    Report part;
    f(items * c / chunks, items * (c + 1) / chunks, part);
    while (merging.test_and_set(std::memory_order_acquire)) merging.wait(true, std::memory_order_relaxed);
    total += part, ++done;
    merging.clear(std::memory_order_release);
    merging.notify_one();
  });
  check_calls(done, chunks);
}

/// A part cannot be larger than the whole: catches counts of one micro-batch passed as those of the step.
inline void check_counts(std::int64_t tokens, std::int64_t sequences, std::int64_t rows, const global_counts& step) {
  if (tokens <= step.tokens() && sequences <= step.sequences() && rows <= step.rows()) return;
  const auto text = [](std::int64_t t, std::int64_t s, std::int64_t r) {
    return std::to_string(t) + " tokens in " + std::to_string(s) + " sequences of " + std::to_string(r) + " rows";
  };
  throw std::invalid_argument("rlcore: the counts of the step say " +
                              text(step.tokens(), step.sequences(), step.rows()) + ", but this batch alone has " +
                              text(tokens, sequences, rows) +
                              "; count every row of the optimizer step before the first evaluate");
}

}  // namespace token_loop

/// Loss of `objective` over the batch: sum over rows of the aggregation's weight times the sum over live tokens of the
/// pieces' values. Writes dL / d field to `gradients` and returns the sums it is made of.
///
/// `step` counts the whole optimizer step (every micro-batch, every rank), so the reports and gradients of its parts
/// simply add up. Guaranteed to the bit: the same result for any split into micro-batches, any executor and number of
/// threads, any strides, and any content of masked slots (NaN included). Throws std::invalid_argument if shapes do not
/// fit, a field that the objective reads is missing or not in its `reads`, or the batch holds more tokens than `step`.
/// Allocates nothing.
template <executor Executor, class Objective, class Aggregation, class T, class Counts>
report_of<Objective> evaluate(const Executor& exec, const Objective& objective, const Aggregation& aggregation,
                              const token_batch<T>& batch, const Counts& step,
                              const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  static_assert(
      std::is_same_v<Counts, global_counts>,
      "rlcore: evaluate takes the global_counts of the whole optimizer step, not a number and not the counts of one "
      "batch; add every row of the step with global_counts::add_row, or pass loss_counts(batch) if this is all");
  static_assert(rlcore::aggregation<Aggregation>,
                "rlcore: an aggregation has double weight(row_info row, const global_counts& step) const noexcept");
  if constexpr (detail::check_objective<Objective, Aggregation>(std::make_index_sequence<piece_count<Objective>>{}) &&
                std::is_same_v<Counts, global_counts> && rlcore::aggregation<Aggregation>) {
    using evaluator = token_loop::row_evaluator<Objective, T>;
    using report_type = report_of<Objective>;
    using shape = detail::structure<Objective>;
    detail::check_reads_of_all(objective, std::make_index_sequence<piece_count<Objective>>{});
    const auto prepared = token_loop::prepare(batch, gradients, evaluator::reads, shape::outputs);
    for (std::size_t f = 0; f < field_count; ++f)
      if (contains(shape::row_fields, field_at(f)) && prepared.input[f].per_token)
        throw std::invalid_argument("rlcore: this objective has one term per sequence and needs one " +
                                    std::string(field_names[f]) +
                                    " per row; pass a vector, in packed batches per_row(x)");
    report_type total = empty_report(objective);
    total.empty_step = step.tokens() == 0;

    token_loop::for_each_chunk(exec, prepared, prepared.shape.rows, total,
                               [&](extent_t begin, extent_t end, report_type& part) {
                                 evaluator one_row(objective, prepared);
                                 for (extent_t i = begin; i < end; ++i) one_row(i, aggregation, step, part);
                                 part.units = part.tokens;
                               });
    token_loop::check_counts(total.tokens, total.sequences, total.rows, step);
    return total;
  } else {
    return {};
  }
}

namespace detail {

/// The counts of the rows 0, every, 2 every, ... of a batch.
template <class T>
global_counts counts_of_rows(const token_batch<T>& batch, extent_t every) {
  constexpr field every_field = static_cast<field>((1u << field_count) - 1);
  token_loop::prepared_batch<T> rows;
  rows.shape = shape_of(batch, inputs_of(batch), every_field);
  check_mask(batch.mask, rows.shape);
  rows.lengths = batch.lengths, rows.offsets = batch.offsets;
  global_counts counts;
  for (extent_t i = 0; i < rows.shape.rows; i += every) {
    const extent_t length = rows.length(i);
    counts.add_row(batch.mask.present()
                       ? token_loop::count_live(batch.mask, token_loop::mask_row(batch.mask, i, rows.offset(i)),
                                                static_cast<std::size_t>(length))
                       : static_cast<std::int64_t>(length));
  }
  return counts;
}

}  // namespace detail

/// The counts of `batch`, to be used where one call on one rank is the whole optimizer step; otherwise the counts of
/// all its micro-batches and ranks have to be joined with += first. Throws as evaluate does.
template <class T>
global_counts loss_counts(const token_batch<T>& batch) {
  return detail::counts_of_rows(batch, 1);
}

/// The counts of the chosen rows of `batch`, whose pairs are rows 2k (chosen) and 2k + 1. Throws as evaluate does.
template <class T>
global_counts chosen_counts(const token_batch<T>& batch) {
  return detail::counts_of_rows(batch, 2);
}

RLCORE_ALGORITHM_END
RLCORE_END
