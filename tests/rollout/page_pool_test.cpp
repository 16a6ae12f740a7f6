#include "rlcore/rollout/page_pool.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

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

TEST(page_pool, what_nobody_uses_can_be_neither_shared_nor_released) {
  page_pool pool(2);
  EXPECT_THROW(pool.share(0), std::invalid_argument);
  EXPECT_THROW(pool.release(0), std::invalid_argument);
  EXPECT_THROW(pool.share(2), std::invalid_argument);
  EXPECT_THROW(pool.release(-1), std::invalid_argument);
  EXPECT_THROW(page_pool(-1), std::invalid_argument);
}

}  // namespace
