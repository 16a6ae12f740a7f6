// Tokens drawn by the npu device against the inverse CDF in double.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "device/npu/emulated_npu.hpp"
#include "rollout/golden_sampling.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// What may be drawn from a row, in the order of the inverse CDF, and the probabilities.
struct choices {
  indices ids;
  std::vector<double> p;

  choices(const floats& logits, const sampling_arguments& how) {
    const auto v = static_cast<extent_t>(logits.size());
    ids.resize(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    const auto z = [&](std::int32_t i) { return static_cast<double>(logits[static_cast<std::size_t>(i)]); };
    const bool all = how.top_k <= 0 || how.top_k >= v;
    if (!all || how.top_p < 1)
      std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) { return z(a) > z(b); });
    if (!all) ids.resize(static_cast<std::size_t>(how.top_k));
    double top = -1e300, total = 0;
    for (const std::int32_t i : ids) top = std::max(top, z(i));
    for (const std::int32_t i : ids) total += std::exp((z(i) - top) / static_cast<double>(how.temperature));
    double reached = 0;
    for (const std::int32_t i : ids) {
      if (reached >= static_cast<double>(how.top_p) && how.top_p < 1) break;
      p.push_back(std::exp((z(i) - top) / static_cast<double>(how.temperature)) / total);
      reached += p.back();
    }
    ids.resize(p.size());
    for (double& x : p) x /= reached;
  }
};

template <class D>
indices draw(D& d, const sampling_arguments& how, const floats& logits, const std::vector<double>& uniform) {
  const auto t = static_cast<extent_t>(uniform.size()), v = static_cast<extent_t>(logits.size()) / t;
  auto rows = put(d, logits);
  auto u = put(d, uniform);
  auto tokens = room<std::int32_t>(d, t);
  d.run(
      rlcore::op::sample{.settings = how, .logits = rows, .rows = t, .vocabulary = v, .uniform = u, .tokens = tokens});
  return tokens.back();
}

/// A number in the middle of a token's interval draws that token, however sums are rounded.
TEST(npu_sampling, every_likely_token_is_drawn_in_its_interval) {
  emulated_npu on;
  for (const extent_t v : {1, 7, 300, 2100})
    for (const sampling_arguments& how :
         {sampling_arguments{1, 0, 1}, {0.6f, 0, 1}, {1, 5, 1}, {1, 0, 0.8f}, {1.3f, 40, 0.5f}, {1, 1, 0.1f}}) {
      SCOPED_TRACE(testing::Message() << v << " tokens, top_k " << how.top_k << ", top_p " << how.top_p);
      floats row = normal(v, 1, 2);
      for (std::size_t j = 2; j < row.size(); j += 7) row[j] = -infinity;
      const choices c(row, how);
      floats logits;
      std::vector<double> uniform;
      indices wanted;
      double before = 0;
      for (std::size_t k = 0; k < c.p.size(); before += c.p[k++]) {
        if (c.p[k] < 1e-4 || uniform.size() == 60) continue;
        logits.insert(logits.end(), row.begin(), row.end());
        uniform.push_back(before + c.p[k] / 2);
        wanted.push_back(c.ids[k]);
      }
      EXPECT_EQ(draw(*on, how, logits, uniform), wanted);
    }
}

TEST(npu_sampling, rules_and_cuts_are_those_of_numpy) {
  emulated_npu on;
  for (const sampling_case& c : sampling_cases()) expect_draws(*on, c, 1e-4, 1e-5);
}

TEST(npu_sampling, ends_of_the_interval_never_draw_an_excluded_token) {
  emulated_npu on;
  const double last = std::nextafter(1.0, 0.0);
  const floats row{-infinity, 1, -infinity, 1, -infinity};
  floats rows;
  for (int r = 0; r < 3; ++r) rows.insert(rows.end(), row.begin(), row.end());
  for (const sampling_arguments& how :
       {sampling_arguments{1, 0, 1}, {1, 4, 1}, {1, 0, 0.99f}, {1, 4, 0.99f}, {1, 0, 1, 0.9f}})
    EXPECT_EQ(draw(*on, how, rows, {0, 0.75, last}), (indices{1, 3, 3})) << how.top_k << ", " << how.top_p;
}

TEST(npu_sampling, equals_go_by_id) {
  emulated_npu on;
  const floats row{0, 2, 2, 1, 2};
  EXPECT_EQ(draw(*on, {0, 0, 1}, row, {0.9}), indices{1}) << "the first of the most likely";
  floats rows;
  for (int r = 0; r < 2; ++r) rows.insert(rows.end(), row.begin(), row.end());
  EXPECT_EQ(draw(*on, {1, 2, 1}, rows, {0.2, 0.9}), (indices{1, 2}));
}

TEST(npu_sampling, greedy_takes_the_largest) {
  emulated_npu on;
  cpu host(1);
  const floats logits = normal(9 * 1500, 3, 5);
  const std::vector<double> uniform(9, 0.5);
  EXPECT_EQ(draw(*on, {0, 0, 1}, logits, uniform), draw(host, {0, 0, 1}, logits, uniform));
}

TEST(npu_sampling, tokens_stay_inside_the_vocabulary_whatever_the_logits) {
  emulated_npu on;
  const floats logits(2 * 50, std::nanf(""));
  for (const sampling_arguments& how : {sampling_arguments{0, 0, 1}, {1, 0, 1}, {1, 5, 0.5f}, {1, 0, 1, 0.5f}})
    for (const std::int32_t token : draw(*on, how, logits, {0.3, 0.9})) {
      EXPECT_GE(token, 0);
      EXPECT_LT(token, 50);
    }
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
