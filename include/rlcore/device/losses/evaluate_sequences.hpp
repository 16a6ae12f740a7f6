// Sequence losses on a device: gather, link and scatter as programs over device arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "rlcore/device/losses/evaluate.hpp"
#include "rlcore/device/losses/host_fallback.hpp"
#include "rlcore/device/losses/rows.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace device_losses {

/// The terms of a batch: one for each row, or one for each pair of adjacent rows.
template <class Gather, class Link, class Device>
class sequence_terms {
  using score = typename Gather::score;
  using also = gathers_of<Link>;
  static constexpr bool pairs = pair_link<Link>;

 public:
  static constexpr std::size_t slots = 1 + monitor_count<Link>;
  static constexpr extent_t rows_per_term = pairs ? 2 : 1;
  using report_type = sequence_report_of<Gather, Link>;

  /// `sums` is memory for the live tokens of every row and the results of every term, [rows + slots terms]. With
  /// `counts_empty` a row without tokens has a term, with score 0.
  sequence_terms(Device& device, const Link& link, row_arrays<Device>& rows, float* sums, bool counts_empty)
      : device_(device),
        rows_(rows),
        terms_(rows.rows() / rows_per_term),
        counts_(sums),
        slope_(room(device, rows_per_term * terms_)) {
    gather_rows(link);
    run_link(link, sums + rows.rows(), counts_empty);
  }

  /// dL / d field at every token.
  void scatter(const float* weights) {
    constexpr std::size_t out = [] {
      std::size_t f = 0;
      while (field_at(f) != wrt_of<score>()) ++f;
      return f;
    }();
    const auto by_row = row_slopes(weights);
    program_writer writer;
    const auto t = score{}.template operator()<traced_math, traced>(detail::traced_token(0));
    writer.result("slope", t.slope * own_input(field::gathered));
    auto arrays = rows_.tokens();
    arrays.input[0][token_loop::gathered_index] = {by_row.data(), 1, 0};
    auto other = room(device_, rows_.slots());
    float* const results[] = {rows_.target(out, other.data())};
    arrays.results = results;
    device_.run(op::run_program{.program = writer.finish(), .arrays = arrays});
    rows_.write(out, results[0]);
  }

 private:
  /// Scores of all rows, and the second statistic of links that need one.
  void gather_rows(const Link& link) {
    gathered_ = room(device_, 2 * rows_.rows());
    gather_rows_of(device_, trace(score{}), Gather::averages, rows_, counts_, gathered_.data());
    if constexpr (!std::is_same_v<also, no_gather>)
      gather_rows_of(device_, trace(score_of(link)), also::averages, rows_, counts_, gathered_.data() + rows_.rows());
  }

  /// Inputs of the link for row k of every term: fields that the link does not list are NaN, listed fields that a row
  /// lacks are 0.
  void show_row(program_arrays<float>& a, extent_t k, const float* nothing) const {
    constexpr field from_batch = detail::row_fields<Link>();
    for (std::size_t f = 0; f < field_count; ++f) {
      const auto of_rows = [&](program_input<float> x) {
        return program_input<float>{x.data + k * x.row_stride, x.row_stride * rows_per_term, 0};
      };
      program_input<float>& in = a.input[k][f];
      if (field_at(f) == field::logp)
        in = of_rows({gathered_.data(), 1, 0});
      else if (field_at(f) == field::gathered && !std::is_same_v<also, no_gather>)
        in = of_rows({gathered_.data() + rows_.rows(), 1, 0});
      else if (contains(from_batch, field_at(f)))
        in = of_rows(rows_.per_row(f));
      else
        in = {contains(detail::listed<Link>(), field_at(f)) ? nothing : nothing + 1, 0, 0};
    }
  }

  /// Values and monitors to `out` [slots, terms], slopes by the scores to slope_ [rows_per_term, terms].
  void run_link(const Link& link, float* out, bool counts_empty) {
    const auto nothing = uploaded(device_, std::vector<float>{0, std::numeric_limits<float>::quiet_NaN()});
    program_arrays<float> a;
    a.rows = terms_, a.width = 1;
    for (extent_t k = 0; k < rows_per_term; ++k) show_row(a, k, nothing.data());
    if (!pairs && !counts_empty) a.live = {counts_, 1, 0};
    std::vector<float*> results{out};
    for (extent_t k = 0; k < rows_per_term; ++k) results.push_back(slope_.data() + k * terms_);
    for (std::size_t m = 1; m < slots; ++m) results.push_back(out + static_cast<extent_t>(m) * terms_);
    a.results = results;
    device_.run(op::run_program{.program = trace(link), .arrays = a});
  }

  /// The gradient with respect to every row's score, times the weight of its term; for a mean, with respect to the sum.
  buffer<float, Device> row_slopes(const float* weights) {
    auto by_row = room(device_, rows_.rows());
    for (extent_t k = 0; k < rows_per_term; ++k) {
      program_arrays<float> a;
      a.rows = terms_, a.width = 1;
      a.input[0][0] = {slope_.data() + k * terms_, 1, 0};
      a.input[0][1] = {weights, rows_per_term, 0};
      auto part = room(device_, terms_);
      run_one(device_, own_input(field::logp) * own_input(field::old_logp), a, part.data());
      device_.run(op::copy_rows{
          .y = by_row.data() + k, .y_row = rows_per_term, .x = part.data(), .x_row = 1, .count = terms_, .width = 1});
    }
    if (!Gather::averages) return by_row;
    program_arrays<float> a;
    a.rows = rows_.rows(), a.width = 1;
    a.input[0][0] = {by_row.data(), 1, 0}, a.input[0][1] = {counts_, 1, 0}, a.live = {counts_, 1, 0};
    run_one(device_, own_input(field::logp) / own_input(field::old_logp), a, by_row.data());
    return by_row;
  }

  Device& device_;
  row_arrays<Device>& rows_;
  extent_t terms_;
  const float* counts_;
  buffer<float, Device> gathered_, slope_;
};

/// The report from the live tokens of every row and the results of every term, [slots, terms].
template <class Terms, class Aggregation>
void add_terms(typename Terms::report_type& out, const std::vector<float>& sums, extent_t rows,
               const Aggregation& aggregation, const global_counts& step) {
  const extent_t terms = rows / Terms::rows_per_term;
  for (extent_t i = 0; i < rows; ++i) {
    const auto live = static_cast<std::int64_t>(sums[static_cast<std::size_t>(i)]);
    out.rows += 1, out.tokens += live, out.sequences += live > 0;
  }
  for (extent_t i = 0; i < terms; ++i) {
    const extent_t first = i * Terms::rows_per_term;
    const auto live = static_cast<std::int64_t>(sums[static_cast<std::size_t>(first)]);
    if (Terms::rows_per_term == 1 && live == 0 && !detail::counts_empty<Aggregation>) continue;
    const auto at = [&](std::size_t slot) {
      return static_cast<double>(sums[static_cast<std::size_t>(rows + static_cast<extent_t>(slot) * terms + i)]);
    };
    out.units += 1;
    out.piece[0].aggregated.add(aggregation.weight(row_info{live, first}, step) * at(0));
    out.piece[0].total.add(at(0));
    for (std::size_t m = 1; m < Terms::slots; ++m) out.monitor[m - 1].total.add(at(m));
  }
}

}  // namespace device_losses

/// Loss, gradient and report of a sequence objective over fields in the memory of a device, as by evaluate() on the
/// host up to rounding in float. A batch link, which sorts or compares all rows, runs on the host: its fields are
/// downloaded once and its slopes uploaded.
template <loss_device Device, class Gather, class Link, class Aggregation, class T, class Counts>
sequence_report_of<Gather, Link> evaluate(Device& device, const sequence_objective<Gather, Link>& objective,
                                          const Aggregation& aggregation, const token_batch<T, Device>& batch,
                                          const Counts& step,
                                          const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  static_assert(std::is_same_v<T, float>, "rlcore: a device computes losses in float: token_batch<float, Device>");
  static_assert(std::is_same_v<Counts, global_counts>,
                "rlcore: evaluate takes the global_counts of the whole optimizer step, not a number and not the counts "
                "of one batch; add every row of the step with global_counts::add_row");
  static_assert(detail::fits<Link, Aggregation>(),
                "rlcore: this objective has one term per sequence, per pair of sequences or per batch, not one per "
                "token; aggregate it with sequence_mean{}, pair_mean{} or, if it couples the whole batch, "
                "batch_total{}");
  using rows_type = token_loop::sequence_rows<Gather, Link, T>;
  if constexpr (batch_link<Link>) {
    return device_losses::on_host(device, objective, aggregation, batch, step, gradients, rows_type::reads);
  } else {
    using terms_type = device_losses::sequence_terms<Gather, Link, Device>;
    check_reads(typename Gather::score{});
    detail::check_reads_of_link(objective.link);
    const auto prepared =
        token_loop::prepare(addresses_of(batch), addresses_of(gradients), rows_type::reads, rows_type::writes);
    for (std::size_t f = 0; f < field_count; ++f)
      if (contains(rows_type::row_fields, field_at(f)) && prepared.input[f].per_token)
        throw std::invalid_argument("rlcore: a sequence objective needs one " + std::string(field_names[f]) +
                                    " per row; pass a vector, in packed batches per_row(x)");
    const extent_t count = prepared.shape.rows;
    if (count % terms_type::rows_per_term != 0)
      throw std::invalid_argument("rlcore: pairs are rows 2k and 2k + 1, but the batch has " + std::to_string(count) +
                                  " rows");
    device_losses::whole_numbers<Device> numbers;
    device_losses::row_arrays<Device> rows(device, prepared, rows_type::reads, numbers);
    if (rows.slots() == 0)
      return device_losses::on_host(device, objective, aggregation, batch, step, gradients, rows_type::reads);
    sequence_report_of<Gather, Link> total = empty_report(objective);
    total.empty_step = step.tokens() == 0;

    auto sums = device_losses::room(
        device, count + static_cast<extent_t>(terms_type::slots) * (count / terms_type::rows_per_term));
    device.run(op::row_sums{.sums = sums.data(), .x = rows.live().data(), .rows = rows.rows(), .width = rows.width()});
    terms_type terms(device, objective.link, rows, sums.data(), detail::counts_empty<Aggregation>);
    if (prepared.wants_gradients) {
      const device_losses::row_weights<Device> weights(device, device_losses::aggregation_view(aggregation), step,
                                                       sums.data(), rows, pair_link<Link>);
      terms.scatter(weights.data());
      rows.zero_others(rows_type::writes);
    }
    std::vector<float> back(sums.size());
    sums.download(back);
    device_losses::add_terms<terms_type>(total, back, count, aggregation, step);
    token_loop::check_counts(total.tokens, total.sequences, total.rows, step);
    return total;
  }
}

/// A preference loss with an additional SFT term on the chosen answers, on a device: two passes, two reports.
template <loss_device Device, class Pair, class Chosen, class T, class Counts>
auto evaluate(Device& device, const likelihood_regularised<Pair, Chosen>& named, const token_batch<T, Device>& batch,
              const Counts& step, const global_counts& chosen,
              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  auto added = gradients;
  added.add = true;
  auto pair = evaluate(device, named.pair, batch, step, gradients);
  auto likelihood =
      evaluate(device, scaled{named.coefficient, negative_log_likelihood{}}, Chosen{chosen}, batch, step, added);
  return likelihood_regularised_report<decltype(pair), decltype(likelihood)>{pair, likelihood};
}

RLCORE_ALGORITHM_END
RLCORE_END
