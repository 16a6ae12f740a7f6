// Golden files of token pieces: inputs by field name, and per case the value and the slope of every token.
//
//   {"fields": {"logp": [...], "advantage": [...], ...},          one number per token, all of one length
//    "cases": {"sapo": {"value": [...], "slope": [...]}, ...}}
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "objective/check_slope.hpp"

namespace rlcore_test {

inline nlohmann::json read_golden(const std::string& file) {
  std::ifstream in(std::string(RLCORE_REFERENCE_DIR "/") + file);
  if (!in) throw std::runtime_error("no golden file " + file);
  return nlohmann::json::parse(in);
}

/// null, "nan", "inf" and "-inf" stand for what JSON has no number for.
inline double golden_number(const nlohmann::json& j) {
  if (j.is_number()) return j.get<double>();
  if (j == "inf") return std::numeric_limits<double>::infinity();
  if (j == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

/// The tokens of a golden file; fields that it does not give are 0.
inline std::vector<rlcore::token<double>> golden_tokens(const nlohmann::json& fields) {
  std::vector<rlcore::token<double>> tokens(fields.begin()->size());
  for (const auto& [name, numbers] : fields.items()) {
    std::size_t f = 0;
    while (f < rlcore::field_count && rlcore::field_names[f] != name) ++f;
    if (f == rlcore::field_count) throw std::runtime_error("no token field " + name);
    for (std::size_t k = 0; k < tokens.size(); ++k)
      tokens[k].*rlcore::field_member<double>[f] = golden_number(numbers.at(k));
  }
  return tokens;
}

/// Compares a piece with the value and slope that somebody else computed for each token.
template <class P>
void check_case(const P& piece, const std::vector<rlcore::token<double>>& tokens, const nlohmann::json& one,
                double tolerance = 1e-12) {
  ASSERT_EQ(one.at("value").size(), tokens.size());
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    const auto got = at(piece, tokens[k]);
    const double value = golden_number(one["value"][k]), slope = golden_number(one["slope"][k]);
    EXPECT_NEAR(got.value, value, tolerance * std::max(1.0, std::abs(value))) << P::name << " value of token " << k;
    EXPECT_NEAR(got.slope, slope, tolerance * std::max(1.0, std::abs(slope))) << P::name << " slope of token " << k;
  }
}

}  // namespace rlcore_test
