// Every collective of every group, run as an MPI job: collectives [message bytes] [compare].
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/dtype.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"
#include "support/communicator_checks.hpp"

namespace {

using namespace rlcore::parallel;
using communicator_checks::read;

any_communicator* world = nullptr;
bool in_pieces = false;  // messages are sent in tiny pieces

TEST(mpi, moves_the_right_bytes) {
  EXPECT_STREQ(world->engine(), ranks_of_environment() == 1 ? "alone" : "mpi");
  EXPECT_EQ(world->size(), ranks_of_environment());
  EXPECT_EQ(world->rank(), rank_of_environment());
  communicator_checks::check_collectives(*world);
  communicator_checks::check_uneven_collectives(*world);
  communicator_checks::check_shifts(*world);
}

TEST(mpi, messages_between_two_ranks) {
  communicator_checks::check_messages(*world);
  if (world->size() == 1) return;
  EXPECT_GT(world->counters().of(collective::send).bytes, 0u);
  // More than a rank may have under way: the sender waits for the receiver.
  const int next = (world->rank() + 1) % world->size(), before = (world->rank() + world->size() - 1) % world->size();
  std::vector<double> block(in_pieces ? 20 : 100'000, world->rank());
  if (world->rank() == 0)
    for (std::size_t k = 0; k < 2 * most_messages; ++k) world->send(read(block), next);
  if (before == 0)
    for (std::size_t k = 0; k < 2 * most_messages; ++k) world->receive(std::span(block), before);
  EXPECT_EQ(block.back(), before == 0 ? 0 : world->rank());
  world->barrier();
}

TEST(mpi, splits) { communicator_checks::check_splits(*world); }

TEST(mpi, splits_by_any_color) {
  const auto group = world->split(world->rank() % 2 == 0 ? -1 : 0, 0);
  EXPECT_EQ(group->size(), (world->size() + (world->rank() % 2 == 0 ? 1 : 0)) / 2);
}

TEST(mpi, carries_any_wire_type) {
  struct triple {
    std::uint8_t a;
    double b;
    std::int16_t c;
  };
  const std::vector<triple> mine(3, {static_cast<std::uint8_t>(world->rank()), 0.5 * world->rank(), 7});
  std::vector<triple> all(3 * static_cast<std::size_t>(world->size()));
  world->all_gather(read(mine), std::span(all));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].a, i / 3);
    EXPECT_EQ(all[i].b, 0.5 * static_cast<double>(i / 3));
  }
}

/// The same reductions in this job and in threads: the same bits.
template <class C>
void reduce(C& c, std::vector<float>& result) {
  std::vector<float> x(1001);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = 1.0F / static_cast<float>(i + 1 + 3 * static_cast<std::size_t>(c.rank()));
  auto y = x;
  all_reduce_sum(tree{}, c, std::span(x));
  all_reduce_sum(ranked{}, c, std::span(y));
  if (c.rank() != 0) return;
  result = x;
  result.insert(result.end(), y.begin(), y.end());
}
TEST(mpi, sums_have_the_bits_of_ranks_as_threads) {
  std::vector<float> processes, threads;
  reduce(*world, processes);
  if (world->rank() != 0) return;
  run_ranks(world->size(), [&](thread_rank& c) { reduce(c, threads); });
  EXPECT_EQ(processes, threads);
}

TEST(mpi, refuses_sizes_that_do_not_fit) {
  std::vector<float> three(3), two(2);
  EXPECT_THROW(world->shift(read(three), std::span(two), 1), std::invalid_argument);
  EXPECT_THROW(world->broadcast(std::span(two), world->size()), std::invalid_argument);
  world->barrier();  // nothing has happened
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  launch_settings s;
  s.deadline = std::chrono::seconds(40);
  if (argc > 1) s.message_bytes = std::stoul(argv[1]);
  in_pieces = s.message_bytes < 1000;
  s.fingerprint = argc > 2;
  try {
    launch(s, [](any_communicator& c) {
      world = &c;
      if (c.rank() != 0) {
        testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
        delete listeners.Release(listeners.default_result_printer());
      }
      std::vector<int> failed{RUN_ALL_TESTS()}, all(static_cast<std::size_t>(c.size()));
      c.all_gather(read(failed), std::span(all));
      for (std::size_t r = 0; r < all.size(); ++r)
        if (all[r] != 0) throw rlcore::error("tests failed in rank " + std::to_string(r));
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "collectives: %s\n", e.what());
    return 1;
  }
}
