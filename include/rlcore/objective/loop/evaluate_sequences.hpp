// The sequence loop: gather one score per row, link rows or pairs, scatter the slopes to the tokens.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/preference/link.hpp"

RLCORE_BEGIN
namespace detail {

template <class Link>
constexpr field link_reads() noexcept {
  if constexpr (requires { Link::reads; })
    return contains(Link::reads, field::advantage) ? field::advantage : field::none;
  else
    return field::none;
}

template <class A>
inline constexpr bool per_sequence = requires {
  requires A::per_sequence;
};
template <class A>
inline constexpr bool per_pair = requires {
  requires A::per_pair;
};

}  // namespace detail

/// The report of a sequence objective; means are per sequence or per pair.
template <class Gather, class Link>
using sequence_report_of = report<1, monitor_count<Link>>;

RLCORE_ALGORITHM_BEGIN
namespace token_loop {

template <class Gather, class Link, class T>
class sequence_evaluator {
  using loop = row_loop<typename Gather::score, T>;

 public:
  static constexpr extent_t rows_per_term = pair_link<Link> ? 2 : 1;
  using report_type = sequence_report_of<Gather, Link>;

  sequence_evaluator(const sequence_objective<Gather, Link>& objective, const typename Gather::score& score,
                     const prepared_batch<T>& gathered, const prepared_batch<T>& batch) noexcept
      : link_(objective.link),
        gather_(gathered, Gather::score::reads, field::logp, &loop::erased_run, &score, &sums_),
        scatter_(batch, field::none, field::logp, nullptr, nullptr, nullptr),
        batch_(batch) {}

  template <class Aggregation>
  void operator()(extent_t first, const Aggregation& aggregation, const global_counts& step,
                  report_type& out) noexcept {
    token<double> row[rows_per_term];
    std::int64_t live[rows_per_term];
    for (extent_t k = 0; k < rows_per_term; ++k) {
      live[k] = gather_.live(first + k);
      out.rows += 1, out.tokens += live[k], out.sequences += live[k] > 0;
      row[k] = gather(first + k, live[k]);
    }
    if (rows_per_term == 1 && live[0] == 0) return scatter_.zero_gradients(first, 0);
    const double weight = aggregation.weight(row_info{live[0]}, step);
    double slope[rows_per_term];
    const auto linked = link(row, slope);
    out.units += 1;
    out.piece[0].aggregated.add(weight * linked.value);
    out.piece[0].total.add(linked.value);
    if constexpr (monitor_count < Link >> 0)
      for (std::size_t m = 0; m < monitor_count<Link>; ++m) out.monitor[m].total.add(linked.monitor[m]);
    for (extent_t k = 0; k < rows_per_term; ++k) {
      const double per_token = Gather::averages && live[k] > 0 ? slope[k] / static_cast<double>(live[k]) : slope[k];
      scatter_.fill(first + k, static_cast<T>(weight * per_token));
    }
  }

 private:
  token<double> gather(extent_t i, std::int64_t live) noexcept {
    token<double> row{};
    sums_.clear();
    if (live > 0) gather_.row(i, T(1));
    const double sum = sums_.total(0);
    row.logp = Gather::averages && live > 0 ? sum / static_cast<double>(live) : sum;
    if constexpr (detail::link_reads<Link>() != field::none)
      row.advantage = static_cast<double>(*batch_.input[advantage_index].row(i, -1));
    return row;
  }
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

  static constexpr std::size_t advantage_index = 4;
  const Link& link_;
  typename loop::sums sums_;
  row_driver<T> gather_, scatter_;
  const prepared_batch<T>& batch_;
};

}  // namespace token_loop

/// Loss, gradient and report of a sequence objective, with the guarantees of evaluate. A row link reads advantages with
/// one value per row. Pairs are neighbouring rows and must not be split between micro-batches; throws
/// std::invalid_argument for an odd number of rows.
template <executor Executor, class Gather, class Link, class Aggregation, class T, class Counts>
sequence_report_of<Gather, Link> evaluate(const Executor& exec, const sequence_objective<Gather, Link>& objective,
                                          const Aggregation& aggregation, const token_batch<T>& batch,
                                          const Counts& step,
                                          const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  static_assert(
      std::is_same_v<Counts, global_counts>,
      "rlcore: evaluate takes the global_counts of the whole optimizer step, not a number and not the counts of "
      "one batch; add every row of the step with global_counts::add_row, or pass whole_step(batch)");
  static_assert(
      pair_link<Link> ? detail::per_pair<Aggregation> : detail::per_sequence<Aggregation>,
      "rlcore: this objective has one term per sequence or per pair of sequences, not one per token; aggregate "
      "it with sequence_mean{} or pair_mean{}");
  static_assert(pair_link<Link> || token_piece<Link>,
                "rlcore: a link is a token piece, which is shown one sequence as a token, or has the call operator "
                "pair_term<V, N> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept");
  using evaluator = token_loop::sequence_evaluator<Gather, Link, T>;
  using report_type = sequence_report_of<Gather, Link>;
  constexpr field reads = Gather::score::reads | detail::link_reads<Link>();
  const auto prepared = token_loop::prepare(batch, gradients, reads, field::logp);
  if constexpr (detail::link_reads<Link>() != field::none)
    if (prepared.input[4].per_token)
      throw std::invalid_argument(
          "rlcore: a sequence objective needs one advantage per row; pass a vector, in packed batches per_row(x)");
  auto gathered = prepared;
  gathered.wants_gradients = false;
  const typename Gather::score score{};

  report_type total;
  total.piece[0].name = Link::name;
  for (std::size_t m = 0; m < monitor_count<Link>; ++m)
    total.monitor[m].piece = Link::name, total.monitor[m].name = monitors_of<Link>()[m];
  total.empty_step = step.tokens() == 0;
  const extent_t rows = prepared.shape.rows;
  if (rows % evaluator::rows_per_term != 0)
    throw std::invalid_argument("rlcore: pairs are rows 2k and 2k + 1, but the batch has " + std::to_string(rows) +
                                " rows");
  token_loop::for_each_chunk(exec, prepared, rows / evaluator::rows_per_term, total,
                             [&](extent_t begin, extent_t end, report_type& part) {
                               evaluator one_term(objective, score, gathered, prepared);
                               for (extent_t i = begin; i < end; ++i)
                                 one_term(i * evaluator::rows_per_term, aggregation, step, part);
                             });
  token_loop::check_counts(total.tokens, total.sequences, total.rows, step);
  return total;
}

RLCORE_ALGORITHM_END
RLCORE_END
