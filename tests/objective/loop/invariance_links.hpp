// The sequence loop for any link: splits between pairs, threads and masked slots show in no bit, and the result is what
// the link says of the gathered scores.
#pragma once

#include "objective/loop/invariance.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"

namespace rlcore_test {

/// Short answers, so that scores are of the size that losses saturate at; the target is 0 or 1, the weight positive.
struct pair_batch : poisoned_batch {
  std::vector<float> row_target, row_weight, row_value;
  pair_batch() {
    for (extent_t i = 0; i < rows; ++i) {
      row_target.push_back(i % 3 == 0 ? 1.0f : 0.0f);
      row_weight.push_back(0.25f + 0.125f * static_cast<float>(i % 5));
      row_value.push_back(0.01f * static_cast<float>(i));
      for (extent_t t = 12; t < width; ++t) mask[static_cast<std::size_t>(i * width + t)] = 0;
    }
  }
  token_batch<float> pairs(extent_t first, extent_t last) {
    token_batch<float> b = part(first, last);
    const auto cut_rows = [&](const std::vector<float>& x) {
      return std::span<const float>(x).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    };
    b.target = cut_rows(row_target), b.weight = cut_rows(row_weight);
    return b;
  }
};

template <class Gather, class Link, class Aggregation>
void check_link(const Gather& gather, const Link& link, const Aggregation& aggregation, double tolerance = 3e-6) {
  SCOPED_TRACE(std::string(Link::name));
  pair_batch b;
  const sequence_objective objective{gather, link};
  const global_counts step = b.counts();
  const auto run = [&](const std::vector<extent_t>& cuts, const auto& exec, gradient_set& g) {
    sequence_report_of<Gather, Link> report;
    for (std::size_t k = cuts.size() - 1; k > 0; --k)
      report += evaluate(exec, objective, aggregation, b.pairs(cuts[k - 1], cuts[k]), step,
                         {.logp = b.cut(g.logp, cuts[k - 1], cuts[k]), .value = b.cut(g.value, cuts[k - 1], cuts[k])});
    return report;
  };
  gradient_set whole, parts, threaded;
  const auto one = run({0, b.rows}, serial{}, whole);
  if constexpr (!batch_link<Link>) {
    const auto many = run({0, 2, 4, 50, 52, 110, b.rows}, serial{}, parts),
               shared = run({0, 60, b.rows}, threads(2), threaded);
    EXPECT_EQ(one.loss(), many.loss());
    EXPECT_EQ(one.loss(), shared.loss());
    EXPECT_TRUE(whole.same_bits(parts));
    EXPECT_TRUE(whole.same_bits(threaded));
  }

  std::vector<token<double>> rows(static_cast<std::size_t>(b.rows));
  std::vector<double> slope(rows.size());
  using score = typename Gather::score;
  for (extent_t i = 0; i < b.rows; ++i) {
    token<double>& r = rows[static_cast<std::size_t>(i)];
    const double n = static_cast<double>(b.live(i));
    for (extent_t t = 0; t < b.width; ++t)
      if (b.mask[static_cast<std::size_t>(i * b.width + t)])
        r.logp += score{}.template operator()<exact_math, double>(b.at(i, t)).value;
    if (Gather::averages && n > 0) r.logp /= n;
    r.advantage = static_cast<double>(b.row_advantage[static_cast<std::size_t>(i)]);
    r.target = static_cast<double>(b.row_target[static_cast<std::size_t>(i)]);
    r.weight = static_cast<double>(b.row_weight[static_cast<std::size_t>(i)]);
    r.gathered = n > 0 ? gather_row(link, b, i) : 0.0;
  }
  double loss = 0, size = 1e-6;
  if constexpr (batch_link<Link>) {
    loss = link(std::span<const token<double>>(rows), std::span<double>(slope)), size += std::abs(loss);
  } else if constexpr (pair_link<Link>) {
    for (std::size_t i = 0; i < rows.size(); i += 2) {
      const auto t = link.template operator()<exact_math, double>(rows[i], rows[i + 1]);
      const double w = aggregation.weight(row_info{1, static_cast<std::int64_t>(i)}, step);
      loss += w * t.value, size += std::abs(w * t.value);
      slope[i] = w * t.slope_chosen, slope[i + 1] = w * t.slope_rejected;
    }
  } else {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (b.live(static_cast<extent_t>(i)) == 0 && !rlcore::detail::counts_empty<Aggregation>) continue;
      const auto t = link.template operator()<exact_math, double>(rows[i]);
      const double w = aggregation.weight(row_info{1, static_cast<std::int64_t>(i)}, step);
      loss += w * t.value, size += std::abs(w * t.value);
      slope[i] = w * t.slope;
    }
  }
  if (std::isinf(loss))  // the empty row of the batch, for a link that takes logs of its odds
    EXPECT_EQ(one.loss(), loss);
  else
    EXPECT_NEAR(one.loss(), loss, tolerance * size);
  const std::vector<float>& got = wrt_of<score>() == field::value ? whole.value : whole.logp;
  double largest = 0;
  for (const double s : slope) largest = std::max(largest, std::abs(s));
  int wrong = 0;
  for (extent_t i = 0; i < b.rows; ++i)
    for (extent_t t = 0; t < b.width; ++t) {
      const std::size_t k = static_cast<std::size_t>(i * b.width + t);
      double want = 0;
      if (b.mask[k]) {
        want = slope[static_cast<std::size_t>(i)] * score{}.template operator()<exact_math, double>(b.at(i, t)).slope;
        if (Gather::averages) want /= static_cast<double>(b.live(i));
      }
      wrong += !(std::abs(static_cast<double>(got[k]) - want) <= 10 * tolerance * (std::abs(want) + 1e-3 * largest));
    }
  EXPECT_EQ(wrong, 0) << "tokens with another gradient than the link's";
}

}  // namespace rlcore_test
