// Programs for devices that have few operations: the others are written by those, as packs compute them.
#pragma once

#include <cstddef>
#include <iterator>
#include <limits>
#include <vector>

#include "rlcore/objective/traced/program.hpp"
#include "rlcore/objective/traced/simplify.hpp"
#include "rlcore/objective/traced/value.hpp"
#include "rlcore/simd/math.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// The vocabulary of traced_math by arithmetic, comparisons, select, exp and log alone: the formulas of fast_math for
/// floats, which lose no digits near 0.
struct few_operations {
  /// Whether x is in [-1/2, 1/2], where the polynomials hold.
  static traced_mask near_zero(const traced& x) { return (x <= traced(0.5)) & (traced(-0.5) <= x); }
  /// (e^x - 1 - x) / x^2 near 0: the polynomial of fast_math.
  static traced polynomial(const traced& x) {
    const auto& c = exp_constants<float>::wide;
    traced sum(static_cast<double>(c[std::size(c) - 1]));
    for (std::size_t i = std::size(c) - 1; i-- > 0;) sum = sum * x + traced(static_cast<double>(c[i]));
    return sum;
  }
  /// e^x, which every device has; as the next two.
  static traced exp(const traced& x) { return traced::of(operation::exp, x); }
  /// log x
  static traced log(const traced& x) { return traced::of(operation::log, x); }
  /// a where m holds, else b.
  static traced select(const traced_mask& m, const traced& a, const traced& b) { return traced_math::select(m, a, b); }

  /// e^x - 1
  static traced expm1(const traced& x) { return select(near_zero(x), x * x * polynomial(x) + x, exp(x) - traced(1)); }
  /// e^x - 1 - x. Infinity less infinity is no number, so x is limited by what has an infinite exponential.
  static traced excess(const traced& x) {
    const traced highest(static_cast<double>(exp_constants<float>::highest));
    return select(near_zero(x), x * x * polynomial(x), (exp(x) - traced(1)) - min(x, highest));
  }
  /// log(1 + x): u = 1 + x, and log(u + lost) = log u + lost / u for what the sum lost.
  static traced log1p(const traced& x) {
    const traced u = traced(1) + x, lost = x - (u - traced(1)), y = log(u);
    const traced_mask inside = (traced(0) < u) & (u < traced(std::numeric_limits<double>::infinity()));
    return select((u <= traced(1)) & (traced(1) <= u), x, select(inside, y + lost / u, y));
  }
  /// 1 / (1 + e^-x)
  static traced sigmoid(const traced& x) {
    const traced e = exp(-abs(x));
    return select(traced(0) <= x, traced(1), e) / (traced(1) + e);
  }
  /// log(1 + e^x)
  static traced softplus(const traced& x) { return max(x, traced(0)) + log1p(exp(-abs(x))); }
  /// b where it is the smaller one, else a.
  static traced min(const traced& a, const traced& b) { return select(b < a, b, a); }
  /// b where it is the larger one, else a.
  static traced max(const traced& a, const traced& b) { return select(a < b, b, a); }
  /// x limited to [low, high].
  static traced clamp(const traced& x, const traced& low, const traced& high) {
    return select(x < low, low, select(high < x, high, x));
  }
  /// |x|
  static traced abs(const traced& x) { return select(x < traced(0), -x, x); }
  /// -1, 0 or 1; NaN stays NaN.
  static traced sign(const traced& x) { return select(traced(0) < x, traced(1), select(x < traced(0), traced(-1), x)); }
};

namespace detail {

/// What one step computes of its operands, by few_operations.
inline traced expanded_step(const traced_step& s, const traced& a, const traced& b, const traced& c) {
  using few = few_operations;
  const traced_mask m{a.node}, n{b.node};
  switch (s.what) {
    case operation::equal:
      return traced(((a <= b) & (b <= a)).node);
    case operation::logical_or:
      return traced((!((!m) & (!n))).node);
    case operation::min:
      return few::min(a, b);
    case operation::max:
      return few::max(a, b);
    case operation::clamp:
      return few::clamp(a, b, c);
    case operation::abs:
      return few::abs(a);
    case operation::sign:
      return few::sign(a);
    case operation::expm1:
      return few::expm1(a);
    case operation::log1p:
      return few::log1p(a);
    case operation::excess:
      return few::excess(a);
    case operation::sigmoid:
      return few::sigmoid(a);
    case operation::softplus:
      return few::softplus(a);
    default:
      return traced(expression_of(s.what, a, b, c));
  }
}

}  // namespace detail

/// The same program without the operations that the device lacks: `has(p, step)` says which it keeps. It has to keep
/// inputs, constants, + - * /, negation, < and <=, "and", "not", select, exp, log and the square root.
template <class Has>
traced_program expanded(const traced_program& p, const Has& has) {
  std::vector<traced> value(p.steps.size());
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const traced_step& s = p.steps[i];
    if (s.what == operation::input) {
      value[i] = traced::field_value(s.input, s.row);
    } else if (s.what == operation::constant) {
      value[i] = traced(s.number);
    } else {
      traced x[3];
      for (std::size_t k = 0; k < form_of(s.what).operands; ++k) x[k] = value[s.operands[k]];
      value[i] = has(p, s) ? traced(detail::expression_of(s.what, x[0], x[1], x[2]))
                           : detail::expanded_step(s, x[0], x[1], x[2]);
    }
  }
  program_writer writer;
  for (const traced_result& r : p.results) writer.result(r.name, value[r.step]);
  return writer.finish();
}

RLCORE_ALGORITHM_END
RLCORE_END
