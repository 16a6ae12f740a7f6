// How the time of a reader grows with its input.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "support/cpu_time.hpp"

/// What a test of growth allows: n log n takes little more than twice the time for twice the input, n^2 four times.
inline constexpr double linear_growth = 2.3;

/// How many times longer work(large) takes than work(small), with the least time of each. It measures again while the
/// ratio is above linear_growth, but at most 40 times and one second: other programs disturb some measurements, not
/// all.
template <class Input, class Work>
double ratio_of_times(const Input& small, const Input& large, Work&& work) {
  const auto seconds = [&](const Input& input) {
    const double begin = cpu_seconds();
    work(input);
    return cpu_seconds() - begin;
  };
  double least = std::numeric_limits<double>::max(), least_of_large = least, spent = 0;
  for (int run = 0; run < 40 && spent < 1; ++run) {
    const double one = seconds(small), two = seconds(large);
    spent += one + two;
    least = std::min(least, one), least_of_large = std::min(least_of_large, two);
    if (run > 0 && least_of_large <= linear_growth * least) break;
  }
  return least_of_large / least;
}

/// How many times longer work(prepare(2 n)) takes than work(prepare(n)): the least ratio for n, 2 n and 4 n, because
/// one of these may be where the data stop to fit a cache.
template <class Prepare, class Work>
double growth_of_time(std::size_t n, Prepare&& prepare, Work&& work) {
  double ratio = std::numeric_limits<double>::max();
  for (int size = 0; size < 3 && ratio > linear_growth; ++size, n *= 2)
    ratio = std::min(ratio, ratio_of_times(prepare(n), prepare(2 * n), work));
  return ratio;
}
