// Sums of gradients over ranks: the same bits wherever leaves were computed, and the bytes that the formulas say.
#include "rlcore/parallel/reduction/gradient_sums.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "rlcore/core/random.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::parallel;
using floats = std::vector<float>;

const std::vector<std::size_t> ends{7000, 9000, 9500, 20000};
constexpr std::size_t size = 20000;

/// The gradient of leaf n: a function of n alone.
const floats& leaf(std::size_t n) {
  static const std::vector<floats> all = [] {
    std::vector<floats> made(8, floats(size));
    for (std::size_t k = 0; k < made.size(); ++k) {
      const random_key key = random_key{11}.child(static_cast<std::uint32_t>(k));
      for (std::size_t i = 0; i < size; ++i)
        made[k][i] = static_cast<float>(key.normal(static_cast<std::uint32_t>(i), 0, 0));
    }
    return made;
  }();
  return all.at(n);
}

struct outcome {
  floats sum;           // of all ranks
  std::uint64_t bytes;  // that all ranks sent to others
};

/// Memory that the host must not touch; run_ranks() ranks go through copies then.
struct hidden_cpu : cpu {
  static constexpr bool host_readable = false;
  hidden_cpu() : cpu(1) {}
};
struct plain_cpu : cpu {
  plain_cpu() : cpu(1) {}
};

/// What `ranks` ranks get, put together from their shards; every rank and replica must have the same.
template <class Device = plain_cpu>
outcome add(int ranks, const parallel_settings& s, const std::vector<bool>& present,
            const std::function<floats(std::size_t)>& gradient = leaf) {
  std::vector<floats> shards(static_cast<std::size_t>(ranks));
  std::vector<std::uint64_t> bytes(shards.size());
  outcome result{floats(size, NAN), 0};
  run_ranks(ranks, [&](thread_rank& rank) {
    any_communicator_of<thread_rank&> all(rank);
    world w(all, s);
    Device device;
    gradient_sums<Device> sums(device, w, ends);
    const auto self = static_cast<std::size_t>(w.sums().rank());
    for (int turn = 0; turn < 2; ++turn) {  // memory of the first step is used again
      sums.begin(present);
      buffer<float, Device> own(device, size);
      floats running(size, 0.0f);
      for (std::size_t round = 0; round < sums.schedule().rounds(); ++round) {
        const std::size_t n = sums.schedule().number(self, round);
        if (n == leaf_schedule::none || !sums.schedule().present(n, present)) {
          sums.skip(round);
          continue;
        }
        const floats x = gradient(n);
        if (own.size() == 0) own = buffer<float, Device>(device, size);
        for (std::size_t i = 0; i < size; ++i) running[i] += x[i];
        own.upload(sums.by_leaf() ? x : running);
        if (sums.by_leaf()) sums.take(round, own);
      }
      if (!sums.by_leaf()) sums.take(0, own);
      const auto before = w.shards().counters().total().bytes + w.replicas().counters().total().bytes;
      const float* shard = sums.finish();
      if (turn == 0) bytes[self] = w.shards().counters().total().bytes + w.replicas().counters().total().bytes;
      EXPECT_GE(bytes[self], turn == 0 ? before : 0);
      shards[self].assign(shard, shard + sums.shard_size());
    }
    all.barrier();
    const shard_layout& layout = sums.layout();
    if (self != 0) return;
    for (std::size_t r = 0; r < shards.size(); ++r)
      for (std::size_t u = 0; u < layout.units(); ++u)
        for (std::size_t i = 0; i < layout.part(u, r % layout.ranks()).size(); ++i) {
          float& to = result.sum[layout.part(u, r % layout.ranks()).first + i];
          const float x = shards[r][layout.place(u, r % layout.ranks()) + i];
          if (r >= layout.ranks() && !std::isnan(x)) {
            EXPECT_EQ(to, x);
          }
          to = x;
        }
  });
  for (const std::uint64_t b : bytes) result.bytes += b;
  return result;
}

parallel_settings how(reduction_kind kind, int zero, int leaves = 8, int shards = 0) {
  parallel_settings s;
  s.reduction = kind, s.zero = zero, s.leaves = leaves, s.shard_ranks = shards;
  return s;
}

floats by_tree(const std::vector<bool>& present) {
  reduction_tree<floats> tree(present.size());
  for (std::size_t n = 0; n < present.size(); ++n)
    tree.push_leaf(n, present[n] ? std::optional<floats>(leaf(n)) : std::nullopt, [](floats& a, floats&& b) {
      for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    });
  return tree.root().value_or(floats(size, 0.0f));
}

TEST(gradient_sums, a_tree_has_the_bits_of_its_definition_on_any_ranks_in_any_stage) {
  for (const std::vector<bool>& present :
       {std::vector<bool>(8, true), std::vector<bool>{true, false, false, true, true, false, true, false},
        std::vector<bool>(5, true), std::vector<bool>(3, false)}) {
    const floats expected = by_tree(present);
    for (const int ranks : {1, 2, 3, 4, 5, 8})
      for (int zero = 0; zero < 4; ++zero)
        EXPECT_EQ(add(ranks, how(reduction_kind::tree, zero, static_cast<int>(present.size())), present).sum, expected)
            << ranks << " ranks, zero " << zero;
    for (const int ranks : {4, 6})
      for (int zero = 0; zero < 4; ++zero)
        EXPECT_EQ(add(ranks, how(reduction_kind::tree, zero, static_cast<int>(present.size()), 2), present).sum,
                  expected)
            << ranks << " ranks, two of them share, zero " << zero;
  }
}

/// Ranks with the same experts add up what all ranks of their groups have for them.
template <class Device = plain_cpu>
floats add_in_groups(int ranks, int expert, const parallel_settings& settings, const std::vector<bool>& present) {
  parallel_settings s = settings;
  s.expert = expert;
  floats result(size, NAN);
  run_ranks(ranks, [&](thread_rank& rank) {
    any_communicator_of<thread_rank&> all(rank);
    world w(all, s);
    Device device;
    gradient_sums<Device> sums(device, w, w.place_in_experts(), {ends, w.place().expert_shard_size()});
    std::vector<floats> running(static_cast<std::size_t>(expert), floats(size, 0.0f));
    for (int turn = 0; turn < 2; ++turn) {
      sums.begin(present);
      for (std::size_t round = 0; round < sums.schedule().rounds(); ++round) {
        std::vector<const float*> sources;
        for (std::size_t e = 0; e < running.size(); ++e) {
          const std::size_t from = w.place_in_experts().rank * running.size() + e;
          const std::size_t n = sums.schedule().number(from, round);
          if (n != leaf_schedule::none && sums.schedule().present(n, present)) running[e] = leaf(n);
          sources.push_back(running[e].data());
        }
        sums.copy(round, sources);
      }
      const float* shard = sums.finish();
      for (std::size_t u = 0; u < sums.layout().units(); ++u) {
        const value_range part = sums.layout().part(u, sums.shard_rank());
        if (rank.rank() % expert == 0 && rank.rank() / expert < static_cast<int>(sums.layout().ranks()))
          std::copy_n(shard + sums.layout().place(u, sums.shard_rank()), part.size(),
                      result.begin() + static_cast<std::ptrdiff_t>(part.first));
      }
    }
    all.barrier();
  });
  return result;
}

TEST(gradient_sums, of_several_leaves_a_round) {
  for (const std::vector<bool>& present :
       {std::vector<bool>(8, true), std::vector<bool>{true, false, false, true, true, false, true, false},
        std::vector<bool>(3, true), std::vector<bool>(3, false)}) {
    const floats expected = by_tree(present);
    const int leaves = static_cast<int>(present.size());
    for (int zero = 0; zero < 3; ++zero) {
      for (const auto& [ranks, expert] : {std::pair{2, 2}, {4, 2}, {6, 3}, {6, 2}, {4, 4}})
        EXPECT_EQ(add_in_groups(ranks, expert, how(reduction_kind::tree, zero, leaves), present), expected)
            << ranks << " ranks, groups of " << expert << ", zero " << zero;
      EXPECT_EQ(add_in_groups(8, 2, how(reduction_kind::tree, zero, leaves, 4), present), expected) << zero;
      EXPECT_EQ(add_in_groups<hidden_cpu>(4, 2, how(reduction_kind::tree, zero, leaves), present), expected) << zero;
      EXPECT_EQ(add_in_groups(4, 2, how(reduction_kind::exact, zero, leaves), present),
                add(2, how(reduction_kind::exact, zero, leaves), present).sum)
          << zero;
    }
  }
}

TEST(gradient_sums, go_through_copies_where_the_host_cannot_read) {
  const std::vector<bool> present(8, true);
  for (const reduction_kind kind : {reduction_kind::tree, reduction_kind::exact})
    for (const int ranks : {1, 3, 4})
      for (int zero = 0; zero < 4; ++zero)
        EXPECT_EQ(add<hidden_cpu>(ranks, how(kind, zero), present).sum, add(ranks, how(kind, zero), present).sum);
}

TEST(gradient_sums, exact_has_the_bits_of_integers_on_any_ranks_in_any_stage) {
  const std::vector<bool> present(8, true);
  floats expected(size);
  std::vector<double> exact(size, 0.0);  // 53 bits hold sums of eight multiples of 2^-44 below 2^6
  for (std::size_t n = 0; n < 8; ++n) {
    const floats x = leaf(n);
    for (std::size_t i = 0; i < size; ++i) exact[i] += std::nearbyint(static_cast<double>(x[i]) * 0x1p44) * 0x1p-44;
  }
  for (std::size_t i = 0; i < size; ++i) expected[i] = static_cast<float>(exact[i]);
  for (const int ranks : {1, 2, 3, 7})
    for (int zero = 0; zero < 4; ++zero)
      EXPECT_EQ(add(ranks, how(reduction_kind::exact, zero), present).sum, expected) << ranks << ", zero " << zero;
  EXPECT_EQ(add(6, how(reduction_kind::exact, 1, 8, 3), present).sum, expected);
  EXPECT_EQ(add(6, how(reduction_kind::exact, 3, 8, 2), present).sum, expected);
}

TEST(gradient_sums, exact_does_not_hide_what_it_cannot_hold) {
  for (const int zero : {0, 1, 2}) {
    const floats sum = add(3, how(reduction_kind::exact, zero), std::vector<bool>(8, true), [](std::size_t n) {
                         floats x(size, 1.0f);
                         if (n == 4) x[17] = 1e6f, x[19000] = std::numeric_limits<float>::infinity();
                         return x;
                       }).sum;
    EXPECT_TRUE(std::isnan(sum[17]) && std::isnan(sum[19000]));
    EXPECT_EQ(sum[18], 8.0f);
  }
}

TEST(gradient_sums, ranked_adds_rank_by_rank) {
  floats expected(size, 0.0f);
  for (std::size_t r = 0; r < 3; ++r) {  // eight leaves on three ranks: 0 1, 2 3 4, 5 6 7
    floats own(size, 0.0f);
    for (std::size_t n = r * 8 / 3; n < (r + 1) * 8 / 3; ++n) {
      const floats x = leaf(n);
      for (std::size_t i = 0; i < size; ++i) own[i] += x[i];
    }
    for (std::size_t i = 0; i < size; ++i) expected[i] = r == 0 ? own[i] : expected[i] + own[i];
  }
  for (const reduction_kind kind : {reduction_kind::ranked, reduction_kind::fast})
    for (const int zero : {0, 1}) EXPECT_EQ(add(3, how(kind, zero), std::vector<bool>(8, true)).sum, expected) << zero;
}

TEST(gradient_sums, sends_the_bytes_of_the_formulas) {
  const std::vector<bool> present(8, true);
  for (const std::uint64_t p : {2u, 4u, 8u}) {
    const int ranks = static_cast<int>(p);
    const std::uint64_t once = (p - 1) * size * sizeof(float);  // all ranks together: a reduce-scatter, or a gather
    const auto bytes = [&](reduction_kind kind, int zero, bool halves = false) {
      parallel_settings s = how(kind, zero);
      s.bf16_wire = halves;
      return add(ranks, s, present).bytes;
    };
    EXPECT_EQ(bytes(reduction_kind::tree, 0), 2 * once);
    EXPECT_EQ(bytes(reduction_kind::tree, 1), once);
    EXPECT_EQ(bytes(reduction_kind::tree, 2), 8 / p * once);  // every round
    EXPECT_EQ(bytes(reduction_kind::tree, 3), 8 / p * once);
    EXPECT_EQ(bytes(reduction_kind::ranked, 0), 2 * once);
    EXPECT_EQ(bytes(reduction_kind::exact, 1), 2 * once);  // 8 bytes each
    EXPECT_EQ(bytes(reduction_kind::exact, 3), 8 / p * once);
    EXPECT_EQ(bytes(reduction_kind::tree, 1, true), once / 2);
  }
}

TEST(gradient_sums, bfloat16_on_the_wire_costs_the_rounding_of_what_is_sent_and_no_more) {
  const std::vector<bool> present(8, true);
  const floats expected = by_tree(present);
  double norm = 0;
  for (const float x : expected) norm += static_cast<double>(x) * static_cast<double>(x);
  for (const int ranks : {2, 8})
    for (const int zero : {0, 1, 3}) {
      parallel_settings s = how(reduction_kind::tree, zero);
      s.bf16_wire = true;
      const floats found = add(ranks, s, present).sum;
      double error = 0;
      for (std::size_t i = 0; i < size; ++i)
        error += std::pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
      EXPECT_GT(error, 0);
      EXPECT_LT(std::sqrt(error / norm), 2.5e-3)
          << ranks << ", zero " << zero;  // half a unit of 2^-8, root mean square
    }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
