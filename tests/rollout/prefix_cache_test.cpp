#include "rlcore/rollout/prefix_cache.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/nn/model/input.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using rollout::page_content;
using rollout::prefix_cache;

std::vector<std::int32_t> page_of(std::uint32_t seed) {
  std::vector<std::int32_t> tokens;
  for (std::uint32_t t = 0; t < static_cast<std::uint32_t>(kv_page); ++t)
    tokens.push_back(static_cast<std::int32_t>(random_key{seed}.below(100, t)));
  return tokens;
}

/// 7 pages in 8 chains, over and over: most contents meet others of their chain.
TEST(prefix_cache, a_page_is_found_by_its_whole_content_and_by_nothing_else) {
  prefix_cache cache;
  cache.reset(7);
  for (std::uint32_t round = 0; round < 300; ++round) {
    std::vector<std::vector<std::int32_t>> tokens;
    for (std::uint32_t p = 0; p < 7; ++p) tokens.push_back(page_of(round * 7 + p));
    for (std::int32_t p = 0; p < 7; ++p) {
      cache.forget(p);
      cache.insert(p, {0, round, tokens[static_cast<std::size_t>(p)]}, nullptr);
    }
    for (std::int32_t p = 0; p < 7; ++p) {
      std::vector<std::int32_t>& page = tokens[static_cast<std::size_t>(p)];
      EXPECT_EQ(cache.find({0, round, page}), p);
      EXPECT_EQ(cache.find({0, round + 1, page}), -1);            // another salt
      EXPECT_EQ(cache.find({cache.number(p), round, page}), -1);  // the same tokens, one page later
      const std::size_t one = round % page.size();
      ++page[one];
      EXPECT_EQ(cache.find({0, round, page}), -1);
      --page[one];
    }
    cache.forget(static_cast<std::int32_t>(round % 7));
    for (std::int32_t p = 0; p < 7; ++p)
      EXPECT_EQ(cache.find({0, round, tokens[static_cast<std::size_t>(p)]}),
                p == static_cast<std::int32_t>(round % 7) ? -1 : p);
    if (HasFailure()) return;
  }
  cache.clear();
  EXPECT_EQ(cache.find({0, 299, page_of(299 * 7 + 1)}), -1);
}

TEST(prefix_cache, what_followed_a_page_that_is_gone_is_not_found_behind_its_successor) {
  prefix_cache cache;
  cache.reset(4);
  const auto first = page_of(1), second = page_of(2), other = page_of(3);
  cache.insert(0, {0, 0, first}, nullptr);
  const std::uint64_t number = cache.number(0);
  cache.insert(1, {number, 0, second}, nullptr);
  EXPECT_EQ(cache.find({number, 5, second}), 1);  // the first page's salt has decided
  cache.forget(0);
  cache.insert(0, {0, 0, other}, nullptr);
  EXPECT_NE(cache.number(0), number);
  EXPECT_EQ(cache.find({cache.number(0), 0, second}), -1);
  cache.forget(0);
  cache.insert(0, {0, 0, first}, nullptr);  // the same again, in other hands
  EXPECT_EQ(cache.find({cache.number(0), 0, second}), -1);
}

/// A page that two sequences share is told about twice if the page before it was given out in between.
TEST(prefix_cache, a_page_that_is_known_may_get_another_content) {
  prefix_cache cache;
  cache.reset(7);
  std::vector<page_content> has(7);
  std::vector<std::vector<std::int32_t>> tokens;
  for (std::uint32_t t = 0; t < 40; ++t) tokens.push_back(page_of(t));
  for (std::uint32_t n = 0; n < 2000; ++n) {
    const auto page = random_key{8}.below(7, n);
    const page_content content{1 + n, 0, tokens[random_key{9}.below(40, n)]};
    cache.insert(static_cast<std::int32_t>(page), content, nullptr);
    const page_content before = std::exchange(has[page], content);
    if (!before.tokens.empty()) {
      ASSERT_EQ(cache.find(before), -1) << n;
    }
    if (n % 3 == 0) cache.forget(static_cast<std::int32_t>(page)), has[page] = {};
    for (std::int32_t p = 0; p < 7; ++p) {
      const page_content& c = has[static_cast<std::size_t>(p)];
      if (!c.tokens.empty()) {
        ASSERT_EQ(cache.find(c), p) << n;
      }
    }
  }
}

TEST(prefix_cache, floats_of_images_decide) {
  prefix_cache cache;
  cache.reset(3);
  const auto tokens = page_of(1);
  const std::vector<float> a(8, 1.0f), same(8, 1.0f), b(8, 2.0f);
  const auto shown = [](const std::vector<float>& floats, nn::patch_grid grid = {2, 4}) {
    return std::vector<nn::image_patches>{{grid, floats}};
  };
  const auto first = shown(a), again = shown(same), other = shown(b), turned = shown(a, {4, 2});
  cache.insert(2, {0, 0, tokens, first}, nullptr);
  EXPECT_EQ(cache.find({0, 0, tokens, again}), 2);
  EXPECT_EQ(cache.find({0, 0, tokens, other}), -1);
  EXPECT_EQ(cache.find({0, 0, tokens, turned}), -1);
  EXPECT_EQ(cache.find({0, 0, tokens}), -1);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
