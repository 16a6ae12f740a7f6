// Groups of a mesh, and reports that do not show how many ranks made them.
#include "rlcore/parallel/world.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/loop/report.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/simd/exact_sum.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::parallel;

std::vector<int> members(any_communicator& c, int self) {
  std::vector<int> all(static_cast<std::size_t>(c.size()));
  c.all_gather(std::span<const int>(&self, 1), std::span<int>(all));
  return all;
}

TEST(world, groups_of_twelve_ranks) {
  run_ranks(12, [](thread_rank& rank) {
    any_communicator_of<thread_rank&> all(rank);
    parallel_settings s;  // 3 data x 2 context x 2 tensor, two ranks share a copy, three share experts
    s.context = 2, s.tensor = 2, s.expert = 3, s.shard_ranks = 2;
    world w(all, s);
    const int r = rank.rank(), tensor = r % 2, context = r / 2 % 2, data = r / 4, sum = r / 2;
    const auto at = [&](int d, int c) { return (d * 2 + c) * 2 + tensor; };
    using ranks = std::vector<int>;
    EXPECT_EQ(members(w.data(), r), (ranks{at(0, context), at(1, context), at(2, context)}));
    EXPECT_EQ(members(w.context(), r), (ranks{at(data, 0), at(data, 1)}));
    EXPECT_EQ(members(w.tensor(), r), (ranks{r - tensor, r - tensor + 1}));
    EXPECT_EQ(members(w.sums(), r), (ranks{tensor, 2 + tensor, 4 + tensor, 6 + tensor, 8 + tensor, 10 + tensor}));
    EXPECT_EQ(members(w.shards(), r), (ranks{at(data, 0), at(data, 1)}));
    EXPECT_EQ(members(w.replicas(), r), (ranks{at(0, context), at(1, context), at(2, context)}));
    EXPECT_EQ(members(w.expert(), r),
              (ranks{sum / 3 * 6 + tensor, sum / 3 * 6 + 2 + tensor, sum / 3 * 6 + 4 + tensor}));
    EXPECT_EQ(members(w.experts(), r), (ranks{sum % 3 * 2 + tensor, sum % 3 * 2 + 6 + tensor}));
    EXPECT_EQ(w.first(), r == 0);
  });
}

TEST(world, groups_of_stages) {
  run_ranks(16, [](thread_rank& rank) {
    any_communicator_of<thread_rank&> all(rank);
    parallel_settings s;  // 2 stages x 2 data x 2 context x 2 tensor
    s.pipeline.stages = 2, s.context = 2, s.tensor = 2, s.expert = 2, s.zero = 1;
    world w(all, s);
    const int r = rank.rank(), stage = r / 8 * 8, tensor = r % 2, place = r % 8;
    using ranks = std::vector<int>;
    EXPECT_EQ(w.place().stage, r / 8);
    EXPECT_EQ(w.place().place_in_stage(), place);
    EXPECT_EQ(members(w.pipeline(), r), (ranks{place, 8 + place}));
    EXPECT_EQ(members(w.forwards(), r), (ranks{place, 8 + place}));
    EXPECT_EQ(members(w.backwards(), r), (ranks{place, 8 + place}));
    EXPECT_EQ(members(w.data(), r), (ranks{stage + place % 4, stage + 4 + place % 4}));
    EXPECT_EQ(members(w.sums(), r),
              (ranks{stage + tensor, stage + 2 + tensor, stage + 4 + tensor, stage + 6 + tensor}));
    EXPECT_EQ(members(w.shards(), r), members(w.sums(), r));
    EXPECT_EQ(members(w.tensor(), r), (ranks{r - tensor, r - tensor + 1}));
    EXPECT_EQ(w.expert().size(), 2);
    std::vector<float> of_last{static_cast<float>(r)};
    broadcast_from_last_stage(w, std::span(of_last));
    EXPECT_EQ(of_last[0], static_cast<float>(8 + place));
  });
}

struct report {
  exact_sum loss;
  std::int64_t tokens = 0;
  report& operator+=(const report& other) {
    loss += other.loss, tokens += other.tokens;
    return *this;
  }
};

TEST(world, reports_have_the_same_bits_from_any_number_of_ranks) {
  const auto total = [](int ranks) {
    double loss = 0;
    run_ranks(ranks, [&](thread_rank& rank) {
      any_communicator_of<thread_rank&> all(rank);
      world w(all, {});
      report mine;
      for (int i = rank.rank(); i < 100; i += ranks) mine.loss.add(1.0 / (i + 1)), ++mine.tokens;
      sum_over_ranks(w, mine);
      EXPECT_EQ(mine.tokens, 100);
      if (w.first()) loss = mine.loss.value();
    });
    return loss;
  };
  const double one = total(1);
  EXPECT_NEAR(one, 5.187377517639621, 1e-15);  // the hundredth harmonic number
  for (const int ranks : {2, 3, 7}) EXPECT_EQ(total(ranks), one);
}

// The texts of a rank end with it, as those of another process cannot be read: after the sum all names are its own.
TEST(world, names_in_a_report_stay_those_of_the_rank) {
  run_ranks(3, [](thread_rank& rank) {
    any_communicator_of<thread_rank&> all(rank);
    world w(all, {});
    const std::string piece = "kl of rank " + std::to_string(rank.rank()), monitor = "share";
    rlcore::report<1, 1> mine;
    mine.piece[0].name = piece, mine.piece[0].coefficient = 2, mine.piece[0].aggregated.add(1.5);
    mine.monitor[0].piece = piece, mine.monitor[0].name = monitor;
    likelihood_regularised_report<rlcore::report<1, 1>, rlcore::report<1, 1>> both{mine, mine};
    sum_over_ranks(w, mine);
    EXPECT_EQ(mine.loss(), 9);
    EXPECT_EQ(mine.piece[0].name.data(), piece.data());
    EXPECT_EQ(mine.monitor[0].piece.data(), piece.data());
    EXPECT_EQ(mine.monitor[0].name.data(), monitor.data());
    sum_over_ranks(w, both);
    EXPECT_EQ(both.loss(), 18);
    EXPECT_EQ(both.pair.piece[0].name.data(), piece.data());
    EXPECT_EQ(both.likelihood.monitor[0].name.data(), monitor.data());
    all.barrier();
  });
}

TEST(world, stages_meet_after_many_deadlines) {
  using namespace std::chrono_literals;
  const auto late = [](bool meet) {
    run_ranks(
        2,
        [meet](thread_rank& c) {
          if (c.rank() == 1) std::this_thread::sleep_for(600ms);
          if (meet) meet_stages(c);
          int x = c.rank();
          c.broadcast(std::span<int>(&x, 1), 1);
          EXPECT_EQ(x, 1);
        },
        200ms);
  };
  EXPECT_NO_THROW(late(true));
  EXPECT_THROW(late(false), communication_error);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
