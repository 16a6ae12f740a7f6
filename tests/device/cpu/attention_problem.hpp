// One sequence's attention in double: rows [q | k | v] as in the model, output, and gradients by the textbook formulas.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "rlcore/device/device.hpp"

namespace rlcore_test {

struct attention_problem {
  rlcore::attention_shape s;
  rlcore::extent_t length;

  using extent_t = rlcore::extent_t;
  using doubles = std::vector<double>;
  static std::size_t at(extent_t i) { return static_cast<std::size_t>(i); }

  extent_t width() const { return (s.heads + 2 * s.kv_heads) * s.head_dim; }
  extent_t out() const { return s.heads * s.head_dim; }
  extent_t key(extent_t head) const { return (s.heads + head / (s.heads / s.kv_heads)) * s.head_dim; }
  extent_t value(extent_t head) const { return key(head) + s.kv_heads * s.head_dim; }
  std::size_t size() const { return at(length * width()); }
  std::size_t out_size() const { return at(length * out()); }

  /// How many keys query i attends to.
  extent_t keys(extent_t i) const { return s.causal ? i + 1 : length; }

  static double dot(const double* a, const double* b, extent_t n) {
    double sum = 0;
    for (extent_t e = 0; e < n; ++e) sum += a[e] * b[e];
    return sum;
  }
  /// softmax of the scores of query (i, head).
  doubles weights(const doubles& qkv, extent_t i, extent_t head) const {
    doubles p;
    double top = -1e300, total = 0;
    for (extent_t j = 0; j < keys(i); ++j) {
      p.push_back(static_cast<double>(s.scale) *
                  dot(&qkv[at(i * width() + head * s.head_dim)], &qkv[at(j * width() + key(head))], s.head_dim));
      top = std::max(top, p.back());
    }
    for (double& x : p) total += x = std::exp(x - top);
    for (double& x : p) x /= total;
    return p;
  }
  doubles forward(const doubles& qkv) const {
    doubles y(out_size());
    for (extent_t i = 0; i < length; ++i)
      for (extent_t h = 0; h < s.heads; ++h) {
        const doubles p = weights(qkv, i, h);
        for (extent_t j = 0; j < keys(i); ++j)
          for (extent_t e = 0; e < s.head_dim; ++e)
            y[at(i * out() + h * s.head_dim + e)] += p[at(j)] * qkv[at(j * width() + value(h) + e)];
      }
    return y;
  }
  /// Gradient of sum(dy * forward(qkv)).
  doubles backward(const doubles& qkv, const doubles& dy) const {
    doubles gradient(size());
    const extent_t d = s.head_dim;
    for (extent_t i = 0; i < length; ++i)
      for (extent_t h = 0; h < s.heads; ++h) {
        const doubles p = weights(qkv, i, h);
        const double* slope = &dy[at(i * out() + h * d)];
        doubles dp;
        double mean = 0;
        for (extent_t j = 0; j < keys(i); ++j) {
          dp.push_back(dot(slope, &qkv[at(j * width() + value(h))], d));
          mean += p[at(j)] * dp.back();
        }
        for (extent_t j = 0; j < keys(i); ++j) {
          const double ds = p[at(j)] * (dp[at(j)] - mean) * static_cast<double>(s.scale);
          for (extent_t e = 0; e < d; ++e) {
            const std::size_t q = at(i * width() + h * d + e), k = at(j * width() + key(h) + e);
            gradient[q] += ds * qkv[k];
            gradient[k] += ds * qkv[q];
            gradient[at(j * width() + value(h) + e)] += p[at(j)] * slope[e];
          }
        }
      }
    return gradient;
  }
};

}  // namespace rlcore_test
