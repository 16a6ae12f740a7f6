// The check of every piece: its slope against a dual number sent through its own body.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <random>

#include "objective/dual.hpp"
#include "rlcore/objective/piece/piece.hpp"

namespace rlcore_test {

using testing_dual::dual;

template <class P>
auto at(const P& piece, const rlcore::token<double>& t) {
  return piece.template operator()<rlcore::exact_math, double>(t);
}

/// slope == d value / d wrt to 1e-12. `also`: fields that carry the same derivative, e.g. gathered where a sequence's
/// statistic stands for the token's own log-ratio.
template <class P>
void check_slope(const P& piece, const rlcore::token<double>& t, rlcore::field also = rlcore::field::none) {
  const rlcore::slope_difference d = rlcore::slope_difference_at(piece, t, also);
  // The same text, but a compiler may contract a product and a sum in one of them.
  if (std::isfinite(d.value)) {
    EXPECT_NEAR(d.carried, d.value, 1e-13 * std::max(1.0, std::abs(d.value))) << P::name;
  } else if (!std::isnan(d.value)) {
    EXPECT_EQ(d.carried, d.value) << P::name;
  }
  EXPECT_LE(d.error(), 1e-12) << P::name << ": " << d.text();
}

/// A token with every field drawn at random: log-probs below 0, entropy above, the rest normal, selected 0 or 1.
inline rlcore::token<double> random_token(std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  const auto logp = [&] { return -std::abs(normal(random)); };
  rlcore::token<double> t{};
  t.logp = logp(), t.old_logp = logp(), t.ref_logp = logp(), t.rollout_logp = logp();
  t.advantage = normal(random), t.weight = std::abs(normal(random)), t.entropy = std::abs(normal(random));
  t.value = normal(random), t.old_value = normal(random), t.target = normal(random);
  t.selected = normal(random) > 0 ? 1 : 0, t.gathered = normal(random);
  return t;
}

}  // namespace rlcore_test
