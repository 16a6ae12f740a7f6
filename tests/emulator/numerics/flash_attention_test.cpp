// The arithmetic of fused attention on plain arrays: where it rounds, and its gradient against differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/emulator/numerics/flash_attention.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::ascend;
using namespace rlcore::ascend::emulated;
using emulated::matrix;

template <class Real>
std::vector<Real> random_values(std::int64_t n, std::uint32_t purpose, data_type type = data_type::float32) {
  const random_key random = random_key{31}.child(purpose);
  std::vector<Real> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<Real>(stored_as(static_cast<float>(random.normal(static_cast<std::uint32_t>(i))), type));
  return values;
}
template <class Real>
matrix<Real> rows_of(const std::vector<Real>& x, std::int64_t width) {
  return {x.data(), width, 1};
}
const auto exponential = [](auto x) { return std::exp(x); };
const auto in_order = [](std::size_t n) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  return order;
};

/// softmax(scale q k^T) v of one query, in double.
std::vector<double> attended(const attention_head<float>& h, std::int64_t query, double* magnitude = nullptr) {
  std::vector<double> s, out(static_cast<std::size_t>(h.value_width));
  double top = -INFINITY, total = 0;
  for (std::int64_t j = 0; j < h.visible.keys; ++j) {
    double dot = 0;
    for (std::int64_t d = 0; d < h.width; ++d)
      dot += static_cast<double>(h.q.data[query * h.q.row + d]) * h.k.data[j * h.k.row + d];
    s.push_back(h.visible.sees(query, j) ? dot * h.scale : -INFINITY);
    top = std::max(top, s.back());
  }
  for (double& x : s) total += x = std::exp(x - top);
  double most = 0;
  for (std::int64_t d = 0; d < h.value_width; ++d) {
    double size = 0;
    for (std::int64_t j = 0; j < h.visible.keys; ++j) {
      const double term = s[static_cast<std::size_t>(j)] / total * h.v.data[j * h.v.row + d];
      out[static_cast<std::size_t>(d)] += term;
      size += std::fabs(term);
    }
    most = std::max(most, size);
  }
  if (magnitude) *magnitude = most;
  return out;
}

struct one_head {
  std::int64_t queries, keys, width;
  data_type type;
  std::vector<float> q = random_values<float>(queries * width, 1, type),
                     k = random_values<float>(keys * width, 2, type), v = random_values<float>(keys * width, 3, type);
  attention_head<float> head() const {
    attention_head<float> h;
    h.queries = queries;
    h.width = h.value_width = width;
    h.q = rows_of(q, width);
    h.k = rows_of(k, width);
    h.v = rows_of(v, width);
    h.visible.keys = keys;
    h.visible.ahead = keys - queries;
    h.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width)));
    h.type = type;
    return h;
  }
};
struct forward_result {
  std::vector<float> out, top, total;
  explicit forward_result(const attention_head<float>& h)
      : out(static_cast<std::size_t>(h.queries * h.value_width)), top(static_cast<std::size_t>(h.queries)), total(top) {
    attention_forward(h, out.data(), top.data(), total.data(), exponential);
  }
};

TEST(attention_numerics, forward_within_the_bound_of_its_roundings) {
  for (const auto type : {data_type::bfloat16, data_type::float16, data_type::float32})
    for (const auto& [queries, keys] : {std::pair<std::int64_t, std::int64_t>{40, 40}, {150, 150}, {5, 2500}}) {
      const one_head data{queries, keys, 24, type};
      const auto h = data.head();
      const forward_result found(h);
      // One rounding of every P; the rest is fp32: scores of magnitude about 10, K0 groups, 1024-key blocks.
      const double u = type == data_type::bfloat16 ? 0x1p-8 : type == data_type::float16 ? 0x1p-11 : 0;
      double worst = 0;
      for (std::int64_t i = 0; i < queries; ++i) {
        double size = 0;
        const auto exact = attended(h, i, &size);
        for (std::int64_t d = 0; d < 24; ++d) {
          const double error =
              std::fabs(found.out[static_cast<std::size_t>(i * 24 + d)] - exact[static_cast<std::size_t>(d)]);
          ASSERT_LE(error, (u + 3e-6) * size) << static_cast<int>(type) << " query " << i;
          worst = std::max(worst, error / size);
        }
      }
      EXPECT_GT(worst, u / 100);  // the rounding is there
    }
}

TEST(attention_numerics, weights_are_rounded_away_from_zero_at_ties) {
  // Scores 1 and 0; this exp makes the second weight the middle of two bfloat16 numbers.
  const std::vector<float> q{1}, k{1, 0}, v{0, 1};
  attention_head<float> h;
  h.queries = h.width = h.value_width = 1;
  h.q = rows_of(q, 1);
  h.k = rows_of(k, 1);
  h.v = rows_of(v, 1);
  h.visible.keys = 2;
  float out = 0, top = 0, total = 0;
  const auto tie = [](float x) { return x == 0 ? 1.0f : 0.5f + 0x1p-9f; };
  for (const auto& [type, weight] :
       {std::pair{data_type::bfloat16, 0.5f + 0x1p-8f}, {data_type::float32, 0.5f + 0x1p-9f}}) {
    h.type = type;
    attention_forward(h, &out, &top, &total, tie);
    EXPECT_EQ(total, 1.5f + 0x1p-9f);  // the sum is that of the unrounded weights
    EXPECT_EQ(out, weight / total);
    EXPECT_EQ(top, 1.0f);
  }
}

TEST(attention_numerics, a_row_is_summed_by_64_lanes_and_then_halves) {
  std::vector<float> x(130, 0.0f);
  x[0] = 0x1p24f, x[64] = 1, x[128] = 1;  // one lane: both are lost
  EXPECT_EQ(sum_by_lanes(x.data(), 130), 0x1p24f);
  x[128] = 0, x[129] = 1, x[65] = 1;  // lanes 0 and 1: 2^24 + 1 is lost, 1 + 1 is not
  EXPECT_EQ(sum_by_lanes(x.data(), 130), 0x1p24f + 2);
  EXPECT_EQ(sum_by_lanes(x.data(), 0), 0.0f);
}

TEST(attention_numerics, unseen_keys_do_not_matter) {
  one_head data{6, 9, 4, data_type::bfloat16};
  auto h = data.head();
  std::vector<std::uint8_t> mask(6 * 9, 0);
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 9; ++j) mask[i * 9 + j] = j > i + 3;
  const forward_result causal(h);
  h.visible.ahead = visible_keys::unlimited;
  h.visible.mask = mask.data();
  h.visible.mask_row = 9;
  const forward_result masked(h);
  EXPECT_EQ(causal.out, masked.out);
  EXPECT_EQ(causal.total, masked.total);
  std::fill(mask.begin() + 9, mask.begin() + 18, std::uint8_t{1});  // query 1 sees nothing
  const forward_result some(h);
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_EQ(some.out[4 + d], 0.0f);
    EXPECT_EQ(some.out[d], causal.out[d]);
  }
  EXPECT_EQ(some.total[1], 0.0f);
}

TEST(attention_numerics, blocks_of_1024_keys_are_rescaled) {
  one_head data{3, 2100, 2, data_type::float32};
  for (std::size_t j = 0; j < 2100; ++j) data.k[2 * j] = static_cast<float>(j) / 100;  // the maximum grows
  const auto h = data.head();
  const forward_result found(h);
  for (std::int64_t i = 0; i < 3; ++i) {
    double size = 0;
    const auto exact = attended(h, i, &size);
    for (std::size_t d = 0; d < 2; ++d)
      EXPECT_NEAR(found.out[static_cast<std::size_t>(i) * 2 + d], exact[d], 1e-5 * size);
  }
}

/// Two query heads that share keys, everything in double.
struct shared_heads {
  static constexpr std::int64_t queries = 7, keys = 9, width = 3, value_width = 2;
  std::vector<double> q = random_values<double>(2 * queries * width, 4), k = random_values<double>(keys * width, 5),
                      v = random_values<double>(keys * value_width, 6),
                      g = random_values<double>(2 * queries * value_width, 7);
  std::vector<double> out = std::vector<double>(2 * queries * value_width), top = std::vector<double>(2 * queries),
                      total = top;

  attention_head<double> head(std::int64_t h) const {
    attention_head<double> a;
    a.queries = queries;
    a.width = width;
    a.value_width = value_width;
    a.q = matrix<double>{q.data() + h * queries * width, width, 1};
    a.k = rows_of(k, width);
    a.v = rows_of(v, value_width);
    a.visible.keys = keys;
    a.visible.ahead = 1;
    a.scale = 0.7;
    return a;
  }
  double loss() {
    for (std::int64_t h = 0; h < 2; ++h)
      attention_forward(head(h), out.data() + h * queries * value_width, top.data() + h * queries,
                        total.data() + h * queries, exponential);
    return std::inner_product(out.begin(), out.end(), g.begin(), 0.0);
  }
};

TEST(attention_numerics, gradient_equals_differences) {
  shared_heads a;
  (void)a.loss();
  std::vector<double> dq(a.q.size()), dk(a.k.size()), dv(a.v.size());
  std::vector<attention_gradient_head<double>> heads(2);
  for (std::int64_t h = 0; h < 2; ++h) {
    auto& x = heads[static_cast<std::size_t>(h)];
    x.forward = a.head(h);
    x.out = matrix<double>{a.out.data() + h * 14, 2, 1};
    x.dout = matrix<double>{a.g.data() + h * 14, 2, 1};
    x.maximum = a.top.data() + h * 7;
    x.sum = a.total.data() + h * 7;
    x.dq = dq.data() + h * 21;
  }
  attention_backward<double>(heads, dk.data(), dv.data(), exponential, in_order);
  const auto out = a.out;
  const auto check = [&](std::vector<double>& x, const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double old = x[i], step = 1e-5;
      x[i] = old + step;
      const double up = a.loss();
      x[i] = old - step;
      const double down = a.loss();
      x[i] = old;
      ASSERT_NEAR(gradient[i], (up - down) / (2 * step), 2e-9) << i;
    }
  };
  check(a.q, dq);
  check(a.k, dk);
  check(a.v, dv);
}

/// dq, dk, dv of one head in `type` with a permutation of the arriving blocks.
template <class Arrival>
std::vector<std::vector<float>> gradients(const one_head& data, const Arrival& arrival) {
  const auto h = data.head();
  const forward_result forward(h);
  const auto dout = random_values<float>(data.queries * data.width, 8, data.type);
  auto out = forward.out;
  round_values(out, data.type, rounding::nearest_away);
  std::vector<std::vector<float>> d{std::vector<float>(data.q.size()), std::vector<float>(data.k.size()),
                                    std::vector<float>(data.v.size())};
  const attention_gradient_head<float> one{
      h, rows_of(out, data.width), rows_of(dout, data.width), forward.top.data(), forward.total.data(), d[0].data()};
  attention_backward<float>(std::span(&one, 1), d[1].data(), d[2].data(), exponential, arrival);
  return d;
}

TEST(attention_numerics, the_order_of_arrival_is_visible_only_in_last_bits) {
  const one_head data{300, 300, 16, data_type::float32};
  const auto reversed = [](std::size_t n) {
    auto order = in_order(n);
    std::reverse(order.begin(), order.end());
    return order;
  };
  const auto a = gradients(data, in_order), again = gradients(data, in_order), b = gradients(data, reversed);
  EXPECT_EQ(a, again);
  EXPECT_NE(a, b);
  for (std::size_t x = 0; x < 3; ++x)
    for (std::size_t i = 0; i < a[x].size(); ++i) ASSERT_NEAR(a[x][i], b[x][i], 3e-6);
}

TEST(attention_numerics, gradient_in_16_bits_is_near_that_in_float) {
  for (const auto& [type, u] : {std::pair{data_type::bfloat16, 0x1p-8}, {data_type::float16, 0x1p-11}}) {
    one_head data{150, 150, 16, type};
    const auto found = gradients(data, in_order);
    data.type = data_type::float32;
    const one_head exact{150, 150, 16, data_type::float32, data.q, data.k, data.v};
    const auto h = exact.head();
    const forward_result forward(h);
    const auto dout = random_values<float>(150 * 16, 8, type);
    std::vector<float> dq(data.q.size()), dk(data.k.size()), dv(data.v.size());
    const attention_gradient_head<float> one{
        h, rows_of(forward.out, 16), rows_of(dout, 16), forward.top.data(), forward.total.data(), dq.data()};
    attention_backward<float>(std::span(&one, 1), dk.data(), dv.data(), exponential, in_order);
    // Relative in the norm: P, dS and out are rounded once each, errors of random sign.
    const auto distance = [](const std::vector<float>& x, const std::vector<float>& y) {
      double error = 0, size = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        error += std::pow(static_cast<double>(x[i]) - y[i], 2);
        size += std::pow(static_cast<double>(y[i]), 2);
      }
      return std::sqrt(error / size);
    };
    for (const double e : {distance(found[0], dq), distance(found[1], dk), distance(found[2], dv)}) {
      EXPECT_LT(e, u);
      EXPECT_GT(e, u / 100);
    }
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
