#include "rlcore/parallel/layout/reshard.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>

#include "rlcore/core/dtype.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "support/shard_layouts.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::parallel;
using shard_layouts::tensors;

constexpr std::chrono::seconds deadline(60);

/// The places of a piece's elements in its tensor, one by one.
std::vector<std::uint64_t> places(const shard_piece& p) {
  std::vector<std::uint64_t> all;
  const std::size_t n = elements_of(p.extent);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t place = 0, rest = i, stride = 1;
    for (std::size_t d = p.shape.size(); d-- > 0;) {
      const auto e = static_cast<std::uint64_t>(p.extent[d]);
      place += (static_cast<std::uint64_t>(p.start[d]) + rest % e) * stride;
      rest /= e;
      stride *= static_cast<std::uint64_t>(p.shape[d]);
    }
    if (i >= p.first && i < p.last) all.push_back(place);
  }
  return all;
}

TEST(piece_overlap, is_the_intersection_of_the_places) {
  std::mt19937 random(1);
  const auto below = [&](std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n)(random); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(below(3)));
    for (auto& e : shape) e = 1 + below(5);
    const auto piece = [&] {
      shard_piece p = whole_tensor("x", shape);
      for (std::size_t d = 0; d < shape.size(); ++d) {
        p.start[d] = below(2) == 0 ? 0 : below(shape[d] - 1);
        p.extent[d] = below(1) == 0 ? shape[d] - p.start[d] : 1 + below(shape[d] - p.start[d] - 1);
      }
      const auto n = static_cast<std::int64_t>(elements_of(p.extent));
      p.first = static_cast<std::size_t>(below(n));
      p.last = p.first + static_cast<std::size_t>(below(n - static_cast<std::int64_t>(p.first)));
      check_piece(p);
      return p;
    };
    const shard_piece a = piece(), b = piece();
    const auto in_a = places(a), in_b = places(b);
    std::vector<std::uint64_t> expected, found;
    std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(), std::back_inserter(expected));
    piece_overlap common(a, b);
    for (auto part = common.next(3); part.count != 0; part = common.next(3)) {
      ASSERT_LE(part.count, 3u);
      for (std::size_t i = 0; i < part.count; ++i) {
        ASSERT_EQ(in_a.at(part.a + i), in_b.at(part.b + i)) << text_of(a) << " | " << text_of(b);
        found.push_back(in_a[part.a + i]);
      }
    }
    ASSERT_EQ(found, expected) << text_of(a) << " | " << text_of(b);
  }
}

TEST(shard_piece, says_what_cannot_be) {
  shard_piece p = whole_tensor("w", {4, 6});
  EXPECT_EQ(fault_of(p), "");
  EXPECT_EQ(text_of(p), "w [4, 6]: elements 0 .. 24");
  p.last = 25;
  EXPECT_NE(fault_of(p), "");
  p.last = 24, p.start = {1, 0};
  EXPECT_NE(fault_of(p), "");
  p.start = {0};
  EXPECT_THROW(check_piece(p), std::invalid_argument);
  EXPECT_EQ(whole_tensor("scalar", {}).size(), 1u);
}

// Layouts that overlap partly are cut until each element has one piece; nothing is lost and nobody's place is wrong.
TEST(held_pieces, are_disjoint_and_complete) {
  piece_layout layout(3);
  layout[0] = {whole_tensor("w", {6, 5}), whole_tensor("scalar", {})};
  layout[1] = {{"w", {6, 5}, {0, 2}, {6, 3}, 2, 17}, whole_tensor("scalar", {})};
  layout[2] = {{"w", {6, 5}, {3, 0}, {3, 5}, 0, 15}, {"scalar", {}, {}, {}, 0, 0}};
  std::vector<std::set<std::size_t>> holders(30);
  for (std::size_t r = 0; r < 3; ++r)
    for (const std::uint64_t place : places(layout[r][0])) holders[place].insert(r);
  const auto held = held_pieces(layout);
  std::set<std::uint64_t> seen;
  for (const held_piece& h : held.at("w")) {
    const auto mine = places(h.piece);
    EXPECT_EQ(mine.front(), h.begin);
    EXPECT_EQ(mine.back() + 1, h.end);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      EXPECT_TRUE(seen.insert(mine[i]).second);
      std::set<std::size_t> who;
      for (const auto& each : h.holders) {
        who.insert(each.rank);
        EXPECT_EQ(places(layout[each.rank][each.piece]).at(each.offset + i), mine[i]);
      }
      EXPECT_EQ(who, holders[mine[i]]);
    }
  }
  EXPECT_EQ(seen.size(), 30u);
  EXPECT_EQ(held.at("scalar").at(0).holders.size(), 2u);
  layout[1].push_back(layout[1][0]);
  EXPECT_THROW(held_pieces(layout), std::invalid_argument);
  layout[1].back().shape = {5, 6};
  EXPECT_THROW(held_pieces(layout), std::invalid_argument);
}

TEST(assign_pieces, writes_everything_once) {
  for (const auto& [name, layout] : shard_layouts::all(4)) {
    const auto held = held_pieces(layout);
    std::map<std::string, std::vector<int>> times;
    std::size_t total = 0;
    for (const auto& [tensor, shape] : tensors())
      total += times.emplace(tensor, elements_of(shape)).first->second.size();
    for (std::size_t r = 0; r < 4; ++r) {
      std::size_t mine = 0;
      for (const assigned_piece& d : assign_pieces(held, r, 8)) {
        const auto here = places(d.piece), own = places(layout[r].at(d.index));
        for (std::size_t i = 0; i < here.size(); ++i) {
          ++times[d.piece.tensor].at(here[i]);
          ASSERT_EQ(own.at(d.offset + i), here[i]);
        }
        mine += here.size();
      }
      if (name == "replicated") {
        EXPECT_LT(mine, total / 2);
      }
    }
    for (const auto& [tensor, counts] : times)
      for (const int n : counts) ASSERT_EQ(n, 1) << name << " " << tensor;
  }
}

template <class T>
void weight_sync(const piece_layout& from, const piece_layout& to, std::size_t bucket,
                 std::atomic<std::size_t>* moved) {
  run_ranks(
      static_cast<int>(from.size()),
      [&](thread_rank& c) {
        const auto self = static_cast<std::size_t>(c.rank());
        const reshard_plan plan(from, to, self);
        std::vector<std::vector<T>> have, get;
        std::vector<std::span<const T>> in;
        std::vector<std::span<T>> out;
        for (const shard_piece& p : from[self]) have.push_back(shard_layouts::values<T>(p));
        for (const shard_piece& p : to[self]) get.emplace_back(p.size());
        for (const auto& v : have) in.emplace_back(v);
        for (auto& v : get) out.emplace_back(v);
        plan.run(c, std::span<const std::span<const T>>(in), std::span<const std::span<T>>(out), bucket);
        for (std::size_t i = 0; i < get.size(); ++i)
          ASSERT_EQ(get[i], shard_layouts::values<T>(to[self][i])) << text_of(to[self][i]);
        if (moved != nullptr) *moved += plan.received();
      },
      deadline);
}

TEST(reshard, every_layout_into_every_other) {
  for (const int ranks : {1, 2, 3, 4})
    for (const auto& [from_name, from] : shard_layouts::all(static_cast<std::size_t>(ranks)))
      for (const auto& [to_name, to] : shard_layouts::all(static_cast<std::size_t>(ranks)))
        for (const std::size_t bucket : {std::size_t{1}, std::size_t{37}, std::size_t{1} << 20}) {
          SCOPED_TRACE(from_name + " -> " + to_name + " on " + std::to_string(ranks));
          if (bucket == 1 && ranks != 3) continue;
          std::atomic<std::size_t> moved{0};
          weight_sync<float>(from, to, bucket, &moved);
          if (from_name == to_name || from_name == "replicated") {
            EXPECT_EQ(moved, 0u);
          }
        }
}

// Fully sharded over P ranks, then tensor parallel over r: every rank gets its M / r weights but for what it had.
TEST(reshard, moves_what_is_not_there_already) {
  constexpr std::size_t ranks = 8, tp = 2, rows = 64, columns = 48, size = rows * columns;
  piece_layout from(ranks), to(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto row = static_cast<std::int64_t>(r % tp * rows / tp);
    shard_piece flat = whole_tensor("column", {rows, columns}), tall = flat, wide = flat;
    flat.first = size * r / ranks, flat.last = size * (r + 1) / ranks;
    from[r].push_back(flat);
    flat.tensor = wide.tensor = "row";
    from[r].push_back(flat);
    tall.start = {row, 0}, tall.extent = {rows / tp, columns}, tall.last = size / tp;
    wide.start = {0, static_cast<std::int64_t>(r % tp * columns / tp)}, wide.extent = {rows, columns / tp};
    wide.last = size / tp;
    to[r] = {tall, wide};
  }
  std::size_t received = 0, sent = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    const reshard_plan plan(from, to, r);
    // of "column" a rank's own part lies in its half or not at all; of "row" half of its own part does
    const bool inside = r / (ranks / tp) == r % tp;
    EXPECT_EQ(plan.received(), 2 * size / tp - (inside ? size / ranks : 0) - size / ranks / tp);
    received += plan.received(), sent += plan.sent();
  }
  EXPECT_EQ(received, sent);
  weight_sync<rlcore::bf16>(from, to, 100, nullptr);
}

TEST(reshard, says_what_is_nowhere) {
  piece_layout from(2), to(2);
  from[0] = {whole_tensor("w", {4})};
  to[1] = {whole_tensor("w", {4}), whole_tensor("v", {3})};
  try {
    reshard_plan(from, to, 1);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find("3 elements of v [3]"), std::string::npos) << e.what();
  }
  from[0] = {{"w", {4}, {0}, {4}, 0, 3}};
  to[1] = {whole_tensor("w", {4})};
  EXPECT_THROW(reshard_plan(from, to, 1), std::invalid_argument);
  EXPECT_THROW(reshard_plan(from, piece_layout(1), 0), std::invalid_argument);
}

/// A wire that changes what it carries.
template <class C>
struct broken_wire {
  C& c;
  int rank() const { return c.rank(); }
  int size() const { return c.size(); }
  void barrier() { c.barrier(); }
  template <class T>
  void broadcast(std::span<T> data, int root) {
    c.broadcast(data, root);
  }
  template <class T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    c.all_gather(in, out);
  }
  template <class T>
  void all_gather_v(std::span<const T> in, std::span<T> out, std::span<const std::size_t> counts) {
    c.all_gather_v(in, out, counts);
  }
  template <class T>
  void all_to_all(std::span<const T> in, std::span<T> out) {
    c.all_to_all(in, out);
  }
  template <class T>
  void all_to_all_v(std::span<const T> in, std::span<const std::size_t> n, std::span<T> out,
                    std::span<const std::size_t> m) {
    c.all_to_all_v(in, n, out, m);
    for (T& x : out) x = T(1);
  }
  template <class T>
  void shift(std::span<const T> in, std::span<T> out, int k) {
    c.shift(in, out, k);
  }
  template <class T>
  void send(std::span<const T> data, int to) {
    c.send(data, to);
  }
  template <class T>
  void receive(std::span<T> data, int from) {
    c.receive(data, from);
  }
  auto split(int color, int key) { return c.split(color, key); }
  void abort(const std::string& why) { c.abort(why); }
};

TEST(reshard, notices_changed_bytes) {
  piece_layout from(2), to(2);
  from[0] = {whole_tensor("w", {4})};
  to[1] = from[0];
  const auto broken = [&](thread_rank& c) {
    broken_wire<thread_rank> wire{c};
    const reshard_plan plan(from, to, static_cast<std::size_t>(c.rank()));
    std::vector<float> w(4);
    const std::span<const float> in[] = {w};
    const std::span<float> out[] = {w};
    const std::size_t sends = c.rank() == 0 ? 1 : 0;
    plan.run(wire, std::span<const std::span<const float>>(in, sends),
             std::span<const std::span<float>>(out, 1 - sends));
  };
  EXPECT_THROW(run_ranks(2, broken, deadline), rlcore::communication_error);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
