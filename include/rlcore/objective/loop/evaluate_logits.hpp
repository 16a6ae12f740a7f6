// The logits loop: loss, gradient and metrics of an objective on vectors of logits, in one pass over the positions.
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "rlcore/core/order.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/detail/logits.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/report.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace logits_loop {

template <class Objective>
inline constexpr auto indices = std::make_index_sequence<piece_count<Objective>>{};

/// How many monitors the pieces have together.
/// The inputs that the pieces read together.
template <class Objective, std::size_t... Index>
constexpr logits_field reads_of(std::index_sequence<Index...>) noexcept {
  return (logits_field::none | ... | piece_type<Index, Objective>::reads);
}
/// What the pieces expect of the inputs, beyond their presence.
template <class Objective, std::size_t... Index>
logits_shape shape_wanted(const Objective& objective, std::index_sequence<Index...>) noexcept {
  logits_shape s{reads_of<Objective>(std::index_sequence<Index...>{})};
  const auto one = [&]<class P>(const P& piece) {
    const auto& inner = innermost(piece);
    if constexpr (requires { inner.label_count(); }) s.labels = detail::least(s.labels, inner.label_count());
    if constexpr (requires { inner.target_count(); }) s.targets = inner.target_count();
    s.shares |= contains(P::reads, logits_field::teacher) && !keeps_vocabularies<P>;
  };
  (one(piece_at<Index>(objective)), ...);
  return s;
}
/// Checks every piece at compile time, with a static_assert message per mistake.
template <class Objective, std::size_t... Index>
consteval bool check(std::index_sequence<Index...>) {
  return (check_logits_piece<piece_type<Index, Objective>>() && ...);
}
/// Bytes of scratch memory that one position needs: the maximum over the pieces.
template <class Objective, std::size_t... Index>
std::size_t scratch(const Objective& objective, extent_t vocabulary, extent_t teacher_vocabulary,
                    std::index_sequence<Index...>) noexcept {
  std::size_t most = 0;
  ((most = detail::greatest(most, scratch_bytes_of(piece_at<Index>(objective), vocabulary, teacher_vocabulary))), ...);
  return most;
}

/// Evaluates entries in order and adds them to a report.
template <class Objective, class T>
class entry_evaluator {
 public:
  using report_type = report_of<Objective>;

  /// Positions of `p` into the gradient `g`; `scratch` belongs to this evaluator alone.
  entry_evaluator(const Objective& objective, const prepared_logits<T>& p, const logits_gradients<T>& g,
                  std::span<std::byte> scratch) noexcept
      : objective_(objective), p_(p), g_(g), scratch_(scratch) {}

  /// The i-th entry of the batch with the weight of its row; adds its values and monitors to `out`.
  void operator()(extent_t i, double weight, report_type& out) noexcept {
    constexpr logits_field reads = reads_of<Objective>(indices<Objective>);
    logits_position<T> x;
    const logits_batch<T>& b = *p_.batch;
    const extent_t at = p_.position(i);
    x.logits = {b.logits.row(at), b.logits.shape[1], b.logits.stride[1]};
    if (contains(reads, logits_field::teacher))
      x.teacher = {b.teacher.row(at), b.teacher.shape[1], b.teacher.stride[1]};
    if (contains(reads, logits_field::label)) x.label = b.labels[i];
    if (contains(reads, logits_field::support)) x.support = p_.support(i);
    if (contains(reads, logits_field::support_logp)) x.support_logp = p_.support_logp(i);
    if (contains(reads, logits_field::target)) x.target = {b.targets.row(i), b.targets.shape[1], b.targets.stride[1]};
    if (contains(reads, logits_field::weight)) x.weight = *b.weight.row(i);
    x.scratch = scratch_;
    logits_gradient<T> g;
    if (g_.logits.present()) g = {g_.logits.row(at), b.logits.shape[1], g_.logits.stride[1]};
    g.add = g_.add;
    every_piece(x, g, weight, out, indices<Objective>);
  }

 private:
  template <std::size_t... Index>
  void every_piece(const logits_position<T>& x, logits_gradient<T>& g, double weight, report_type& out,
                   std::index_sequence<Index...>) noexcept {
    std::size_t m = 0;
    (one<Index>(x, g, weight, out, m), ...);
  }

  /// Inputs that a piece does not list in `reads` hold an entry that does not exist, and NaN.
  template <class P>
  RLCORE_FN static void hide_unlisted(logits_position<T>& x) noexcept {
    static constexpr std::int64_t nowhere = -1;
    static constexpr T no_number = std::numeric_limits<T>::quiet_NaN();
    if constexpr (!contains(P::reads, logits_field::label)) x.label = nowhere;
    if constexpr (!contains(P::reads, logits_field::teacher)) x.teacher = {};
    if constexpr (!contains(P::reads, logits_field::support)) x.support = {&nowhere, 1, 1, true};
    if constexpr (!contains(P::reads, logits_field::support_logp)) x.support_logp = {&no_number, 1, 0};
    if constexpr (!contains(P::reads, logits_field::target)) x.target = {&no_number, 1, 0};
    if constexpr (!contains(P::reads, logits_field::weight)) x.weight = no_number;
  }

  template <std::size_t Index>
  void one(logits_position<T> x, logits_gradient<T>& g, double weight, report_type& out, std::size_t& m) noexcept {
    using piece = piece_type<Index, Objective>;
    if constexpr (contains(piece::reads, logits_field::teacher) && !keeps_vocabularies<piece>)
      x.logits.size = x.teacher.size = p_.shared;
    hide_unlisted<piece>(x);
    logits_gradient<T> of_piece = g;
    of_piece.scale = static_cast<T>(weight * coefficient_at<Index>(objective_));
    of_piece.size = x.logits.size;
    const auto t = run_piece(piece_at<Index>(objective_), x, of_piece);
    if (g.wanted() && !g.add)  // entries that the teacher does not have
      for (extent_t j = of_piece.size; j < g.size; ++j) g.data[j * g.stride] = T(0);
    out.piece[Index].aggregated.add(weight * t.value);
    out.piece[Index].total.add(t.value);
    if constexpr (monitor_count < piece >> 0)
      for (std::size_t k = 0; k < monitor_count<piece>; ++k) out.monitor[m++].total.add(t.monitor[k]);
    g.add = true;
  }

  const Objective& objective_;
  const prepared_logits<T>& p_;
  const logits_gradients<T>& g_;
  std::span<std::byte> scratch_;
};

/// Zeros the gradient of position `at`.
template <class T>
void zero_row(const position_matrix<T>& g, extent_t at) noexcept {
  T* to = g.row(at);
  for (extent_t j = 0; j < g.shape[1]; ++j) to[j * g.stride[1]] = T(0);
}

/// Zeros the gradient of the positions in [begin, end) of the matrix.
template <class T>
void zero_rows(const position_matrix<T>& g, extent_t begin, extent_t end) noexcept {
  for (extent_t at = begin; at < end; ++at) zero_row(g, at);
}

/// Throws std::invalid_argument where a setting or an input of a piece does not fit the vocabularies.
template <class Objective, std::size_t... Index>
void check_settings(const Objective& objective, extent_t vocabulary, extent_t teacher_vocabulary,
                    std::index_sequence<Index...>) {
  const auto one = [&](const auto& piece) {
    check_entry_reads(innermost(piece));
    if constexpr (requires { piece.check(vocabulary); }) piece.check(vocabulary);
    const auto& inner = innermost(piece);
    if constexpr (requires { inner.check_teacher(teacher_vocabulary); }) inner.check_teacher(teacher_vocabulary);
  };
  (one(piece_at<Index>(objective)), ...);
}

/// Throws std::invalid_argument where the gradient has another shape than the logits or the scratch memory of the batch
/// is smaller than `scratch` bytes.
template <class T>
void check_outputs(const logits_batch<T>& batch, const logits_gradients<T>& gradients, std::size_t scratch) {
  if (gradients.logits.present() && (gradients.logits.vector || gradients.logits.shape != batch.logits.shape))
    throw std::invalid_argument("rlcore: the gradient by logits is " + to_string<2>(gradients.logits.shape) +
                                ", the logits are " + to_string<2>(batch.logits.shape));
  if (batch.scratch.size() < scratch)
    throw std::invalid_argument("rlcore: logits_batch::scratch has " + std::to_string(batch.scratch.size()) +
                                " bytes, this objective wants " + std::to_string(scratch) + "; see scratch_bytes()");
}

/// Chunks of about 64k logits, at most 128 of them; of one per thread where each needs its own scratch memory.
inline extent_t chunk_count(extent_t entries, extent_t vocabulary, std::size_t threads, bool needs_scratch) noexcept {
  const extent_t most = threads == 1 ? 1 : needs_scratch ? static_cast<extent_t>(threads) : 128;
  return entries == 0
             ? 0
             : detail::between<extent_t>(entries * vocabulary / 65536, 1, detail::least<extent_t>(most, entries));
}

/// The report of entries [begin, end) of `p`, and their gradient. Zeros the gradient of the positions in front of them
/// that have no entry, and behind them if they are the last ones.
template <class Objective, class T, class Aggregation>
auto evaluate_chunk(entry_evaluator<Objective, T>& evaluate_entry, const prepared_logits<T>& p,
                    const logits_gradients<T>& gradients, const Aggregation& aggregation, const global_counts& step,
                    extent_t begin, extent_t end) {
  typename entry_evaluator<Objective, T>::report_type part;
  const bool zeros = gradients.logits.present() && !gradients.add;
  extent_t row = 0;
  while (row + 1 < p.rows && p.row_end(row) <= begin) ++row;
  double weight = 0;
  bool weighed = false;
  extent_t written = begin == 0 ? 0 : p.position(begin - 1) + 1;  // earlier positions belong to other chunks
  for (extent_t i = begin; i < end; ++i) {
    while (row + 1 < p.rows && p.row_end(row) <= i) ++row, weighed = false;
    const extent_t at = p.position(i);
    if (zeros) zero_rows(gradients.logits, written, at);
    written = at + 1;
    if (!p.live(i)) {
      if (zeros) zero_row(gradients.logits, at);
      continue;
    }
    if (!weighed) weight = aggregation.weight(row_info{p.live_in_row(row)}, step), weighed = true;
    part.tokens += 1;
    evaluate_entry(i, weight, part);
  }
  if (zeros && end == p.entries) zero_rows(gradients.logits, written, gradients.logits.shape[0]);
  return part;
}

}  // namespace logits_loop

/// Bytes of logits_batch::scratch that evaluate_logits needs with this executor; 0 unless a piece sorts.
template <executor Executor, class Objective, class T>
std::size_t scratch_bytes(const Executor& exec, const Objective& objective, const logits_batch<T>& batch) noexcept {
  return exec.concurrency() * logits_loop::scratch(objective, batch.logits.shape[1], batch.teacher.shape[1],
                                                   logits_loop::indices<Objective>);
}

/// Loss of `objective` over positions with a vector of logits each: sum over sequences of the aggregation's weight
/// times the sum over live positions of the pieces' values; sums, scales and aggregations are those of `evaluate`.
/// Writes dL / d logits and returns the sums it is made of.
///
/// `step` counts the whole optimizer step. Guaranteed to the bit: the same result for any split of the sequences into
/// micro-batches, any executor and number of threads, and any content of positions that do not count (NaN included, and
/// labels that are no entry). Throws std::invalid_argument if shapes do not fit, an input that the objective reads is
/// missing, a label or a position is out of range, or the batch holds more positions than `step`. Allocates nothing.
template <executor Executor, class Objective, class Aggregation, class T, class Counts>
report_of<Objective> evaluate_logits(const Executor& exec, const Objective& objective, const Aggregation& aggregation,
                                     const logits_batch<T>& batch, const Counts& step,
                                     const std::type_identity_t<logits_gradients<T>>& gradients = {}) {
  static_assert(std::is_same_v<Counts, global_counts>,
                "rlcore: evaluate_logits takes the global_counts of the whole optimizer step, not a number and not the "
                "counts of one batch; or pass loss_counts(batch) if this is all");
  static_assert(rlcore::aggregation<Aggregation>,
                "rlcore: an aggregation has double weight(row_info row, const global_counts& step) const noexcept");
  if constexpr (logits_loop::check<Objective>(logits_loop::indices<Objective>) &&
                std::is_same_v<Counts, global_counts> && rlcore::aggregation<Aggregation>) {
    using evaluator = logits_loop::entry_evaluator<Objective, T>;
    constexpr auto indices = logits_loop::indices<Objective>;
    const auto p = logits_loop::prepare(batch, logits_loop::shape_wanted(objective, indices));
    const extent_t vocabulary = batch.logits.shape[1];
    logits_loop::check_settings(objective, vocabulary, batch.teacher.shape[1], indices);
    const std::size_t scratch = logits_loop::scratch(objective, vocabulary, batch.teacher.shape[1], indices);
    logits_loop::check_outputs(batch, gradients, scratch * exec.concurrency());
    report_of<Objective> total = empty_report(objective);
    total.empty_step = step.tokens() == 0;

    const extent_t chunks = logits_loop::chunk_count(p.entries, vocabulary, exec.concurrency(), scratch != 0);
    std::atomic_flag merging;  // sums are exact, so the order in which chunks arrive does not matter
    extent_t done = 0;
    exec.for_each(static_cast<std::size_t>(chunks), [&](std::size_t chunk) {
      const extent_t c = static_cast<extent_t>(chunk);
      evaluator one(objective, p, gradients, batch.scratch.subspan(scratch ? scratch * chunk : 0, scratch));
      const auto part = logits_loop::evaluate_chunk(one, p, gradients, aggregation, step, p.entries * c / chunks,
                                                    p.entries * (c + 1) / chunks);
      while (merging.test_and_set(std::memory_order_acquire)) merging.wait(true, std::memory_order_relaxed);
      total += part, ++done;
      merging.clear(std::memory_order_release);
      merging.notify_one();
    });
    token_loop::check_calls(done, chunks);
    if (chunks == 0 && gradients.logits.present() && !gradients.add)
      logits_loop::zero_rows(gradients.logits, 0, batch.logits.shape[0]);
    for (extent_t i = 0; i < p.rows; ++i) total.sequences += p.live_in_row(i) > 0;
    total.rows = p.rows;
    total.units = total.tokens;
    token_loop::check_counts(total.tokens, total.sequences, total.rows, step);
    return total;
  } else {
    return {};
  }
}

/// The counts of `batch`, to be used where one call on one rank is the whole optimizer step.
template <class T>
global_counts loss_counts(const logits_batch<T>& batch) {
  const auto p = logits_loop::prepare(batch, {});
  global_counts counts;
  for (extent_t i = 0; i < p.rows; ++i) counts.add_row(p.live_in_row(i));
  return counts;
}

RLCORE_ALGORITHM_END
RLCORE_END
