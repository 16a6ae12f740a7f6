// Every named algorithm on a device against the pack loop in double: loss, sums, metrics, gradients, reports.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/loss_batch.hpp"
#include "objective/algorithm/catalogue.hpp"

namespace rlcore_test {

template <class O>
concept of_sequences = requires(const O& o) {
  o.link;
  o.gather;
};

/// The fields that an objective wants with one value per row.
template <class O>
constexpr field row_fields_of(const O&) {
  if constexpr (of_sequences<O>)
    return detail::row_fields<std::remove_cvref_t<decltype(O::link)>>();
  else
    return detail::structure<O>::row_fields;
}

/// The sum of the absolute terms that each piece adds up: its values at tokens, of a sequence objective its scores.
template <class O>
std::vector<double> absolute_terms(const O& objective, const loss_batch& batch) {
  std::vector<double> sums;
  const auto add = [&](const auto& piece) {
    const traced_program program = trace(piece);
    double& sum = sums.emplace_back(0);
    for (const token<double>& t : batch.live_tokens()) sum += std::abs(run(program, t)[0]);
  };
  if constexpr (of_sequences<O>) {
    add(typename std::remove_cvref_t<decltype(objective.gather)>::score{});
  } else {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (add(piece_at<I>(objective)), ...);
    }(std::make_index_sequence<piece_count<O>>{});
  }
  return sums;
}

inline bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Sums of `got` are those of `want` up to 1e-6 of the absolute terms; counts are equal.
template <class Report>
void expect_report(const Report& got, const Report& want, const std::vector<double>& terms, const std::string& name) {
  EXPECT_EQ(got.tokens, want.tokens) << name;
  EXPECT_EQ(got.sequences, want.sequences) << name;
  EXPECT_EQ(got.rows, want.rows) << name;
  EXPECT_EQ(got.units, want.units) << name;
  EXPECT_EQ(got.empty_step, want.empty_step) << name;
  const auto near = [&](double g, double w, double scale, std::string_view what) {
    if (g == w || (std::isnan(w) && std::isnan(g))) return;
    EXPECT_LE(std::abs(g - w), 1e-6 * (std::abs(w) + scale)) << name << ": " << what << " is " << g << ", not " << w;
  };
  for (std::size_t p = 0; p < want.piece.size(); ++p) {
    EXPECT_EQ(got.piece[p].name, want.piece[p].name);
    near(got.piece[p].total.value(), want.piece[p].total.value(), terms[p], want.piece[p].name);
    const double share = std::min(1.0, 1.0 / static_cast<double>(std::max<std::int64_t>(1, want.sequences)));
    near(got.piece[p].aggregated.value(), want.piece[p].aggregated.value(), terms[p] * share, want.piece[p].name);
  }
  for (std::size_t m = 0; m < want.monitor.size(); ++m) {
    EXPECT_EQ(got.monitor[m].name, want.monitor[m].name);
    near(got.monitor[m].total.value(), want.monitor[m].total.value(), terms[0], want.monitor[m].name);
  }
}
template <class Report>
void expect_same_report(const Report& a, const Report& b, const std::string& name) {
  for (std::size_t p = 0; p < a.piece.size(); ++p) {
    EXPECT_TRUE(same_bits(a.piece[p].total.value(), b.piece[p].total.value())) << name;
    EXPECT_TRUE(same_bits(a.piece[p].aggregated.value(), b.piece[p].aggregated.value())) << name;
  }
  for (std::size_t m = 0; m < a.monitor.size(); ++m)
    EXPECT_TRUE(same_bits(a.monitor[m].total.value(), b.monitor[m].total.value())) << name;
  EXPECT_EQ(a.tokens, b.tokens) << name;
}

/// Gradients are those of the host up to 1e-6 of the largest.
inline void expect_gradient(const floats& got, const std::vector<double>& want, const std::string& name) {
  double largest = 0;
  for (const double w : want)
    if (std::isfinite(w)) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto g = static_cast<double>(got[i]);
    if (g == want[i] || (std::isnan(g) && std::isnan(want[i]))) continue;
    ASSERT_LE(std::abs(g - want[i]), 1e-6 * largest) << name << ": slope " << i << " is " << g << ", not " << want[i];
  }
}

/// One algorithm on one layout, with gradients that are overwritten and that are added to.
template <class Device, class A, class... Chosen>
void check_on_device(Device& d, const std::string& name, const A& a, const loss_batch& batch,
                     const loss_batch& other_slots, const std::vector<double>& terms, const Chosen&... chosen) {
  const auto report_of_pair = [](const auto& r) {
    if constexpr (requires { r.pair; })
      return r.pair;
    else
      return r;
  };
  const auto host = batch.host<double>();
  const auto here = batch.on(d), other = other_slots.on(d);
  const auto want = evaluate(serial{}, a, host->batch, batch.counts(), chosen..., host->gradients);
  const auto got = evaluate(d, a, here->batch, batch.counts(), chosen..., here->gradients);
  expect_report(report_of_pair(got), report_of_pair(want), terms, name);
  const auto again = evaluate(d, a, other->batch, batch.counts(), chosen..., other->gradients);
  expect_same_report(report_of_pair(got), report_of_pair(again), name);
  std::vector<floats> first;
  for (std::size_t k = 0; k < 3; ++k) {
    first.push_back(batch.back(d, here->gradient[k]));
    expect_gradient(first[k], host->gradient[k], name);
    EXPECT_EQ(std::memcmp(first[k].data(), batch.back(d, other->gradient[k]).data(), first[k].size() * sizeof(float)),
              0)
        << name << ": what lies in masked slots changes a slope";
  }
  auto added = here->gradients;
  added.add = true;
  evaluate(d, a, here->batch, batch.counts(), chosen..., added);
  for (std::size_t k = 0; k < 3; ++k) {
    const floats sum = batch.back(d, here->gradient[k]);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (std::isnan(sum[i])) continue;
      ASSERT_FLOAT_EQ(sum[i], 2 * first[k][i]) << name;
    }
  }
}

/// Every layout of a batch.
template <class Device, class A>
void check_algorithm(Device& d, const std::string& name, const A& a) {
  for (const layout form : {layout::masked, layout::by_length, layout::packed}) {
    SCOPED_TRACE(testing::Message() << name << ", layout " << static_cast<int>(form));
    const auto check = [&](const auto& objective, const auto&... chosen) {
      const field rows = row_fields_of(objective);
      const loss_batch batch(form, 8, 37, rows), other(form, 8, 37, rows, false, 0.5f);
      check_on_device(d, name, a, batch, other, absolute_terms(objective, batch), chosen(batch)...);
    };
    if constexpr (requires { a.objective; })
      check(a.objective);
    else
      check(a.pair.objective, [](const loss_batch& b) { return b.counts(2); });
  }
}

/// An algorithm on tokens or sequences, not on logits.
template <class A>
constexpr bool reads_log_probs() {
  if constexpr (requires(const A& a) { a.pair; }) {
    return true;
  } else {
    using objective = std::remove_cvref_t<decltype(A::objective)>;
    return of_sequences<objective> || composite_piece<objective> || token_piece<objective>;
  }
}

/// f(name, algorithm) for every algorithm on tokens or sequences.
template <class F>
void each_on_log_probs(const F& f) {
  const auto look = [&](const char* name, const auto& a, const defaults& = {}) {
    if constexpr (reads_log_probs<std::remove_cvref_t<decltype(a)>>())
      if (std::string_view(name) != "gvpo") f(name, a);  // without its group size
  };
  each_of_papers(look), each_of_systems(look);
  f("gvpo", paper::gvpo({.group_size = 4}));
}

}  // namespace rlcore_test
