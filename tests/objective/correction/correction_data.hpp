// The inputs and expected numbers of tests/reference/correction.json.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "objective/golden_case.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/correction/correct.hpp"
#include "rlcore/tensor/span.hpp"

namespace correction_test {

inline constexpr std::ptrdiff_t rows = 6, tokens = 12;

inline std::vector<double> flat(const nlohmann::json& matrix) {
  std::vector<double> x;
  for (const auto& row : matrix) {
    if (row.is_array())
      for (const auto& v : row) x.push_back(rlcore_test::golden_number(v));
    else
      x.push_back(rlcore_test::golden_number(row));
  }
  return x;
}

struct golden_data {
  nlohmann::json json = rlcore_test::read_golden("correction.json");
  nlohmann::json cases = json["cases"];
  std::vector<double> logp = flat(json["logp"]), old_logp = flat(json["old_logp"]),
                      rollout_logp = flat(json["rollout_logp"]), advantage = flat(json["advantage"]),
                      entropy = flat(json["entropy"]), mask = flat(json["mask"]);
  std::vector<double> weight = std::vector<double>(72, -7.0), kept = std::vector<double>(72, -7.0);

  static rlcore::matrix_view<double> shaped(std::vector<double>& x) { return rlcore::matrix(x.data(), rows, tokens); }
  rlcore::token_batch<double> batch(bool bypass) {
    rlcore::token_batch<double> b{.rollout_logp = shaped(rollout_logp), .mask = shaped(mask)};
    if (bypass)
      b.logp = shaped(logp);
    else
      b.old_logp = shaped(old_logp);
    return b;
  }
  template <class Rule>
  auto run(const Rule& rule) {
    constexpr bool weighs = !std::is_same_v<decltype(rule.weight), rlcore::no_weight>;
    rlcore::correction_outputs<double> out{.mask = shaped(kept)};
    if (weighs) out.weight = shaped(weight);
    return rlcore::correct(rlcore::serial{}, rule, batch(Rule::train_policy::train == rlcore::field::logp), out);
  }
};

inline void expect_equal(const std::vector<double>& got, const nlohmann::json& matrix, const std::string& what,
                         double tolerance = 1e-13) {
  const auto want = flat(matrix);
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t k = 0; k < got.size(); ++k)
    EXPECT_NEAR(got[k], want[k], tolerance * std::max(1.0, std::abs(want[k]))) << what << ", slot " << k;
}
/// Masks, and the counts that go with them.
template <class Corrected>
void expect_mask(const std::vector<double>& got, const Corrected& corrected, const nlohmann::json& matrix,
                 const std::string& what) {
  expect_equal(got, matrix, what, 0);
  rlcore::global_counts want;
  for (const auto& row : matrix) {
    const auto live = flat(row);
    want.add_row(std::count(live.begin(), live.end(), 1.0));
  }
  EXPECT_EQ(corrected.counts.tokens(), want.tokens()) << what;
  EXPECT_EQ(corrected.counts.sequences(), want.sequences()) << what;
  EXPECT_EQ(corrected.counts.rows(), want.rows()) << what;
}

}  // namespace correction_test
