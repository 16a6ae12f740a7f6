#include "rlcore/rollout/sampler.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "rlcore/core/random.hpp"

namespace {

using rlcore::rollout::sampler;
using rlcore::rollout::sampling;

std::vector<double> frequencies(const std::vector<float>& logits, const sampling& how, int draws = 200000) {
  sampler draw;
  const rlcore::random_key key{7};
  std::vector<double> count(logits.size());
  for (int i = 0; i < draws; ++i)
    ++count[static_cast<std::size_t>(draw(logits, how, key.uniform(static_cast<std::uint32_t>(i))))];
  for (double& c : count) c /= draws;
  return count;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature, const std::vector<int>& support) {
  std::vector<double> p(logits.size());
  double total = 0;
  for (const int i : support)
    total += p[static_cast<std::size_t>(i)] =
        std::exp(static_cast<double>(logits[static_cast<std::size_t>(i)]) / temperature);
  for (double& x : p) x /= total;
  return p;
}

// Five standard deviations of a binomial frequency: fails once in 1.7 million runs, and the seed is fixed.
void expect_near(const std::vector<double>& seen, const std::vector<double>& expected, int draws = 200000) {
  for (std::size_t i = 0; i < seen.size(); ++i)
    EXPECT_NEAR(seen[i], expected[i], 5 * std::sqrt(expected[i] * (1 - expected[i]) / draws)) << "token " << i;
}

const std::vector<float> logits{0.5f, 2.0f, -1.0f, 1.0f, 2.0f};

TEST(sampler, draws_from_the_tempered_softmax) {
  expect_near(frequencies(logits, {.temperature = 1}), softmax(logits, 1, {0, 1, 2, 3, 4}));
  expect_near(frequencies(logits, {.temperature = 0.5f}), softmax(logits, 0.5, {0, 1, 2, 3, 4}));
}

TEST(sampler, top_k_keeps_the_k_most_likely) {
  expect_near(frequencies(logits, {.top_k = 3}), softmax(logits, 1, {1, 3, 4}));
  expect_near(frequencies(logits, {.top_k = 1}), {0, 1, 0, 0, 0});  // a tie: the smaller id
}

TEST(sampler, top_p_keeps_the_smallest_set_that_reaches_it) {
  // Probabilities: 0.367, 0.367, 0.135, 0.082, 0.018 of ids 1, 4, 3, 0, 2 (rounded). 0.7 needs two, 0.8 three.
  expect_near(frequencies(logits, {.top_p = 0.7f}), softmax(logits, 1, {1, 4}));
  expect_near(frequencies(logits, {.top_p = 0.8f}), softmax(logits, 1, {1, 4, 3}));
  expect_near(frequencies(logits, {.top_p = 1e-6f}), {0, 1, 0, 0, 0});
}

TEST(sampler, top_p_follows_top_k) {
  expect_near(frequencies(logits, {.top_k = 3, .top_p = 0.9f}), softmax(logits, 1, {1, 4, 3}));
  expect_near(frequencies(logits, {.top_k = 3, .top_p = 0.8f}), softmax(logits, 1, {1, 4}));  // of the three: 0.84
}

TEST(sampler, temperature_zero_is_greedy_and_a_banned_token_is_never_drawn) {
  EXPECT_EQ(sampler{}(logits, {.temperature = 0}, 0.999), 1);
  std::vector<float> banned = logits;
  banned[4] = -std::numeric_limits<float>::infinity();
  sampler draw;
  for (const double u : {0.0, 0.3, 0.6, 0.9, std::nextafter(1.0, 0.0)}) EXPECT_NE(draw(banned, {}, u), 4);
}

TEST(sampler, refuses_settings_without_meaning) {
  EXPECT_THROW((sampling{.temperature = -1}).validate(), rlcore::config_error);
  EXPECT_THROW((sampling{.temperature = std::nanf("")}).validate(), rlcore::config_error);
  EXPECT_THROW((sampling{.top_p = 0}).validate(), rlcore::config_error);
  EXPECT_THROW((sampling{.top_p = 1.5f}).validate(), rlcore::config_error);
}

}  // namespace
