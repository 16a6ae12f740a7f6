// The checks of every link of pairs: slopes against dual numbers, numbers of golden files.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "objective/golden_case.hpp"
#include "rlcore/objective/piece/preference/link.hpp"

namespace rlcore_test {

/// Two rows of a pair: their scores, and the per-row fields that some links read.
inline std::pair<rlcore::token<double>, rlcore::token<double>> pair_of(double chosen, double rejected,
                                                                       double margin = 0.3) {
  rlcore::token<double> c{}, r{};
  c.logp = chosen, c.weight = 0.75, c.target = margin, c.gathered = 5;
  r.logp = rejected, r.weight = 1.25, r.gathered = 3;
  return {c, r};
}

template <class Link>
auto judge(const Link& link, const std::pair<rlcore::token<double>, rlcore::token<double>>& pair) {
  return link.template operator()<rlcore::exact_math, double>(pair.first, pair.second);
}
template <class Link>
auto judge(const Link& link, double chosen, double rejected) {
  return judge(link, pair_of(chosen, rejected));
}

/// Both slopes == the derivatives of the value, to 1e-12.
template <class Link>
void check_pair_slopes(const Link& link, double chosen, double rejected) {
  const auto [c, r] = pair_of(chosen, rejected);
  for (const bool by_chosen : {true, false}) {
    const rlcore::slope_difference d = rlcore::slope_difference_at(link, c, r, by_chosen);
    if (std::isfinite(d.value))  // the same text, but a product and a sum may be contracted in one of them
      EXPECT_NEAR(d.carried, d.value, 1e-13 * std::max(1.0, std::abs(d.value))) << Link::name;
    else
      EXPECT_EQ(d.carried, d.value) << Link::name;
    EXPECT_LE(d.error(), 1e-12) << Link::name << (by_chosen ? " by chosen" : " by rejected") << " at " << chosen << ", "
                                << rejected;
  }
}

inline void expect_close(double got, double want, double tolerance, const std::string& what) {
  EXPECT_NEAR(got, want, tolerance * std::max(1.0, std::abs(want))) << what;
}

/// Compares a link of pairs with a case of preference.json.
template <class Link>
void check_pair_case(const Link& link, const std::string& name, double tolerance = 1e-12) {
  static const nlohmann::json golden = read_golden("preference.json");
  const auto& one = golden["links"]["cases"].at(name);
  const auto& inputs = golden["links"].at(one["inputs"].get<std::string>());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const double c = inputs[k][0], r = inputs[k][1];
    const auto got = judge(link, c, r);
    const std::string at = name + " at " + std::to_string(c) + ", " + std::to_string(r);
    expect_close(got.value, one["value"][k], tolerance, at);
    expect_close(got.slope_chosen, one["chosen"][k], tolerance, at + " by chosen");
    expect_close(got.slope_rejected, one["rejected"][k], tolerance, at + " by rejected");
    check_pair_slopes(link, c, r);
  }
}

/// The same for a link of single rows; the second input is field::target.
template <class Link>
void check_row_case(const Link& link, const std::string& name, double tolerance = 1e-12) {
  static const nlohmann::json golden = read_golden("preference.json");
  const auto& one = golden["links"]["cases"].at(name);
  const auto& inputs = golden["links"].at(one["inputs"].get<std::string>());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    rlcore::token<double> row{};
    row.logp = inputs[k][0], row.target = inputs[k][1];
    const auto got = at(link, row);
    const std::string where = name + " at " + std::to_string(row.logp) + ", " + std::to_string(row.target);
    expect_close(got.value, one["value"][k], tolerance, where);
    expect_close(got.slope, one["slope"][k], tolerance, where + " slope");
    check_slope(link, row);
  }
}

}  // namespace rlcore_test
