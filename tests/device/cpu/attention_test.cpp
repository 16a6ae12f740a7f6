// Grouped-query attention, causal and not: forward and backward against double, the double backward against central
// differences, and that nothing but a row's own keys, and of them every one, has a say in it.
#include <gtest/gtest.h>

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
using doubles = std::vector<double>;

std::size_t at(extent_t i) { return static_cast<std::size_t>(i); }

attention_segment segment_of(const problem& p, const float* qkv, extent_t token = 0) {
  const float* keys = qkv + token * p.width() + p.key(0);
  return {keys, keys + p.s.kv_heads * p.s.head_dim, p.width(), token, p.length, 0};
}

/// Heads of every size, lengths on both sides of a tile of keys and of what shares it.
std::vector<problem> problems() {
  return {{{4, 2, 6, 0.4f}, 9},    {{3, 1, 16, 0.25f}, 40}, {{2, 2, 64, 0.125f}, 65},   {{7, 1, 34, 0.2f}, 130},
          {{1, 1, 32, 0.2f}, 200}, {{2, 1, 80, 0.11f}, 64}, {{2, 1, 128, 0.088f}, 101}, {{8, 2, 2, 0.7f}, 3}};
}
/// The same, and some that see their future.
std::vector<problem> all_problems() {
  std::vector<problem> all = problems();
  for (problem p : problems()) {
    p.s.causal = false;
    all.push_back(p);
  }
  return all;
}

class attention : public testing::TestWithParam<std::string> {};

TEST_P(attention, forward) {
  cpu device(1, GetParam());
  for (const auto& p : all_problems()) {
    const floats qkv = normal(p.size(), 5);
    floats y(p.out_size()), statistics(at(p.length * p.s.heads * 2));
    const attention_segment segment = segment_of(p, qkv.data());
    device.run(op::attention_forward{.shape = p.s,
                                     .segments = {&segment, 1},
                                     .q = qkv.data(),
                                     .q_row = p.width(),
                                     .out = y.data(),
                                     .out_row = p.out(),
                                     .statistics = statistics.data()});
    const doubles exact = p.forward(doubles(qkv.begin(), qkv.end()));
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(static_cast<double>(y[i]), exact[i], 4e-6);
  }
}

TEST(attention_problem, double_backward_is_the_slope_of_double_forward) {
  for (const bool causal : {true, false}) {
    const problem p{{4, 2, 6, 0.4f, causal}, 9};
    const floats qkv = normal(p.size(), 5), dy = normal(p.out_size(), 6);
    doubles x(qkv.begin(), qkv.end());
    const doubles slopes(dy.begin(), dy.end()), gradient = p.backward(x, slopes);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double h = 1e-5, keep = x[i];
      x[i] = keep + h;
      const doubles above = p.forward(x);
      x[i] = keep - h;
      const doubles below = p.forward(x);
      x[i] = keep;
      double slope = 0;
      for (std::size_t j = 0; j < dy.size(); ++j) slope += slopes[j] * (above[j] - below[j]) / (2 * h);
      ASSERT_NEAR(gradient[i], slope, 1e-8) << "element " << i;
    }
  }
}

TEST_P(attention, backward) {
  cpu device(1, GetParam());
  for (const problem& p : all_problems()) {
    const floats qkv = normal(p.size(), 5), dy = normal(p.out_size(), 6);
    floats y(dy.size()), statistics(at(p.length * p.s.heads * 2)), dqkv(qkv.size(), 0.5f);
    const attention_segment segment = segment_of(p, qkv.data());
    device.run(op::attention_forward{.shape = p.s,
                                     .segments = {&segment, 1},
                                     .q = qkv.data(),
                                     .q_row = p.width(),
                                     .out = y.data(),
                                     .out_row = p.out(),
                                     .statistics = statistics.data()});
    float* dkeys = dqkv.data() + p.key(0);
    const attention_segment_gradient gradient{dkeys, dkeys + p.s.kv_heads * p.s.head_dim};
    device.run(op::attention_backward{.shape = p.s,
                                      .segments = {&segment, 1},
                                      .gradients = {&gradient, 1},
                                      .q = qkv.data(),
                                      .q_row = p.width(),
                                      .out = y.data(),
                                      .dout = dy.data(),
                                      .out_row = p.out(),
                                      .statistics = statistics.data(),
                                      .dq = dqkv.data()});
    const doubles exact = p.backward(doubles(qkv.begin(), qkv.end()), doubles(dy.begin(), dy.end()));
    for (std::size_t i = 0; i < exact.size(); ++i) {  // dq is written, dk and dv are added
      const bool query = static_cast<extent_t>(i) % p.width() < p.key(0);
      ASSERT_NEAR(static_cast<double>(dqkv[i]) - (query ? 0 : 0.5), exact[i], 3e-5 + 3e-6 * std::abs(exact[i])) << i;
    }
  }
}

TEST_P(attention, sequences_and_threads_do_not_meet) {
  cpu one(1, GetParam()), three(3, GetParam());
  for (const problem& p : all_problems()) {
    const extent_t n = 5;
    const floats qkv = normal(at(n) * p.size(), 7), dy = normal(at(n) * p.out_size(), 8);
    struct result {
      floats y, statistics, gradient;
      bool operator==(const result&) const = default;
    };
    const auto run = [&](cpu& device, extent_t each) {
      result r{floats(dy.size()), floats(at(n * p.length * p.s.heads * 2)), floats(qkv.size(), 0.25f)};
      for (extent_t first = 0; first < n; first += each) {
        std::vector<attention_segment> segments;
        std::vector<attention_segment_gradient> gradients;
        for (extent_t i = first; i < std::min(n, first + each); ++i) {
          segments.push_back(segment_of(p, qkv.data(), i * p.length));
          float* dkeys = r.gradient.data() + i * p.length * p.width() + p.key(0);
          gradients.push_back({dkeys, dkeys + p.s.kv_heads * p.s.head_dim});
        }
        device.run(op::attention_forward{.shape = p.s,
                                         .segments = segments,
                                         .q = qkv.data(),
                                         .q_row = p.width(),
                                         .out = r.y.data(),
                                         .out_row = p.out(),
                                         .statistics = r.statistics.data()});
        device.run(op::attention_backward{.shape = p.s,
                                          .segments = segments,
                                          .gradients = gradients,
                                          .q = qkv.data(),
                                          .q_row = p.width(),
                                          .out = r.y.data(),
                                          .dout = dy.data(),
                                          .out_row = p.out(),
                                          .statistics = r.statistics.data(),
                                          .dq = r.gradient.data()});
      }
      return r;
    };
    const result alone = run(one, 1);
    EXPECT_TRUE(alone == run(one, n));
    EXPECT_TRUE(alone == run(three, n));
    EXPECT_TRUE(alone == run(three, 1));
  }
}

TEST_P(attention, nothing_of_the_future_is_seen_and_no_nan_is_hidden) {
  cpu device(1, GetParam());
  for (const auto& p : problems()) {
    const floats clean = normal(p.size(), 5);
    const auto run = [&](const floats& qkv) {
      floats y(p.out_size()), statistics(at(p.length * p.s.heads * 2));
      const attention_segment segment = segment_of(p, qkv.data());
      device.run(op::attention_forward{.shape = p.s,
                                       .segments = {&segment, 1},
                                       .q = qkv.data(),
                                       .q_row = p.width(),
                                       .out = y.data(),
                                       .out_row = p.out(),
                                       .statistics = statistics.data()});
      return y;
    };
    const floats expected = run(clean);
    for (const extent_t position : {p.length / 3, p.length / 2, p.length - 1}) {
      for (const extent_t column : {p.key(0), p.value(0)}) {
        floats qkv = clean;
        qkv[at(position * p.width() + column)] = std::nanf("");
        const floats y = run(qkv);
        for (extent_t i = 0; i < p.length; ++i) {
          ASSERT_TRUE(i < position ? y[at(i * p.out())] == expected[at(i * p.out())] : std::isnan(y[at(i * p.out())]))
              << "position " << position << ", row " << i << " of " << p.length;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(sets, attention, testing::ValuesIn(rlcore_test::instruction_sets()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace RLCORE_TEST_ID
