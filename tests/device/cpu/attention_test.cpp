// Causal grouped-query attention: forward against double, backward against central differences of the double forward,
// and the same bits in one call, in chunks and one token at a time.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "device/cpu/sets.hpp"

namespace {

using namespace rlcore;
using rlcore_test::normal;
using floats = std::vector<float>;
using doubles = std::vector<double>;

std::size_t at(extent_t i) { return static_cast<std::size_t>(i); }

/// Rows [q | k | v] of one sequence, as in the model.
struct problem {
  attention_shape s;
  extent_t length;
  extent_t width() const { return (s.heads + 2 * s.kv_heads) * s.head_dim; }
  extent_t out() const { return s.heads * s.head_dim; }

  doubles exact(const doubles& qkv) const {
    doubles y(at(length * out()));
    const extent_t d = s.head_dim;
    for (extent_t i = 0; i < length; ++i)
      for (extent_t h = 0; h < s.heads; ++h) {
        const extent_t kv = h / (s.heads / s.kv_heads), key = (s.heads + kv) * d,
                       value = (s.heads + s.kv_heads + kv) * d;
        doubles p;
        double top = -1e300, total = 0;
        for (extent_t j = 0; j <= i; ++j) {
          double dot = 0;
          for (extent_t e = 0; e < d; ++e) dot += qkv[at(i * width() + h * d + e)] * qkv[at(j * width() + key + e)];
          p.push_back(dot * static_cast<double>(s.scale));
          top = std::max(top, p.back());
        }
        for (double& x : p) total += x = std::exp(x - top);
        for (extent_t j = 0; j <= i; ++j)
          for (extent_t e = 0; e < d; ++e)
            y[at(i * out() + h * d + e)] += p[at(j)] / total * qkv[at(j * width() + value + e)];
      }
    return y;
  }
};

attention_segment segment_of(const problem& p, const float* qkv, extent_t first, extent_t rows) {
  const float* keys = qkv + p.s.heads * p.s.head_dim;
  return {keys, keys + p.s.kv_heads * p.s.head_dim, p.width(), first, rows, first};
}

class attention : public testing::TestWithParam<std::string> {
 protected:
  static std::vector<problem> problems() {
    return {{{4, 2, 6, 0.4f}, 9}, {{3, 1, 16, 0.25f}, 40}, {{2, 2, 64, 0.125f}, 21}, {{7, 1, 34, 0.2f}, 70}};
  }
};

TEST_P(attention, forward) {
  cpu device(1, GetParam());
  for (const auto& p : problems()) {
    const floats qkv = normal(at(p.length * p.width()), 5);
    floats y(at(p.length * p.out())), statistics(at(p.length * p.s.heads * 2));
    const attention_segment segment = segment_of(p, qkv.data(), 0, p.length);
    device.attention_forward(p.s, {&segment, 1}, qkv.data(), p.width(), y.data(), p.out(), statistics.data());
    const doubles exact = p.exact(doubles(qkv.begin(), qkv.end()));
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(static_cast<double>(y[i]), exact[i], 4e-6);
  }
}

TEST_P(attention, chunks_and_single_tokens_have_the_same_bits) {
  cpu device(1, GetParam()), three(3, GetParam());
  for (const auto& p : problems()) {
    floats qkv = normal(at(p.length * p.width()), 5);
    floats once(at(p.length * p.out())), other(once.size()), statistics(at(p.length * p.s.heads * 2));
    const attention_segment whole = segment_of(p, qkv.data(), 0, p.length);
    device.attention_forward(p.s, {&whole, 1}, qkv.data(), p.width(), once.data(), p.out(), statistics.data());
    three.attention_forward(p.s, {&whole, 1}, qkv.data(), p.width(), other.data(), p.out(), statistics.data());
    EXPECT_EQ(once, other);
    for (const extent_t chunk : {1, 5, 17}) {
      std::fill(other.begin(), other.end(), 0.0f);
      for (extent_t first = 0; first < p.length; first += chunk) {
        floats part = qkv;  // what lies beyond the chunk must not be read
        const extent_t rows = std::min(chunk, p.length - first);
        std::fill(part.begin() + (first + rows) * p.width(), part.end(), std::nanf(""));
        const attention_segment segment = segment_of(p, part.data(), first, rows);
        device.attention_forward(p.s, {&segment, 1}, part.data(), p.width(), other.data(), p.out(), statistics.data());
      }
      EXPECT_EQ(once, other) << "chunks of " << chunk;
    }
  }
}

TEST_P(attention, backward) {
  cpu device(1, GetParam());
  for (const problem& p : {problem{{4, 2, 6, 0.4f}, 9}, problem{{2, 1, 10, 0.3f}, 19}}) {
    const floats qkv = normal(at(p.length * p.width()), 5), dy = normal(at(p.length * p.out()), 6);
    floats y(dy.size()), statistics(at(p.length * p.s.heads * 2)), dqkv(qkv.size(), 0.0f);
    const attention_segment segment = segment_of(p, qkv.data(), 0, p.length);
    device.attention_forward(p.s, {&segment, 1}, qkv.data(), p.width(), y.data(), p.out(), statistics.data());
    float* dkeys = dqkv.data() + p.s.heads * p.s.head_dim;
    const attention_segment_gradient gradient{dkeys, dkeys + p.s.kv_heads * p.s.head_dim};
    device.attention_backward(p.s, {&segment, 1}, {&gradient, 1}, qkv.data(), p.width(), y.data(), dy.data(), p.out(),
                              statistics.data(), dqkv.data());
    doubles x(qkv.begin(), qkv.end());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double h = 1e-5, keep = x[i];
      x[i] = keep + h;
      const doubles above = p.exact(x);
      x[i] = keep - h;
      const doubles below = p.exact(x);
      x[i] = keep;
      double slope = 0;
      for (std::size_t j = 0; j < dy.size(); ++j) slope += static_cast<double>(dy[j]) * (above[j] - below[j]) / (2 * h);
      ASSERT_NEAR(static_cast<double>(dqkv[i]), slope, 2e-5) << "element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(sets, attention, testing::ValuesIn(rlcore_test::instruction_sets()),
                         [](const auto& each) { return each.param; });

}  // namespace
