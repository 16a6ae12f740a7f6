#include "rlcore/rollout/prefix_cache.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using rlcore::rollout::page_pool;

TEST(page_pool, gives_every_page_once_and_then_none) {
  page_pool pool(5);
  std::set<std::int32_t> pages;
  for (int i = 0; i < 5; ++i) pages.insert(pool.acquire());
  EXPECT_EQ(pages, (std::set<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(pool.acquire(), -1);
  EXPECT_EQ(pool.available(), 0);
  EXPECT_EQ(pool.most_used(), 5);
}

TEST(page_pool, a_page_is_free_when_its_last_user_releases_it) {
  page_pool pool(2);
  const std::int32_t page = pool.acquire();
  pool.share(page);
  pool.share(page);
  EXPECT_EQ(pool.users(page), 3);
  pool.release(page);
  pool.release(page);
  EXPECT_EQ(pool.available(), 1);
  pool.release(page);
  EXPECT_EQ(pool.available(), 2);
  EXPECT_EQ(pool.most_used(), 1);
  EXPECT_EQ(pool.acquire(), page);  // the last one released
}

TEST(page_pool, kept_pages_are_given_out_last_the_one_released_first_before_the_rest) {
  page_pool pool(5);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pool.acquire(), i);
  for (const std::int32_t page : {1, 3, 4}) pool.keep(page);
  for (const std::int32_t page : {3, 1, 0, 4, 2}) pool.release(page);
  EXPECT_EQ(pool.available(), 5);
  EXPECT_TRUE(pool.kept(3));
  pool.share(1);  // found again
  EXPECT_EQ(pool.available(), 4);
  EXPECT_EQ(pool.users(1), 1);
  pool.release(1);
  std::vector<std::int32_t> order;
  for (int i = 0; i < 5; ++i) order.push_back(pool.acquire());
  EXPECT_EQ(order, (std::vector<std::int32_t>{2, 0, 3, 4, 1}));
  EXPECT_FALSE(pool.kept(3));
  EXPECT_EQ(pool.acquire(), -1);
  pool.keep(0);
  pool.release(0), pool.release(3);
  pool.forget_kept();
  EXPECT_EQ(pool.available(), 2);
  EXPECT_THROW(pool.share(0), std::invalid_argument);
  EXPECT_EQ(pool.acquire(), 0);
  EXPECT_EQ(pool.acquire(), 3);
}

TEST(page_pool, what_nobody_uses_can_be_neither_shared_nor_released) {
  page_pool pool(2);
  EXPECT_THROW(pool.share(0), std::invalid_argument);
  EXPECT_THROW(pool.release(0), std::invalid_argument);
  EXPECT_THROW(pool.share(2), std::invalid_argument);
  EXPECT_THROW(pool.release(-1), std::invalid_argument);
  EXPECT_THROW(pool.keep(0), std::invalid_argument);
  EXPECT_THROW(page_pool(-1), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
