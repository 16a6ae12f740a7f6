// Drawn tokens against the distribution computed in double: the inverse CDF is checked number by number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "device/cpu/sets.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using rlcore_test::normal;
using floats = std::vector<float>;
constexpr float infinity = std::numeric_limits<float>::infinity();
const double almost_one = std::nextafter(1.0, 0.0);

std::int32_t draw(cpu& device, const sampling_arguments& how, const floats& logits, double u) {
  std::int32_t token = -1;
  device.run(op::sample{.settings = how,
                        .logits = logits.data(),
                        .rows = 1,
                        .vocabulary = static_cast<extent_t>(logits.size()),
                        .uniform = &u,
                        .tokens = &token});
  return token;
}

/// The definition, with a sort: where each kept token begins and ends in [0, 1); tokens left out have an empty range.
struct exact {
  std::vector<double> begin, end;
  std::size_t kept = 0;

  exact(const floats& logits, const sampling_arguments& how) : begin(logits.size(), 2), end(logits.size(), -1) {
    const auto at = [&](std::size_t j) { return static_cast<double>(logits[j]); };
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    kept = order.size();
    const bool whole = (how.top_k <= 0 || how.top_k >= std::ssize(logits)) && how.top_p >= 1 && how.min_p <= 0;
    if (!whole) std::ranges::stable_sort(order, [&](auto a, auto b) { return at(a) > at(b); });
    if (how.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(how.top_k));
    const double most = *std::ranges::max_element(logits);
    const auto weight = [&](std::size_t i) {
      return std::exp((at(order[i]) - most) / static_cast<double>(how.temperature));
    };
    for (std::size_t i = 0; how.min_p > 0 && i < kept; ++i)
      if (weight(i) < static_cast<double>(how.min_p)) kept = i;
    double total = 0;
    for (std::size_t i = 0; i < kept; ++i) total += weight(i);
    if (how.top_p < 1) {
      const double enough = total * static_cast<double>(how.top_p);
      double reached = 0;
      std::size_t i = 0;
      while (i < kept && reached < enough) reached += weight(i++);
      kept = i;
      total = reached;
    }
    double before = 0;
    for (std::size_t i = 0; i < kept; ++i) {
      begin[order[i]] = before / total;
      before += weight(i);
      end[order[i]] = before / total;
    }
  }
};

class sample : public testing::TestWithParam<std::string> {
 protected:
  void expect_inverse_cdf(cpu& device, const sampling_arguments& how, const floats& logits, std::uint32_t draws) {
    const exact e(logits, how);
    for (std::uint32_t i = 0; i < draws; ++i) {
      const double u = i == 0 ? 0 : i == 1 ? almost_one : random_key{77}.uniform(i);
      const std::int32_t token = draw(device, how, logits, u);
      ASSERT_GE(token, 0);
      ASSERT_LT(token, std::ssize(logits));
      const auto t = static_cast<std::size_t>(token);
      ASSERT_GT(e.end[t], e.begin[t]) << "token " << token << " has probability 0, u = " << u;
      ASSERT_GE(u, e.begin[t] - 2e-6) << "token " << token;
      ASSERT_LE(u, e.end[t] + 2e-6) << "token " << token;
    }
  }
};

TEST_P(sample, whole_vocabulary) {
  cpu device(1, GetParam());
  for (const std::size_t vocabulary : {1u, 5u, 16u, 1000u, 1024u, 1025u, 5003u})
    for (const float temperature : {1.0f, 0.6f, 1.7f}) {
      floats logits = normal(vocabulary, 3, 2.5);
      expect_inverse_cdf(device, {temperature}, logits, 300);
      for (std::size_t j = 0; j < vocabulary; ++j)  // excluded tokens: whole blocks, the first and the last
        if (vocabulary > 5 && (j < 3 || j % 3 == 0 || (j >= 2048 && j < 4096) || j + 3 > vocabulary))
          logits[j] = -infinity;
      expect_inverse_cdf(device, {temperature}, logits, 300);
    }
}

TEST_P(sample, large_vocabulary) {
  cpu device(2, GetParam());
  const floats logits = normal(151936, 4, 3);
  expect_inverse_cdf(device, {0.9f}, logits, 50);
  expect_inverse_cdf(device, {0.9f, 50}, logits, 10);
  expect_inverse_cdf(device, {1, 0, 0.9f}, logits, 10);
  expect_inverse_cdf(device, {1, 0, 1, 0.01f}, logits, 10);
  expect_inverse_cdf(device, {1, 0, 0.9f, 0.01f}, logits, 10);
}

TEST_P(sample, top_k_top_p_and_min_p) {
  cpu device(1, GetParam());
  for (const std::size_t vocabulary : {1u, 5u, 300u, 1100u})
    for (const sampling_arguments& how : {sampling_arguments{1, 1},
                                          {1, 3},
                                          {0.7f, 20},
                                          {1, 5000},
                                          {1, 0, 0.05f},
                                          {1.3f, 0, 0.5f},
                                          {1, 0, 0.95f},
                                          {1, 0, 0.9999f},
                                          {1, 20, 0.8f},
                                          {0.5f, 4, 0.3f},
                                          {1, 0, 1, 1},
                                          {0.9f, 0, 1, 0.03f},
                                          {2, 0, 1, 1e-4f},
                                          {1, 0, 0.9f, 0.02f},
                                          {1, 30, 1, 0.01f},
                                          {1.2f, 12, 0.8f, 0.005f}}) {
      floats logits = normal(vocabulary, 5, 3);
      expect_inverse_cdf(device, how, logits, 150);
      for (float& x : logits) x = std::round(x);  // many equals: the smaller id is the more likely one
      expect_inverse_cdf(device, how, logits, 150);
      for (std::size_t j = 0; j < vocabulary; j += 2)
        if (vocabulary > 1) logits[j] = j % 4 ? -infinity : logits[j] - 200;  // far below: the last bucket
      expect_inverse_cdf(device, how, logits, 150);
    }
  const floats equal(5000, 0.25f);
  for (std::uint32_t i = 0; i < 50; ++i) EXPECT_LT(draw(device, {1, 10}, equal, random_key{5}.uniform(i)), 10);
}

TEST_P(sample, temperature_zero_takes_the_largest_and_of_equals_the_smallest_id) {
  cpu device(1, GetParam());
  for (const std::size_t at : {0u, 7u, 1023u, 1024u, 2500u, 2999u}) {
    floats logits = normal(3000, 6);
    logits[at] = 50;
    if (at < 2500) logits[2500] = 50;
    EXPECT_EQ(draw(device, {0}, logits, 0.999), static_cast<std::int32_t>(at));
    EXPECT_EQ(draw(device, {0, 5, 0.5f}, logits, 0.999), static_cast<std::int32_t>(at));
  }
}

TEST_P(sample, neither_company_nor_threads_show) {
  const extent_t rows = 37, vocabulary = 5003;
  const floats logits = normal(static_cast<std::size_t>(rows * vocabulary), 7, 3);
  std::vector<double> u;
  for (std::uint32_t r = 0; r < 37; ++r) u.push_back(random_key{8}.uniform(r));
  for (const sampling_arguments& how : {sampling_arguments{0.8f}, {0}, {1, 40}, {1, 0, 0.9f}, {1, 0, 1, 0.01f}}) {
    cpu one(1, GetParam());
    std::vector<std::int32_t> single(37), together(37);
    for (extent_t r = 0; r < rows; ++r)
      one.run(op::sample{.settings = how,
                         .logits = logits.data() + r * vocabulary,
                         .rows = 1,
                         .vocabulary = vocabulary,
                         .uniform = u.data() + r,
                         .tokens = single.data() + r});
    for (const int threads : {1, 2, 3}) {
      cpu device(threads, GetParam());
      device.run(op::sample{.settings = how,
                            .logits = logits.data(),
                            .rows = rows,
                            .vocabulary = vocabulary,
                            .uniform = u.data(),
                            .tokens = together.data()});
      EXPECT_EQ(single, together) << threads << " threads";
      std::int32_t last = -1;
      device.run(op::sample{.settings = how,
                            .logits = logits.data() + 36 * vocabulary,
                            .rows = 1,
                            .vocabulary = vocabulary,
                            .uniform = u.data() + 36,
                            .tokens = &last});
      EXPECT_EQ(last, single[36]);
    }
  }
}

TEST_P(sample, not_a_number_stays_within_the_vocabulary) {
  cpu device(1, GetParam());
  for (const sampling_arguments& how : {sampling_arguments{1}, {0}, {1, 5}, {1, 0, 0.5f}, {1, 0, 1, 0.5f}})
    for (const std::size_t bad : {0u, 20u, 36u}) {
      floats logits(37, 0.0f);
      logits[bad] = std::nanf("");
      const std::int32_t token = draw(device, how, logits, 0.7);
      EXPECT_TRUE(token >= 0 && token < 37);
    }
}

/// A maximum over lanes may miss what stands beside NaN: then logits are above the "largest" one.
TEST_P(sample, rows_that_are_not_finite_in_places_stay_within_the_vocabulary) {
  cpu device(1, GetParam());
  const floats special{std::nanf(""), infinity, -infinity, 3e38f, -3e38f};
  for (const std::size_t size : {50, 3000})
    for (std::uint32_t n = 0; n < 60; ++n) {
      floats logits = normal(size, n, 4);
      const rlcore::random_key key{n};
      for (std::uint32_t k = 0; k <= n % 9; ++k)
        logits[key.below(static_cast<std::uint32_t>(size), k, 1)] = special[key.below(5, k, 2)];
      for (const sampling_arguments& how : {sampling_arguments{1, 0, 1},
                                            {1, 2, 1},
                                            {1, 7, 1},
                                            {0.01f, 0, 0.9f},
                                            {1, 40, 0.9f},
                                            {1, 0, 1, 0.1f},
                                            {0, 0, 1}})
        for (const double u : {0.0, 0.5, almost_one}) {
          const std::int32_t token = draw(device, how, logits, u);
          EXPECT_GE(token, 0);
          EXPECT_LT(token, static_cast<std::int32_t>(size));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(sets, sample, testing::ValuesIn(rlcore_test::instruction_sets()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace RLCORE_TEST_ID
