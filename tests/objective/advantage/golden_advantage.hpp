// tests/reference/advantage.json: advantages of verl, OpenRLHF and TRL, and of formulas.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "objective/golden_case.hpp"
#include "rlcore/tensor/span.hpp"

namespace rlcore_test {

inline const nlohmann::json& advantages_of_systems() {
  static const nlohmann::json data = read_golden("advantage.json");
  return data;
}

/// A vector, or the rows of a matrix one after the other.
inline std::vector<double> numbers(const nlohmann::json& j) {
  std::vector<double> out;
  for (const auto& x : j)
    if (x.is_array())
      for (const double v : numbers(x)) out.push_back(v);
    else
      out.push_back(golden_number(x));
  return out;
}
inline std::vector<std::int64_t> integers(const nlohmann::json& j) { return j.get<std::vector<std::int64_t>>(); }

/// A golden matrix [rows, tokens] and, for outputs, room for one.
struct golden_matrix {
  rlcore::extent_t rows, tokens;
  std::vector<double> values;
  explicit golden_matrix(const nlohmann::json& j)
      : rows(static_cast<rlcore::extent_t>(j.size())),
        tokens(static_cast<rlcore::extent_t>(j.at(0).size())),
        values(numbers(j)) {}
  golden_matrix(rlcore::extent_t rows_, rlcore::extent_t tokens_, double fill = -77)
      : rows(rows_), tokens(tokens_), values(static_cast<std::size_t>(rows_ * tokens_), fill) {}
  rlcore::matrix_view<double> view() { return {values.data(), {rows, tokens}}; }
};

inline void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double tolerance = 1e-12) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "at " << i;
}
inline void expect_near(const std::vector<double>& got, const nlohmann::json& expected, double tolerance = 1e-12) {
  expect_near(got, numbers(expected), tolerance);
}

/// The inputs of the token-level cases: five rows of 134 tokens with tool turns, an empty row and one of a single
/// token. What stands in masked slots is NaN: nobody may read it.
struct golden_episodes {
  const nlohmann::json& all = advantages_of_systems().at("tokens");
  golden_matrix rewards{all.at("rewards")}, values{all.at("values")}, mask{all.at("mask")};
  golden_matrix advantages{rewards.rows, rewards.tokens}, returns{rewards.rows, rewards.tokens};
  golden_episodes() {
    for (std::size_t k = 0; k < mask.values.size(); ++k)
      if (mask.values[k] == 0) rewards.values[k] = values.values[k] = std::nan("");
  }
};

}  // namespace rlcore_test
