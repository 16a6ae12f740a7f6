// Numbers that carry their derivative: the check of every piece's slope.
#pragma once

#include <cmath>

namespace testing_dual {

struct dual {
  double v = 0, d = 0;
  dual() = default;
  dual(double value) : v(value) {}
  dual(double value, double derivative) : v(value), d(derivative) {}

  friend dual operator+(dual a, dual b) { return {a.v + b.v, a.d + b.d}; }
  friend dual operator-(dual a, dual b) { return {a.v - b.v, a.d - b.d}; }
  friend dual operator-(dual a) { return {-a.v, -a.d}; }
  friend dual operator*(dual a, dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
  friend dual operator/(dual a, dual b) { return {a.v / b.v, (a.d * b.v - a.v * b.d) / (b.v * b.v)}; }
  friend bool operator<(dual a, dual b) { return a.v < b.v; }
  friend bool operator>(dual a, dual b) { return a.v > b.v; }
  friend bool operator<=(dual a, dual b) { return a.v <= b.v; }
  friend bool operator>=(dual a, dual b) { return a.v >= b.v; }
  friend bool operator==(dual a, dual b) { return a.v == b.v; }
  friend bool operator!=(dual a, dual b) { return a.v != b.v; }
  friend dual exp(dual a) { return {std::exp(a.v), a.d * std::exp(a.v)}; }
  friend dual expm1(dual a) { return {std::expm1(a.v), a.d * std::exp(a.v)}; }
  friend dual log(dual a) { return {std::log(a.v), a.d / a.v}; }
  friend dual log1p(dual a) { return {std::log1p(a.v), a.d / (1 + a.v)}; }
  friend dual sqrt(dual a) { return {std::sqrt(a.v), a.d / (2 * std::sqrt(a.v))}; }
};

}  // namespace testing_dual
