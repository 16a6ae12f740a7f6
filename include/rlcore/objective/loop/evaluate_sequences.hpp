// The sequence loop: gather one score per row, link rows, pairs or the whole batch, scatter the slopes to the tokens.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/fields_used.hpp"
#include "rlcore/objective/piece/preference/link.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

template <class Link>
constexpr field listed() noexcept {
  if constexpr (requires { Link::reads; })
    return Link::reads;
  else
    return field::none;
}

/// The fields that a link sees with one value per row. All other fields that a token piece reads are per token.
template <class Link>
constexpr field row_fields() noexcept {
  constexpr field shown = field::advantage | field::weight | field::value | field::old_value | field::target |
                          field::selected | field::entropy;
  return static_cast<field>(static_cast<unsigned>(listed<Link>()) & static_cast<unsigned>(shown));
}

template <class Score>
constexpr bool has_unit_slope() noexcept {
  if constexpr (requires { Score::unit_slope; })
    return Score::unit_slope;
  else
    return false;
}

template <class A>
inline constexpr bool per_sequence = requires { requires A::per_sequence; };
template <class A>
inline constexpr bool counts_empty = requires { requires A::counts_empty; };
template <class A>
inline constexpr bool per_pair = requires { requires A::per_pair; };
template <class A>
inline constexpr bool per_batch = requires { requires A::per_batch; };

template <class Link, class Aggregation>
consteval bool fits() {
  if constexpr (batch_link<Link>)
    return per_batch<Aggregation>;
  else if constexpr (pair_link<Link>)
    return per_pair<Aggregation>;
  else
    return per_sequence<Aggregation>;
}

}  // namespace detail

/// The report of a sequence objective; means are per sequence or per pair.
template <class Gather, class Link>
using sequence_report_of = report<1, monitor_count<Link>>;

/// A report without rows, with the names of the link and its monitors.
template <class Gather, class Link>
sequence_report_of<Gather, Link> empty_report(const sequence_objective<Gather, Link>&) noexcept {
  sequence_report_of<Gather, Link> r;
  r.piece[0].name = Link::name;
  for (std::size_t m = 0; m < monitor_count<Link>; ++m)
    r.monitor[m].piece = Link::name, r.monitor[m].name = monitors_of<Link>()[m];
  return r;
}

namespace token_loop {

/// One row as a link sees it, and the way back from its slope to the tokens.
template <class Gather, class Link, class T>
class sequence_rows {
  using score = typename Gather::score;
  using loop = row_loop<score, T>;
  using also = gathers_of<Link>;

 public:
  static constexpr field row_fields = detail::row_fields<Link>();
  static constexpr field reads = score::reads | row_fields | row_gatherer<also, T>::reads;
  static constexpr field writes = wrt_of<score>();

  /// Rows of `batch`, gathered as `link` needs them.
  sequence_rows(const Link& link, const prepared_batch<T>& batch) noexcept
      : batch_(batch),
        gather_(score_, batch),
        also_(second_score(link), batch),
        scatter_(batch, score::reads, writes, &loop::erased_run, &score_, &sums_) {}

  /// The link's view of row i, and the row's number of live tokens.
  token<double> gather(extent_t i, std::int64_t& live) noexcept {
    token<double> row = nothing();
    const auto gathered = gather_(i);
    row.logp = gathered.value, live = gathered.live;
    if constexpr (!std::is_same_v<also, no_gather>) row.gathered = also_(i).value;
    for (std::size_t f = 0; f < field_count; ++f)
      if (contains(row_fields, field_at(f)))
        row.*field_member<double>[f] = static_cast<double>(*batch_.input[f].row(i, -1));
    return row;
  }

  /// slope: dL / d score.
  void scatter(extent_t i, std::int64_t live, double slope) noexcept {
    if (live == 0) return scatter_.zero_gradients(i, 0);
    if (Gather::averages) slope /= static_cast<double>(live);
    if constexpr (detail::has_unit_slope<score>()) {
      scatter_.fill(i, static_cast<T>(slope));
    } else if (batch_.wants_gradients) {
      sums_.clear();
      scatter_.row(i, static_cast<T>(slope));
    }
  }

 private:
  /// Fields that a link does not list are NaN; listed fields that a row lacks are 0.
  static token<double> nothing() noexcept {
    token<double> t{};
    for (std::size_t f = 0; f < field_count; ++f)
      if (!contains(detail::listed<Link>(), field_at(f)))
        t.*field_member<double>[f] = std::numeric_limits<double>::quiet_NaN();
    return t;
  }
  static constexpr auto second_score(const Link& link) noexcept {
    if constexpr (std::is_same_v<also, no_gather>)
      return no_gather{};
    else
      return score_of(link);
  }

  const prepared_batch<T>& batch_;
  score score_{};
  typename loop::sums sums_;
  row_gatherer<Gather, T> gather_;
  [[no_unique_address]] row_gatherer<also, T> also_;
  row_driver<T> scatter_;
};

/// Row by row or pair by pair.
template <class Gather, class Link, class T>
class sequence_evaluator {
 public:
  static constexpr extent_t rows_per_term = pair_link<Link> ? 2 : 1;
  using report_type = sequence_report_of<Gather, Link>;

  /// Terms of `batch` by `link`.
  sequence_evaluator(const Link& link, const prepared_batch<T>& batch) noexcept : link_(link), rows_(link, batch) {}

  /// The row `first`, or the pair that begins with it: adds its term to `out` and writes its gradient.
  template <class Aggregation>
  void operator()(extent_t first, const Aggregation& aggregation, const global_counts& step,
                  report_type& out) noexcept {
    token<double> row[rows_per_term];
    std::int64_t live[rows_per_term];
    for (extent_t k = 0; k < rows_per_term; ++k) {
      row[k] = rows_.gather(first + k, live[k]);
      out.rows += 1, out.tokens += live[k], out.sequences += live[k] > 0;
    }
    if (rows_per_term == 1 && live[0] == 0 && !detail::counts_empty<Aggregation>) return rows_.scatter(first, 0, 0.0);
    const double weight = aggregation.weight(row_info{live[0], first}, step);
    double slope[rows_per_term];
    const auto linked = link(row, slope);
    out.units += 1;
    out.piece[0].aggregated.add(weight * linked.value);
    out.piece[0].total.add(linked.value);
    if constexpr (monitor_count < Link >> 0)
      for (std::size_t m = 0; m < monitor_count<Link>; ++m) out.monitor[m].total.add(linked.monitor[m]);
    for (extent_t k = 0; k < rows_per_term; ++k) rows_.scatter(first + k, live[k], weight * slope[k]);
  }

 private:
  auto link(const token<double>* row, double* slope) const noexcept {
    if constexpr (pair_link<Link>) {
      const auto result = link_.template operator()<exact_math, double>(row[0], row[1]);
      slope[0] = result.slope_chosen, slope[1] = result.slope_rejected;
      return result;
    } else {
      const auto result = link_.template operator()<exact_math, double>(row[0]);
      slope[0] = result.slope;
      return result;
    }
  }

  const Link& link_;
  sequence_rows<Gather, Link, T> rows_;
};

/// All rows at once: the only objective that allocates (three numbers and a token per row).
template <class Gather, class Link, class T, class Aggregation, class Report>
void evaluate_batch_link(const Link& link, const prepared_batch<T>& batch, const Aggregation& aggregation,
                         const global_counts& step, Report& total) {
  sequence_rows<Gather, Link, T> rows(link, batch);
  const extent_t count = batch.shape.rows;
  if (count != step.rows())
    throw std::invalid_argument("rlcore: " + std::string(Link::name) +
                                " couples all rows of the optimizer step, so they have to come in one batch; this one "
                                "has " +
                                std::to_string(count) + " rows, the step " + std::to_string(step.rows()));
  scratch_vector<token<double>> row(static_cast<std::size_t>(count));
  scratch_vector<double> slope(row.size());
  scratch_vector<std::int64_t> live(row.size());
  for (extent_t i = 0; i < count; ++i) {
    const auto k = static_cast<std::size_t>(i);
    row[k] = rows.gather(i, live[k]);
    total.rows += 1, total.tokens += live[k], total.sequences += live[k] > 0;
  }
  const double value = link(std::span<const token<double>>(row.data(), row.size()), detail::span_of(slope));
  const double weight = aggregation.weight(row_info{1}, step);
  total.units = 1;
  total.piece[0].aggregated.add(weight * value);
  total.piece[0].total.add(value);
  for (extent_t i = 0; i < count; ++i) {
    const auto k = static_cast<std::size_t>(i);
    rows.scatter(i, live[k], weight * slope[k]);
  }
}

}  // namespace token_loop

/// Loss, gradient and report of a sequence objective, with the guarantees of evaluate. Fields that a link reads have
/// one value per row. Pairs are neighbouring rows and must not be split between micro-batches; an odd number of rows
/// throws std::invalid_argument, as does a batch link (which couples all rows) on anything but the whole step.
template <executor Executor, class Gather, class Link, class Aggregation, class T, class Counts>
sequence_report_of<Gather, Link> evaluate(const Executor& exec, const sequence_objective<Gather, Link>& objective,
                                          const Aggregation& aggregation, const token_batch<T>& batch,
                                          const Counts& step,
                                          const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  static_assert(
      std::is_same_v<Counts, global_counts>,
      "rlcore: evaluate takes the global_counts of the whole optimizer step, not a number and not the counts of "
      "one batch; add every row of the step with global_counts::add_row, or pass loss_counts(batch)");
  static_assert(
      detail::fits<Link, Aggregation>(),
      "rlcore: this objective has one term per sequence, per pair of sequences or per batch, not one per token; "
      "aggregate it with sequence_mean{}, pair_mean{} or, if it couples the whole batch, batch_total{}");
  static_assert(batch_link<Link> || pair_link<Link> || token_piece<Link>,
                "rlcore: a link is a token piece, which is shown one sequence as a token, or has the call operator "
                "pair_term<V, N> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept");
  using rows_type = token_loop::sequence_rows<Gather, Link, T>;
  check_reads(typename Gather::score{});
  if constexpr (!batch_link<Link>) detail::check_reads_of_link(objective.link);
  const auto prepared = token_loop::prepare(batch, gradients, rows_type::reads, rows_type::writes);
  for (std::size_t f = 0; f < field_count; ++f)
    if (contains(rows_type::row_fields, field_at(f)) && prepared.input[f].per_token)
      throw std::invalid_argument("rlcore: a sequence objective needs one " + std::string(field_names[f]) +
                                  " per row; pass a vector, in packed batches per_row(x)");

  sequence_report_of<Gather, Link> total = empty_report(objective);
  total.empty_step = step.tokens() == 0;
  if constexpr (batch_link<Link>) {
    token_loop::evaluate_batch_link<Gather>(objective.link, prepared, aggregation, step, total);
  } else {
    using evaluator = token_loop::sequence_evaluator<Gather, Link, T>;
    const extent_t rows = prepared.shape.rows;
    if (rows % evaluator::rows_per_term != 0)
      throw std::invalid_argument("rlcore: pairs are rows 2k and 2k + 1, but the batch has " + std::to_string(rows) +
                                  " rows");
    token_loop::for_each_chunk(exec, prepared, rows / evaluator::rows_per_term, total,
                               [&](extent_t begin, extent_t end, sequence_report_of<Gather, Link>& part) {
                                 evaluator one_term(objective.link, prepared);
                                 for (extent_t i = begin; i < end; ++i)
                                   one_term(i * evaluator::rows_per_term, aggregation, step, part);
                               });
  }
  token_loop::check_counts(total.tokens, total.sequences, total.rows, step);
  return total;
}

RLCORE_ALGORITHM_END
RLCORE_END
