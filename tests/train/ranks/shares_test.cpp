// Parts of rows, and trajectories that travel between ranks.
#include "rlcore/train/model/scored_groups.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/train/policy/collect.hpp"
#include "rlcore/train/policy/trajectory/trajectory_bytes.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;

TEST(shares, parts_are_neighbours_and_cover_every_row_once) {
  const std::vector<std::vector<std::int64_t>> costs{
      {}, {5}, {1, 1, 1, 1, 1, 1, 1}, {100, 1, 1, 1}, {1, 1, 1, 100}, {0, 0, 0}, {0, 7, 0, 7, 0}};
  for (const auto& cost : costs)
    for (std::size_t parts = 1; parts <= 9; ++parts) {
      std::size_t at = 0;
      for (std::size_t part = 0; part < parts; ++part) {
        const row_range range = share_by_cost(cost, parts, part);
        if (range.size() > 0) {
          EXPECT_EQ(range.first, at);
          at = range.last;
        }
      }
      EXPECT_EQ(at, cost.size());
    }
}

TEST(shares, parts_cost_the_same_within_one_row) {
  std::vector<std::int64_t> cost;
  for (std::int64_t i = 0; i < 200; ++i) cost.push_back(1 + i * 37 % 101);
  std::int64_t all = 0, largest = 0;
  for (const std::int64_t c : cost) all += c, largest = std::max(largest, c);
  for (std::size_t parts : {2u, 3u, 7u})
    for (std::size_t part = 0; part < parts; ++part) {
      const row_range range = share_by_cost(cost, parts, part);
      std::int64_t own = 0;
      for (std::size_t i = range.first; i < range.last; ++i) own += cost[i];
      EXPECT_LE(std::abs(own * static_cast<std::int64_t>(parts) - all), largest * static_cast<std::int64_t>(parts));
    }
}

TEST(shares, groups_stay_whole_while_there_are_enough) {
  EXPECT_EQ(share_of_responses(5, 4, 2, 0).size(), 8u);
  EXPECT_EQ(share_of_responses(5, 4, 2, 1).first, 8u);
  EXPECT_EQ(share_of_responses(2, 4, 3, 1).size() + share_of_responses(2, 4, 3, 0).size() +
                share_of_responses(2, 4, 3, 2).size(),
            8u);
}

trajectory example(int i) {
  trajectory t;
  t.tokens.assign(static_cast<std::size_t>(5 + i), i);
  t.prompt_length = 3, t.row = static_cast<std::uint32_t>(i), t.sample = 7, t.sampled_step = 9;
  t.old_logp.assign(static_cast<std::size_t>(2 + i), -0.5f * static_cast<float>(i));
  for (int k = 0; k < 2 + i; ++k) t.sampling_mask.push_back(std::vector<std::int32_t>(static_cast<std::size_t>(k), i));
  t.reason = rollout::finish::eos;
  t.verdict = {0.25, verify::reason::correct, true, "4" + std::string(static_cast<std::size_t>(i), '2')};
  if (i % 2 == 0) t.accuracy = 0.75;
  t.length_penalty = -0.125, t.reward = 0.5f, t.greedy_score = 2;
  return t;
}

TEST(trajectory_bytes, everything_arrives) {
  std::vector<trajectory> rows;
  for (int i = 0; i < 4; ++i) rows.push_back(example(i));
  const std::vector<trajectory> there = trajectories_of(to_bytes(rows));
  ASSERT_EQ(there.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(there[i].tokens, rows[i].tokens);
    EXPECT_EQ(there[i].verdict.pred, rows[i].verdict.pred);
    EXPECT_EQ(there[i].verdict.acc, rows[i].verdict.acc);
    EXPECT_EQ(there[i].accuracy, rows[i].accuracy);
    EXPECT_EQ(there[i].reason, rows[i].reason);
    EXPECT_EQ(there[i].sampling_mask.values, rows[i].sampling_mask.values);
    EXPECT_EQ(there[i].sampling_mask.offsets, rows[i].sampling_mask.offsets);
    EXPECT_TRUE(to_bytes(std::span(&there[i], 1)) == to_bytes(std::span(&rows[i], 1)));
  }
  std::vector<std::byte> cut = to_bytes(rows);
  cut.pop_back();
  EXPECT_THROW(trajectories_of(cut), std::logic_error);
}

/// Every rank ends with what one rank alone would have, also where some have nothing to do.
TEST(trajectory_bytes, ranks_compute_their_rows_and_have_all) {
  for (const int ranks : {1, 2, 3, 8})
    parallel::run_ranks(ranks, [&](parallel::thread_rank& c) {
      parallel::any_communicator_of<parallel::thread_rank&> all(c);
      const row_range own = even_share(5, static_cast<std::size_t>(ranks), static_cast<std::size_t>(c.rank()));
      std::vector<trajectory> mine;
      for (std::size_t i = own.first; i < own.last; ++i) mine.push_back(example(static_cast<int>(i)));
      std::vector<trajectory> rows = gather_trajectories(all, std::move(mine));
      ASSERT_EQ(rows.size(), 5u);
      std::size_t computed = 0;
      constexpr std::array fields{&trajectory::ref_logp, &trajectory::entropy};
      compute_own_rows(all, rows, std::span(fields), [&](std::span<trajectory> part) {
        computed = part.size();
        for (trajectory& t : part) {
          t.ref_logp.assign(t.old_logp.size(), 1.0f + static_cast<float>(t.row));
          t.entropy.assign(t.old_logp.size(), 2.0f);
        }
      });
      EXPECT_LE(computed, 5u);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i].ref_logp, std::vector<float>(rows[i].old_logp.size(), 1.0f + static_cast<float>(i)));
        EXPECT_EQ(rows[i].entropy.size(), rows[i].old_logp.size());
      }
    });
}

}  // namespace
}  // namespace RLCORE_TEST_ID
