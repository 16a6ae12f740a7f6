// Rules on logits are checked in linear time, and limited where each costs time with every token.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "rlcore/rollout/logit_rules.hpp"
#include "support/growth.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::rollout::logit_rules;

TEST(linear_time, bad_words_and_allowed_tokens) {
  const auto rules = [](std::size_t n) {
    logit_rules r;
    r.allowed_token_ids.resize(10 * n);
    std::iota(r.allowed_token_ids.begin(), r.allowed_token_ids.end(), 0);
    r.bad_words.assign(n, std::vector<std::int32_t>(10, static_cast<std::int32_t>(10 * n - 1)));
    return r;
  };
  EXPECT_LE(growth_of_time(500, rules, [](const logit_rules& r) { r.validate(1 << 20, 1); }), linear_growth);
}

TEST(linear_time, bad_words_of_too_many_tokens_are_refused) {
  logit_rules r;
  r.bad_words = {std::vector<std::int32_t>(1 << 15, 1), std::vector<std::int32_t>(1 << 15, 2)};
  r.validate(10, 1);
  r.bad_words.push_back({3});
  EXPECT_EQ(thrown_by([&] { r.validate(10, 1); }), "bad_words: 65537 tokens together; expected at most 65536");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
