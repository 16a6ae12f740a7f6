// Ranks whose threads stay: many calls, and a call that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::communication_error;
using rlcore::parallel::standing_ranks;
using testing::HasSubstr;
using namespace std::chrono_literals;

int sum_of_ranks(standing_ranks& ranks, int rank) {
  const auto size = static_cast<std::size_t>(ranks.size());
  std::vector<int> all(size);
  ranks[rank].all_gather(std::span<const int>(&rank, 1), std::span(all));
  return std::accumulate(all.begin(), all.end(), 0);
}

TEST(standing_ranks, are_the_same_threads_in_every_call) {
  for (const int size : {1, 2, 5}) {
    standing_ranks ranks(size, 20s);
    std::vector<std::set<std::thread::id>> threads(static_cast<std::size_t>(size));
    for (int call = 0; call < 200; ++call)
      ranks.run([&](int rank) {
        threads[static_cast<std::size_t>(rank)].insert(std::this_thread::get_id());
        EXPECT_EQ(sum_of_ranks(ranks, rank), size * (size - 1) / 2);
      });
    std::set<std::thread::id> all;
    for (const auto& of_rank : threads) {
      EXPECT_EQ(of_rank.size(), 1u);
      all.insert(of_rank.begin(), of_rank.end());
    }
    EXPECT_EQ(all.size(), static_cast<std::size_t>(size));
    EXPECT_TRUE(threads[0].contains(std::this_thread::get_id()));
  }
  EXPECT_THROW(standing_ranks(0), std::invalid_argument);
}

TEST(standing_ranks, tell_what_the_first_to_fail_threw_and_work_on) {
  standing_ranks ranks(3, 20s);
  for (int bad = 0; bad < 3; ++bad) {
    std::array<bool, 3> broken{};
    try {
      ranks.run([&](int rank) {
        sum_of_ranks(ranks, rank);
        if (rank == bad) throw std::runtime_error("no memory");
        try {
          sum_of_ranks(ranks, rank);
        } catch (const communication_error& e) {
          EXPECT_THAT(e.what(), HasSubstr("rank " + std::to_string(bad) + " failed: no memory"));
          broken[static_cast<std::size_t>(rank)] = true;
          throw;
        }
      });
      ADD_FAILURE() << "no exception";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "no memory");
    }
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(broken[static_cast<std::size_t>(rank)], rank != bad) << rank;
    ranks.run([&](int rank) { EXPECT_EQ(sum_of_ranks(ranks, rank), 3); });
  }
}

/// The message of the communication_error that a call ends with.
std::string message(standing_ranks& ranks, const std::function<void(int)>& f) {
  try {
    ranks.run(f);
  } catch (const communication_error& e) {
    return e.what();
  }
  return "no exception";
}

TEST(standing_ranks, do_not_wait_for_one_that_has_returned) {
  standing_ranks ranks(2, 20s);
  EXPECT_THAT(message(ranks,
                      [&](int rank) {
                        if (rank == 0) sum_of_ranks(ranks, rank);
                      }),
              HasSubstr("rank 1"));
}

TEST(standing_ranks, wait_no_longer_than_the_deadline) {
  standing_ranks ranks(2, 200ms);
  std::atomic<bool> given_up{false};
  EXPECT_THAT(message(ranks,
                      [&](int rank) {
                        while (rank == 1 && !given_up) std::this_thread::sleep_for(1ms);
                        try {
                          sum_of_ranks(ranks, rank);
                        } catch (const communication_error&) {
                          given_up = true;
                          throw;
                        }
                      }),
              HasSubstr("in vain for rank 1"));
}

TEST(standing_ranks, end_the_process_where_one_does_not_end) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        standing_ranks ranks(2, 500ms);
        ranks.run([&](int rank) {
          while (rank == 1) std::this_thread::sleep_for(1s);
          sum_of_ranks(ranks, rank);
        });
      },
      testing::ExitedWithCode(75), "rank 1 does not end: rank 0 in collective 1, all_gather .* waited 500 ms in vain");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
