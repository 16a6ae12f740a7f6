// Keys and values in pages: the same bits as in rows, in one piece, in chunks of any size, one token at a time, several
// sequences in one call, and wherever the pages lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "device/cpu/attention_problem.hpp"
#include "device/cpu/sets.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using rlcore_test::normal;
using problem = rlcore_test::attention_problem;
using floats = std::vector<float>;

std::size_t at(extent_t i) { return static_cast<std::size_t>(i); }

struct result {
  floats y, statistics;
  explicit result(const problem& p) : y(p.out_size()), statistics(at(p.length * p.s.heads * 2)) {}
  bool operator==(const result&) const = default;
};

std::vector<problem> problems() {
  std::vector<problem> all;
  for (const extent_t head_dim : {32, 64, 128, 80, 20})
    for (const extent_t group : {1, 2, 7}) all.push_back({{2 * group, 2, head_dim, 0.2f}, 150});
  return all;
}

/// A cache whose pages, full of NaN at first, belong to the sequence in an order that a stride mixes.
struct paged {
  floats layer;
  std::vector<std::int32_t> pages;

  paged(const problem& p, extent_t stride, extent_t first = 0, extent_t total = 7)
      : layer(at(total * cpu_kernels::page_floats(p.s)), std::nanf("")) {
    for (extent_t n = 0; n * kv_page < p.length; ++n)
      pages.push_back(static_cast<std::int32_t>((first + n * stride) % total));
  }
};

/// Tokens first .. first + rows - 1: stores their keys and values, then attends.
void feed(cpu& device, const problem& p, const floats& qkv, paged& cache, extent_t first, extent_t rows, result& r) {
  attention_segment segment;
  segment.keys = cache.layer.data();
  segment.pages = cache.pages.data();
  segment.first_row = segment.first_position = first;
  segment.rows = rows;
  device.run(op::store_keys_values{.shape = p.s,
                                   .segments = {&segment, 1},
                                   .layer = cache.layer.data(),
                                   .keys = qkv.data() + p.key(0),
                                   .values = qkv.data() + p.value(0),
                                   .row = p.width()});
  device.run(op::attention_forward{.shape = p.s,
                                   .segments = {&segment, 1},
                                   .q = qkv.data(),
                                   .q_row = p.width(),
                                   .out = r.y.data(),
                                   .out_row = p.out(),
                                   .statistics = r.statistics.data()});
}

class attention_pages : public testing::TestWithParam<std::string> {};

TEST_P(attention_pages, chunks_of_any_size_have_the_bits_of_training) {
  cpu one(1, GetParam()), three(3, GetParam());
  for (const problem& p : problems()) {
    const floats qkv = normal(p.size(), 5);
    result training(p);
    const float* keys = qkv.data() + p.key(0);
    const attention_segment segment{keys, qkv.data() + p.value(0), p.width(), 0, p.length, 0};
    one.run(op::attention_forward{.shape = p.s,
                                  .segments = {&segment, 1},
                                  .q = qkv.data(),
                                  .q_row = p.width(),
                                  .out = training.y.data(),
                                  .out_row = p.out(),
                                  .statistics = training.statistics.data()});
    for (const extent_t chunk : {1, 3, 7, 100, 150}) {
      paged cache(p, 3);
      result r(p);
      for (extent_t first = 0; first < p.length; first += chunk)
        feed(one, p, qkv, cache, first, std::min(chunk, p.length - first), r);
      EXPECT_TRUE(training == r) << "chunks of " << chunk << ", head_dim " << p.s.head_dim << ", heads " << p.s.heads;
    }
    paged cache(p, 5, 2);
    result r(p);
    feed(three, p, qkv, cache, 0, 60, r);
    for (extent_t first = 60; first < p.length; ++first) feed(first % 2 ? one : three, p, qkv, cache, first, 1, r);
    EXPECT_TRUE(training == r) << "other pages, head_dim " << p.s.head_dim << ", heads " << p.s.heads;
  }
}

TEST_P(attention_pages, sequences_of_one_call_do_not_meet) {
  cpu one(1, GetParam()), three(3, GetParam());
  const problem p{{4, 2, 32, 0.2f}, 90};
  const extent_t n = 6, total = 3 * n;
  const floats qkv = normal(at(n) * p.size(), 9);
  paged cache(p, 1, 0, total);
  std::vector<std::vector<std::int32_t>> tables;
  for (extent_t i = 0; i < n; ++i) tables.push_back(paged(p, 5, i * 15, total).pages);  // 5 and 18: no common factor
  const auto segment = [&](extent_t i, extent_t first, extent_t rows) {
    attention_segment g;
    g.keys = cache.layer.data();
    g.pages = tables[at(i)].data();
    g.first_row = i * p.length + first;
    g.first_position = first;
    g.rows = rows;
    return g;
  };
  const auto run = [&](cpu& device, const std::vector<attention_segment>& segments, floats& y, floats& statistics) {
    device.run(op::store_keys_values{.shape = p.s,
                                     .segments = segments,
                                     .layer = cache.layer.data(),
                                     .keys = qkv.data() + p.key(0),
                                     .values = qkv.data() + p.value(0),
                                     .row = p.width()});
    device.run(op::attention_forward{.shape = p.s,
                                     .segments = segments,
                                     .q = qkv.data(),
                                     .q_row = p.width(),
                                     .out = y.data(),
                                     .out_row = p.out(),
                                     .statistics = statistics.data()});
  };
  floats alone(at(n) * p.out_size()), together(alone.size()), statistics(at(n * p.length * p.s.heads * 2));
  for (extent_t i = 0; i < n; ++i) run(one, {segment(i, 0, p.length)}, alone, statistics);
  std::fill(cache.layer.begin(), cache.layer.end(), std::nanf(""));
  std::vector<attention_segment> first, second;  // of each its prompt, of some in two pieces; then token by token
  for (extent_t i = 0; i < n; ++i) {
    const extent_t prompt = 10 * i + 7;
    first.push_back(segment(i, 0, i % 2 ? prompt : 5));
    if (i % 2 == 0) first.push_back(segment(i, 5, prompt - 5));
  }
  run(three, first, together, statistics);
  for (extent_t step = 0; step < p.length; ++step) {
    second.clear();
    for (extent_t i = n; i-- > 0;)
      if (10 * i + 7 + step < p.length) second.push_back(segment(i, 10 * i + 7 + step, 1));
    run(step % 2 ? one : three, second, together, statistics);
  }
  EXPECT_EQ(alone, together);
}

TEST_P(attention_pages, a_page_may_serve_two_sequences) {
  cpu device(1, GetParam());
  const problem p{{2, 1, 16, 0.25f}, 70};
  const floats qkv = normal(p.size(), 5);
  paged cache(p, 1, 0, 7), other(p, 1, 0, 7);
  result whole(p), branch(p);
  feed(device, p, qkv, cache, 0, p.length, whole);
  other.layer = cache.layer;
  other.pages = {0, 1, 6};  // the first 64 positions are shared, the rest is its own
  for (extent_t first = 64; first < p.length; ++first) feed(device, p, qkv, other, first, 1, branch);
  for (std::size_t i = at(64 * p.out()); i < whole.y.size(); ++i) ASSERT_EQ(whole.y[i], branch.y[i]);
}

INSTANTIATE_TEST_SUITE_P(sets, attention_pages, testing::ValuesIn(rlcore_test::instruction_sets()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace RLCORE_TEST_ID
