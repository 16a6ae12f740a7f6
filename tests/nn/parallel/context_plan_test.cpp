// Every row belongs to one rank, runs of a ring end where tiles of keys do, and the work is shared.
#include "rlcore/nn/parallel/context_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using nn::context_piece;
using nn::context_plan;
using parallel::context_kind;

const std::vector<std::vector<extent_t>> batches = {{5, 23, 300, 40, 17},         {257},     {3}, {0, 130, 0, 129, 131},
                                                    {1, 700, 64, 65, 128, 2, 90}, {1, 1, 1}, {}};

TEST(context_plan, every_row_belongs_to_one_rank) {
  for (const auto how : {context_kind::gather_kv, context_kind::ring, context_kind::ulysses})
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const auto& lengths : batches) {
        const context_plan plan(how, ranks, lengths, 100, 64);
        std::vector<std::vector<int>> owners;
        for (const extent_t n : lengths) owners.emplace_back(static_cast<std::size_t>(n), 0);
        for (int k = 0; k < ranks; ++k) {
          extent_t next = 0;
          for (const context_piece& p : plan.pieces(k)) {
            EXPECT_EQ(p.rank, k);
            EXPECT_EQ(p.at, next);
            next += p.rows;
            for (extent_t t = p.first; t < p.first + p.rows; ++t) {
              ++owners[p.sequence][static_cast<std::size_t>(t)];
              EXPECT_EQ(plan.at(p.sequence, t).rank, k);
            }
            EXPECT_TRUE(plan.shared(p.sequence) || p.rows == lengths[p.sequence]);
            EXPECT_TRUE(how != context_kind::ring || p.first % 64 == 0);
          }
          EXPECT_EQ(plan.rows(k), next);
        }
        for (const auto& sequence : owners)
          EXPECT_TRUE(std::all_of(sequence.begin(), sequence.end(), [](int n) { return n == 1; }));
      }
}

/// Six ranks of which pairs exchange heads: the rows of a ring of three, each run cut into two.
TEST(context_plan, groups_that_exchange_heads_have_the_rows_of_a_ring) {
  for (const auto& lengths : batches) {
    const context_plan plan(context_kind::ulysses, 6, lengths, 100, 64, 2),
        ring(context_kind::ring, 3, lengths, 100, 64);
    EXPECT_EQ(plan.head_ranks(), 2);
    for (int group = 0; group < 3; ++group) {
      std::vector<extent_t> rows, wanted;  // sequence and position of each row, in their order
      const auto list = [](std::span<const context_piece> pieces, std::vector<extent_t>& out) {
        for (const context_piece& p : pieces)
          for (extent_t t = p.first; t < p.first + p.rows; ++t)
            out.push_back(static_cast<extent_t>(p.sequence) * 10000 + t);
      };
      list(plan.pieces(2 * group), rows), list(plan.pieces(2 * group + 1), rows);
      list(ring.pieces(group), wanted);
      EXPECT_EQ(rows, wanted);
      EXPECT_EQ(plan.rows(2 * group), ring.rows(group) / 2);
    }
    EXPECT_EQ(context_plan(context_kind::ulysses, 4, lengths, 100, 0, 2).groups().kind(), context_kind::gather_kv);
    EXPECT_EQ(context_plan(context_kind::ulysses, 4, lengths, 100, 64).head_ranks(), 4);
  }
}

TEST(context_plan, a_ring_cuts_a_sequence_into_one_run_for_each_rank_in_their_order) {
  const std::vector<extent_t> lengths = {1000};
  const context_plan plan(context_kind::ring, 4, lengths, 100, 64);  // 16 tiles
  for (int k = 0; k < 4; ++k) {
    ASSERT_EQ(plan.pieces(k).size(), 1u);
    EXPECT_EQ(plan.pieces(k)[0].first, 256 * k);
    EXPECT_EQ(plan.pieces(k)[0].rows, k < 3 ? 256 : 232);
  }
}

TEST(context_plan, a_long_sequence_gives_every_rank_the_same_share_of_its_triangle) {
  const std::vector<extent_t> lengths = {4096};
  const context_plan plan(context_kind::gather_kv, 4, lengths, 100, 64);
  for (int k = 0; k < 4; ++k) {
    ASSERT_EQ(plan.pieces(k).size(), 2u);
    extent_t products = 0;
    for (const context_piece& p : plan.pieces(k)) products += p.rows * p.first + p.rows * (p.rows + 1) / 2;
    EXPECT_EQ(products, extent_t{4096} * 4097 / 2 / 4);
  }
}

TEST(context_plan, short_sequences_stay_whole) {
  const std::vector<extent_t> lengths(16, 100);
  for (const auto how : {context_kind::gather_kv, context_kind::ring}) {
    const context_plan plan(how, 4, lengths, 100, 64);
    for (int k = 0; k < 4; ++k) EXPECT_EQ(plan.rows(k), 400);
    for (std::size_t s = 0; s < 16; ++s) EXPECT_FALSE(plan.shared(s));
  }
}

/// Three sequences of one length on two ranks: one of them is cut.
TEST(context_plan, the_longest_are_cut_until_ranks_have_as_much_to_do) {
  const std::vector<extent_t> lengths = {512, 512, 512};
  const context_plan plan(context_kind::gather_kv, 2, lengths, 100, 64);
  EXPECT_EQ(plan.rows(0), 768);
  EXPECT_EQ(plan.rows(1), 768);
  EXPECT_EQ(plan.shared(0) + plan.shared(1) + plan.shared(2), 1);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
