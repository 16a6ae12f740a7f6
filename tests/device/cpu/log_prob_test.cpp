// Log-prob and entropy of logits against double, their gradient against the formulas P1 and P2 in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "device/cpu/sets.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using rlcore_test::normal;
using floats = std::vector<float>;

struct exact {
  double logp = 0, entropy = 0;
  std::vector<double> log_p;

  exact(const float* logits, extent_t vocabulary, int target, double temperature) {
    double top = -std::numeric_limits<double>::infinity(), total = 0;
    for (extent_t j = 0; j < vocabulary; ++j) top = std::max(top, static_cast<double>(logits[j]) / temperature);
    for (extent_t j = 0; j < vocabulary; ++j) total += std::exp(static_cast<double>(logits[j]) / temperature - top);
    for (extent_t j = 0; j < vocabulary; ++j) {
      log_p.push_back(static_cast<double>(logits[j]) / temperature - top - std::log(total));
      if (std::exp(log_p.back()) > 0) entropy -= std::exp(log_p.back()) * log_p.back();
    }
    logp = log_p[static_cast<std::size_t>(target)];
  }
};

class log_prob : public testing::TestWithParam<std::string> {};

TEST_P(log_prob, values_and_gradients) {
  cpu device(2, GetParam());
  for (const extent_t vocabulary : {1, 5, 16, 43, 1000, 5003}) {
    for (const float temperature : {1.0f, 0.7f, 1.5f}) {
      const extent_t rows = 5;
      floats logits = normal(static_cast<std::size_t>(rows * vocabulary), 7, 4);
      if (vocabulary > 5)  // excluded tokens
        for (std::size_t j = 3; j < logits.size(); j += 11) logits[j] = -std::numeric_limits<float>::infinity();
      std::vector<std::int32_t> target;
      for (extent_t r = 0; r < rows; ++r) target.push_back(static_cast<std::int32_t>((r * 17 + 2) % vocabulary));
      for (extent_t r = 0; r < rows; ++r)
        logits[static_cast<std::size_t>(r * vocabulary + target[static_cast<std::size_t>(r)])] = 1.25f;
      const floats dlogp = normal(5, 8), dentropy = normal(5, 9);
      floats logp(5), entropy(5), statistics(10), slopes = logits;
      device.run(op::log_prob_forward{.logits = logits.data(),
                                      .rows = rows,
                                      .vocabulary = vocabulary,
                                      .targets = target.data(),
                                      .temperature = temperature,
                                      .logp = logp.data(),
                                      .entropy = entropy.data(),
                                      .statistics = statistics.data()});
      device.run(op::log_prob_backward{.logits = slopes.data(),
                                       .rows = rows,
                                       .width = vocabulary,
                                       .first = 0,
                                       .targets = target.data(),
                                       .temperature = temperature,
                                       .dlogp = dlogp.data(),
                                       .dentropy = dentropy.data(),
                                       .entropy = entropy.data(),
                                       .statistics = statistics.data()});
      for (std::size_t r = 0; r < 5; ++r) {
        const float* row = logits.data() + static_cast<extent_t>(r) * vocabulary;
        const exact e(row, vocabulary, target[r], static_cast<double>(temperature));
        EXPECT_NEAR(static_cast<double>(logp[r]), e.logp, 1e-6 * (1 + std::abs(e.logp)));
        EXPECT_NEAR(static_cast<double>(entropy[r]), e.entropy, 2e-6);
        for (extent_t j = 0; j < vocabulary; ++j) {
          const double p = std::exp(e.log_p[static_cast<std::size_t>(j)]);
          double slope = static_cast<double>(dlogp[r]) * ((j == target[r] ? 1 : 0) - p);
          if (p > 0) slope -= static_cast<double>(dentropy[r]) * p * (e.log_p[static_cast<std::size_t>(j)] + e.entropy);
          ASSERT_NEAR(
              static_cast<double>(slopes[r * static_cast<std::size_t>(vocabulary) + static_cast<std::size_t>(j)]),
              slope / static_cast<double>(temperature), 3e-6);
        }
      }
    }
  }
}

TEST_P(log_prob, large_vocabulary) {
  cpu device(1, GetParam());
  const extent_t vocabulary = 151936;
  const floats logits = normal(static_cast<std::size_t>(vocabulary), 10, 3);
  const std::int32_t target = 77777;
  float logp = 0, entropy = 0;
  device.run(op::log_prob_forward{.logits = logits.data(),
                                  .rows = 1,
                                  .vocabulary = vocabulary,
                                  .targets = &target,
                                  .temperature = 1,
                                  .logp = &logp,
                                  .entropy = &entropy});
  const exact e(logits.data(), vocabulary, target, 1);
  EXPECT_NEAR(static_cast<double>(logp), e.logp, 2e-6);
  EXPECT_NEAR(static_cast<double>(entropy), e.entropy, 2e-6);
}

/// Tiles of any multiple of 1024 columns give the bits of the whole row, whatever the order of its maxima.
TEST_P(log_prob, tiles_have_the_bits_of_the_row) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  cpu device(2, GetParam());
  const extent_t rows = 6, vocabulary = 6 * 1024 + 77;
  floats logits = normal(static_cast<std::size_t>(rows * vocabulary), 12, 3);
  for (extent_t j = 0; j < vocabulary; ++j) {
    const auto at = [&](extent_t row) { return static_cast<std::size_t>(row * vocabulary + j); };
    logits[at(1)] = static_cast<float>(j) * 0.01f;   // every block has a new maximum
    logits[at(2)] = static_cast<float>(-j) * 0.01f;  // none has
    if (j < 2500) logits[at(3)] = -infinity;         // blocks without a token
    if (j != 4000) logits[at(4)] = -infinity;        // one token
  }
  const std::vector<std::int32_t> target = {77, 1023, 1024, 6220, 4000, 5};
  const floats dlogp = normal(6, 13), dentropy = normal(6, 14);
  for (const float temperature : {1.0f, 0.6f}) {
    floats logp(6), entropy(6), statistics(12), slopes = logits;
    device.run(op::log_prob_forward{.logits = logits.data(),
                                    .rows = rows,
                                    .vocabulary = vocabulary,
                                    .targets = target.data(),
                                    .temperature = temperature,
                                    .logp = logp.data(),
                                    .entropy = entropy.data(),
                                    .statistics = statistics.data()});
    device.run(op::log_prob_backward{.logits = slopes.data(),
                                     .rows = rows,
                                     .width = vocabulary,
                                     .first = 0,
                                     .targets = target.data(),
                                     .temperature = temperature,
                                     .dlogp = dlogp.data(),
                                     .dentropy = dentropy.data(),
                                     .entropy = entropy.data(),
                                     .statistics = statistics.data()});
    for (std::size_t r = 0; r < 6; ++r) {
      const exact e(logits.data() + static_cast<extent_t>(r) * vocabulary, vocabulary, target[r],
                    static_cast<double>(temperature));
      EXPECT_NEAR(static_cast<double>(logp[r]), e.logp, 1e-6 + 1e-7 * std::abs(e.logp)) << r;
      EXPECT_NEAR(static_cast<double>(entropy[r]), e.entropy, 1e-6) << r;
    }
    for (const extent_t width : {1024, 3072, 8192}) {
      std::vector<log_prob_state> states(6);
      floats again(24), tile, gathered(logits.size());
      for (extent_t first = 0; first < vocabulary; first += width) {
        const extent_t w = std::min(width, vocabulary - first);
        const auto copy = [&] {
          tile.clear();
          for (extent_t r = 0; r < rows; ++r)
            tile.insert(tile.end(), logits.begin() + r * vocabulary + first,
                        logits.begin() + r * vocabulary + first + w);
        };
        copy();
        device.run(op::log_prob_accumulate{.states = states.data(),
                                           .logits = tile.data(),
                                           .rows = rows,
                                           .width = w,
                                           .first = first,
                                           .targets = target.data(),
                                           .temperature = temperature});
        device.run(op::log_prob_backward{.logits = tile.data(),
                                         .rows = rows,
                                         .width = w,
                                         .first = first,
                                         .targets = target.data(),
                                         .temperature = temperature,
                                         .dlogp = dlogp.data(),
                                         .dentropy = dentropy.data(),
                                         .entropy = entropy.data(),
                                         .statistics = statistics.data()});
        for (extent_t r = 0; r < rows; ++r)
          std::copy_n(tile.begin() + r * w, w, gathered.begin() + r * vocabulary + first);
      }
      device.run(op::log_prob_finish{.states = states.data(),
                                     .rows = rows,
                                     .temperature = temperature,
                                     .logp = again.data(),
                                     .entropy = again.data() + 6,
                                     .statistics = again.data() + 12});
      EXPECT_EQ(floats(again.begin(), again.begin() + 6), logp) << width;
      EXPECT_EQ(floats(again.begin() + 6, again.begin() + 12), entropy) << width;
      EXPECT_EQ(floats(again.begin() + 12, again.end()), statistics) << width;
      EXPECT_EQ(gathered, slopes) << width;
    }
  }
}

TEST_P(log_prob, not_a_number_is_seen) {
  cpu device(1, GetParam());
  for (std::size_t bad : {0u, 20u, 36u, 1050u, 2999u}) {
    floats logits(bad < 37 ? 37 : 3000, 0.0f);
    logits[bad] = std::nanf("");
    const std::int32_t target = 5;
    float logp = 0, entropy = 0;
    device.run(op::log_prob_forward{.logits = logits.data(),
                                    .rows = 1,
                                    .vocabulary = static_cast<extent_t>(logits.size()),
                                    .targets = &target,
                                    .temperature = 1,
                                    .logp = &logp,
                                    .entropy = &entropy});
    EXPECT_TRUE(std::isnan(logp));
    EXPECT_TRUE(std::isnan(entropy));
  }
}

INSTANTIATE_TEST_SUITE_P(sets, log_prob, testing::ValuesIn(rlcore_test::instruction_sets()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace RLCORE_TEST_ID
