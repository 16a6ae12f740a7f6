// Majority vote (maj@k) among k of N samples: the exact expectation of the bootstrap estimate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {

/// Samples that gave the same answer.
struct vote_class {
  double count = 0, sum = 0, squares = 0;

  double mean() const noexcept { return sum / count; }
  double mean_square() const noexcept { return squares / count; }
};

std::vector<vote_class> vote_classes(std::span<const double> values, std::span<const std::int32_t> answers);

/// First and second moment of the vote's value, restricted to draws whose winner has exactly `most` votes. Sums
/// p_1^m_1/m_1! ... p_C^m_C/m_C! over all m with at most `most` votes each, `draws` in all, by the number of classes
/// that tie; each of t tied classes wins in 1/t of the orders.
std::pair<double, double> winner_with(std::span<const vote_class> classes, double samples, std::size_t draws,
                                      std::size_t most);

/// The same moments estimated by 1000 random draws.
std::pair<double, double> sampled_votes(std::span<const double> values, std::span<const std::int32_t> answers,
                                        std::size_t draws);

}  // namespace detail

/// Mean and standard deviation of the value of the most frequent answer among k draws with replacement. `answers[i]`
/// numbers the answer of sample i; among answers with equally many votes the one drawn first wins, and its value is
/// that of its first draw (verl's rule). Exact for up to 64 samples; beyond, 1000 draws (their seed is fixed).
std::pair<double, double> majority_of(std::span<const double> values, std::span<const std::int32_t> answers,
                                      std::int64_t k);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer::detail {

RLCORE_INLINE std::vector<vote_class> vote_classes(std::span<const double> values,
                                                   std::span<const std::int32_t> answers) {
  std::vector<vote_class> classes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto c = static_cast<std::size_t>(answers[i]);
    if (c >= classes.size()) classes.resize(c + 1);
    ++classes[c].count;
    classes[c].sum += values[i];
    classes[c].squares += values[i] * values[i];
  }
  std::erase_if(classes, [](const vote_class& c) { return c.count == 0; });
  return classes;
}

RLCORE_INLINE std::pair<double, double> winner_with(std::span<const vote_class> classes, double samples,
                                                    std::size_t draws, std::size_t most) {
  struct state {
    double weight = 0, sum = 0, squares = 0;  // of the product, of it times the tied classes' mean (square)
  };
  const std::size_t ties = draws / most;
  std::vector<state> now((draws + 1) * (ties + 1)), next(now.size());
  const auto at = [&](std::vector<state>& s, std::size_t used, std::size_t t) -> state& {
    return s[used * (ties + 1) + t];
  };
  at(now, 0, 0).weight = 1;
  for (const vote_class& c : classes) {
    std::fill(next.begin(), next.end(), state{});
    const double p = c.count / samples;
    for (std::size_t used = 0; used <= draws; ++used)
      for (std::size_t t = 0; t <= ties; ++t) {
        const state& s = at(now, used, t);
        if (s.weight == 0) continue;
        double term = 1;  // p^m / m!
        for (std::size_t m = 0; m <= most && used + m <= draws; term *= p / static_cast<double>(++m)) {
          const bool tied = m == most;
          if (tied && t == ties) continue;
          state& to = at(next, used + m, t + tied);
          to.weight += s.weight * term;
          to.sum += (s.sum + (tied ? s.weight * c.mean() : 0)) * term;
          to.squares += (s.squares + (tied ? s.weight * c.mean_square() : 0)) * term;
        }
      }
    now.swap(next);
  }
  double sum = 0, squares = 0;
  for (std::size_t t = 1; t <= ties; ++t) {
    sum += at(now, draws, t).sum / static_cast<double>(t);
    squares += at(now, draws, t).squares / static_cast<double>(t);
  }
  return {sum, squares};
}

RLCORE_INLINE std::pair<double, double> sampled_votes(std::span<const double> values,
                                                      std::span<const std::int32_t> answers, std::size_t draws) {
  constexpr std::uint32_t rounds = 1000;
  const random_key key{42};
  std::vector<std::size_t> drawn(draws);
  std::vector<int> votes(static_cast<std::size_t>(*std::max_element(answers.begin(), answers.end())) + 1);
  double sum = 0, squares = 0;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::fill(votes.begin(), votes.end(), 0);
    for (std::size_t d = 0; d < draws; ++d) {
      drawn[d] = key.below(static_cast<std::uint32_t>(values.size()), round, static_cast<std::uint32_t>(d));
      ++votes[static_cast<std::size_t>(answers[drawn[d]])];
    }
    const int most = *std::max_element(votes.begin(), votes.end());
    const auto winner = std::find_if(
        drawn.begin(), drawn.end(), [&](std::size_t i) { return votes[static_cast<std::size_t>(answers[i])] == most; });
    sum += values[*winner];
    squares += values[*winner] * values[*winner];
  }
  return {sum / rounds, squares / rounds};
}

}  // namespace trainer::detail

namespace trainer {

RLCORE_INLINE std::pair<double, double> majority_of(std::span<const double> values,
                                                    std::span<const std::int32_t> answers, std::int64_t k) {
  const auto draws = static_cast<std::size_t>(k);
  double sum = 0, squares = 0;
  if (values.size() > 64) {
    std::tie(sum, squares) = detail::sampled_votes(values, answers, draws);
  } else {
    const std::vector<detail::vote_class> classes = detail::vote_classes(values, answers);
    for (std::size_t most = 1; most <= draws; ++most) {
      const auto part = detail::winner_with(classes, static_cast<double>(values.size()), draws, most);
      sum += part.first;
      squares += part.second;
    }
    double orders = 1;
    for (std::size_t i = 2; i <= draws; ++i) orders *= static_cast<double>(i);
    sum *= orders;
    squares *= orders;
  }
  return {sum, std::sqrt(std::max(0.0, squares - sum * sum))};
}

}  // namespace trainer
RLCORE_END
#endif
