// The most likely tokens of rows, their log-probs and ranks, against a sort in double.
#include "rlcore/rollout/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rollout/golden_sampling.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;
using rollout::token_logprob;
constexpr std::size_t rows = 6, vocabulary = 2500;

floats rows_of_logits(bool equals) {
  floats x(rows * vocabulary);
  for (std::uint32_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(3 * random_key{21}.normal(i));
  if (equals)
    for (float& v : x) v = std::round(v);
  for (std::size_t i = 0; i < x.size(); i += 50) x[i] = -std::numeric_limits<float>::infinity();
  return x;
}

/// Each row's own token: the most likely, the least likely and others.
std::vector<token_logprob> own_tokens() {
  return {{7, -1.5f}, {0, -2.5f}, {2499, -3.5f}, {1201, -0.5f}, {33, -7.25f}, {34, -8.0f}};
}

template <class Device>
std::vector<rollout::likely_tokens> found(Device& device, const floats& logits, float temperature, std::size_t k) {
  buffer<float, Device> x(device, logits.size());
  x.upload(logits);
  rollout::likely_tokens_finder<Device> finder;
  std::vector<rollout::likely_tokens> out(rows);
  out[0].tokens.resize(3);  // what an earlier call left
  finder(device, x.data(), vocabulary, temperature, own_tokens(), k, out);
  return out;
}

void expect_sorted(const std::vector<rollout::likely_tokens>& out, const floats& logits, float temperature,
                   std::size_t k) {
  for (std::size_t r = 0; r < rows; ++r) {
    const floats row(logits.begin() + static_cast<std::ptrdiff_t>(r * vocabulary),
                     logits.begin() + static_cast<std::ptrdiff_t>((r + 1) * vocabulary));
    std::vector<std::int32_t> order(vocabulary);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
      return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
    });
    const auto logp = rlcore_test::log_softmax(row, static_cast<double>(temperature));
    const token_logprob own = own_tokens()[r];
    EXPECT_EQ(out[r].rank, std::ranges::find(order, own.token) - order.begin() + 1);
    ASSERT_EQ(out[r].tokens.size(), k);
    for (std::size_t i = 0; i < k; ++i) {
      const token_logprob t = out[r].tokens[i];
      ASSERT_EQ(t.token, order[i]) << "row " << r << ", place " << i;
      if (t.token == own.token)
        EXPECT_EQ(t.logp, own.logp) << "as it was given";
      else
        EXPECT_NEAR(t.logp, logp[static_cast<std::size_t>(t.token)], 2e-6 + 1e-7 * std::abs(t.logp));
    }
  }
}

TEST(likely_tokens, are_those_of_a_sort) {
  cpu host(2);
  any_device_of<cpu> apart(1);  // as if the host could not read its memory
  for (const bool equals : {false, true})
    for (const float temperature : {1.0f, 0.6f}) {
      const floats logits = rows_of_logits(equals);
      for (const std::size_t k : {0u, 1u, 5u, 20u, 2000u}) {
        SCOPED_TRACE(testing::Message() << k << " of " << (equals ? "many equals" : "normal values"));
        expect_sorted(found(host, logits, temperature, k), logits, temperature, k);
        expect_sorted(found<any_device>(apart, logits, temperature, k), logits, temperature, k);
      }
    }
}

TEST(likely_tokens, of_a_small_vocabulary_are_all_of_it) {
  cpu device(1);
  const floats logits{1, 3, 2};
  rollout::likely_tokens_finder<cpu> finder;
  std::vector<rollout::likely_tokens> out(1);
  finder(device, logits.data(), 3, 1, std::vector<token_logprob>{{0, -2}}, 20, out);
  ASSERT_EQ(out[0].tokens.size(), 3u);
  EXPECT_EQ(out[0].tokens[0].token, 1);
  EXPECT_EQ(out[0].tokens[2].token, 0);
  EXPECT_EQ(out[0].rank, 3);
}

template <class Device>
void expect_kept(Device& device) {
  for (const auto& c : rlcore_test::sampling_cases()) {
    if (c.sampling.greedy()) continue;
    SCOPED_TRACE(c.name);
    buffer<float, Device> x(device, 2 * c.ruled.size());
    floats both = c.ruled;
    both.insert(both.end(), c.ruled.begin(), c.ruled.end());
    x.upload(both);
    std::int32_t outside = 0;  // a token that cannot be drawn, if there is one
    while (std::ranges::find(c.kept, outside) != c.kept.end()) ++outside;
    const bool any_outside = outside < std::ssize(c.ruled);
    const std::vector<std::int32_t> tokens{c.kept.back(), any_outside ? outside : c.kept.front()};
    std::vector<rollout::likely_tokens> out(2);
    floats logp(2);
    rollout::likely_tokens_finder<Device> finder;
    finder.kept(device, x.data(), static_cast<extent_t>(c.ruled.size()), c.sampling, tokens, 5, out, logp);
    EXPECT_EQ(out[0].rank, std::ssize(c.kept));
    EXPECT_NEAR(logp[0], std::log(c.p.back()), 2e-6);
    EXPECT_EQ(out[1].rank, any_outside ? 0 : 1);
    if (any_outside) {
      EXPECT_EQ(logp[1], -std::numeric_limits<float>::infinity());
    }
    for (const rollout::likely_tokens& o : out) {
      ASSERT_EQ(o.tokens.size(), std::min<std::size_t>(5, c.kept.size()));
      for (std::size_t i = 0; i < o.tokens.size(); ++i) {
        EXPECT_EQ(o.tokens[i].token, c.kept[i]);
        EXPECT_NEAR(o.tokens[i].logp, std::log(c.p[i]), 2e-6);
      }
    }
  }
}

TEST(likely_tokens, of_a_draw_are_those_that_numpy_keeps) {
  cpu host(1);
  any_device_of<cpu> apart(1);
  expect_kept(host);
  expect_kept<any_device>(apart);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
