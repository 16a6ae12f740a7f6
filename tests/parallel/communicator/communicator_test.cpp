#include "rlcore/parallel/communicator/communicator.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "rlcore/core/dtype.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "support/communicator_checks.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::parallel;
using std::size_t;

static_assert(communicator<alone> && communicator<thread_rank> && !communicator<int>);
static_assert(std::is_empty_v<alone> && alone::size() == 1);
static_assert(wire<float> && wire<rlcore::bf16> && !wire<std::vector<int>> && !wire<int*>);

using communicator_checks::check_collectives;
using communicator_checks::check_messages;
using communicator_checks::check_shifts;
using communicator_checks::check_splits;
using communicator_checks::check_uneven_collectives;
using communicator_checks::read;

TEST(alone, is_a_group_of_one) {
  alone c;
  check_collectives(c);
  check_uneven_collectives(c);
  check_shifts(c);
  check_splits(c);
}

class group_sizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ranks, group_sizes, testing::Values(1, 2, 3, 4, 7));

TEST_P(group_sizes, move_the_right_bytes) {
  run_ranks(GetParam(), [&](thread_rank& c) {
    EXPECT_EQ(c.size(), GetParam());
    check_collectives(c);
    check_uneven_collectives(c);
    check_shifts(c);
    check_splits(c);
  });
}

TEST_P(group_sizes, carry_messages_between_two_ranks) {
  run_ranks(GetParam(), [&](thread_rank& c) {
    check_messages(c);
    any_communicator_of<thread_rank&> counted(c);
    check_messages(counted);
    const traffic::line sent = counted.counters().of(collective::send);
    EXPECT_EQ(sent.calls, static_cast<std::uint64_t>(40 * (c.size() - 1)));
    EXPECT_EQ(counted.counters().of(collective::receive).calls, sent.calls);
    EXPECT_EQ(counted.counters().of(collective::receive).bytes, 0u);
  });
}

TEST(messages, do_not_block_the_sender) {
  run_ranks(2, [](thread_rank& c) {
    std::vector<float> x(1000, 1.5F);
    for (size_t k = 0; k < most_messages && c.rank() == 0; ++k) c.send(read(x), 1);
    c.barrier();  // rank 1 has received nothing yet
    for (size_t k = 0; k < most_messages && c.rank() == 1; ++k) c.receive(std::span(x), 0);
    EXPECT_EQ(x[999], 1.5F);
  });
}

TEST_P(group_sizes, carry_any_wire_type) {
  struct pair {
    std::uint8_t a;
    double b;
  };
  run_ranks(GetParam(), [&](thread_rank& c) {
    const std::vector<pair> mine{{static_cast<std::uint8_t>(c.rank()), 0.5 * c.rank()}};
    std::vector<pair> all(static_cast<size_t>(c.size()));
    c.all_gather(read(mine), std::span(all));
    const std::vector<rlcore::bf16> small{rlcore::bf16(static_cast<float>(c.rank()))};
    std::vector<rlcore::bf16> halves(all.size());
    c.all_gather(read(small), std::span(halves));
    for (size_t r = 0; r < all.size(); ++r) {
      EXPECT_EQ(all[r].a, r);
      EXPECT_EQ(all[r].b, 0.5 * static_cast<double>(r));
      EXPECT_EQ(static_cast<float>(halves[r]), static_cast<float>(r));
    }
  });
}

TEST_P(group_sizes, keep_step_over_many_calls) {
  run_ranks(GetParam(), [&](thread_rank& c) {
    for (int k = 0; k < 300; ++k) {
      std::vector<int> x{c.rank() == k % c.size() ? k : -1};
      c.broadcast(std::span(x), k % c.size());
      ASSERT_EQ(x[0], k);
      if (k % 3 == c.rank() % 3) std::this_thread::yield();
    }
  });
}

TEST(collectives, refuse_sizes_that_do_not_fit) {
  alone c;
  std::vector<float> three(3), two(2);
  const std::vector<size_t> counts{3}, too_many{3, 3};
  EXPECT_THROW(c.all_gather(read(three), std::span(two)), std::invalid_argument);
  EXPECT_THROW(c.all_to_all(read(three), std::span(two)), std::invalid_argument);
  EXPECT_THROW(c.all_gather_v(read(three), std::span(three), read(too_many)), std::invalid_argument);
  EXPECT_THROW(c.all_to_all_v(read(two), read(counts), std::span(three), read(counts)), std::invalid_argument);
  EXPECT_THROW(c.broadcast(std::span(two), 1), std::invalid_argument);
  EXPECT_THROW(c.shift(read(three), std::span(two), 1), std::invalid_argument);
  EXPECT_THROW(run_ranks(2, [&](thread_rank& t) { t.all_gather(read(three), std::span(two)); }), std::invalid_argument);
  EXPECT_THROW(run_ranks(2, [&](thread_rank& t) { t.broadcast(std::span(two), 2); }), std::invalid_argument);
  EXPECT_THROW(run_ranks(0, [](thread_rank&) {}), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
