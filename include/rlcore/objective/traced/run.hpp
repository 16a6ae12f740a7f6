// A traced program on the host, one token at a time in float64: what every other executor is checked against.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/objective/piece/field.hpp"
#include "rlcore/objective/traced/program.hpp"
#include "rlcore/simd/exact.hpp"

RLCORE_BEGIN

/// What one operation makes of its operands, by exact_math; truth values are 1 and 0.
inline double run_operation(operation what, double a, double b, double c) noexcept {
  using math = exact_math;
  switch (what) {
    case operation::input:
    case operation::constant:
      return a;
    case operation::add:
      return a + b;
    case operation::subtract:
      return a - b;
    case operation::multiply:
      return a * b;
    case operation::divide:
      return a / b;
    case operation::negate:
      return -a;
    case operation::less:
      return a < b ? 1 : 0;
    case operation::less_equal:
      return a <= b ? 1 : 0;
    case operation::equal:
      return a == b ? 1 : 0;
    case operation::logical_and:
      return a != 0 && b != 0 ? 1 : 0;
    case operation::logical_or:
      return a != 0 || b != 0 ? 1 : 0;
    case operation::logical_not:
      return a != 0 ? 0 : 1;
    case operation::select:
      return a != 0 ? b : c;
    case operation::min:
      return math::min(a, b);
    case operation::max:
      return math::max(a, b);
    case operation::clamp:
      return math::clamp(a, b, c);
    case operation::abs:
      return math::abs(a);
    case operation::sign:
      return math::sign(a);
    case operation::exp:
      return math::exp(a);
    case operation::log:
      return math::log(a);
    case operation::expm1:
      return math::expm1(a);
    case operation::log1p:
      return math::log1p(a);
    case operation::excess:
      return math::excess(a);
    case operation::sqrt:
      return math::sqrt(a);
    case operation::sigmoid:
      return math::sigmoid(a);
    case operation::softplus:
      return math::softplus(a);
  }
  return 0;
}

/// The results of `p` for one token, in the order of p.results; of a pair link for the chosen and the rejected row.
inline std::vector<double> run(const traced_program& p, const token<double>& t, const token<double>& rejected = {}) {
  std::vector<double> of(p.steps.size());
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const traced_step& s = p.steps[i];
    if (s.what == operation::input) {
      std::size_t f = 0;
      while (field_at(f) != s.input) ++f;
      of[i] = (s.row == 0 ? t : rejected).*field_member<double>[f];
    } else if (s.what == operation::constant) {
      of[i] = s.number;
    } else {
      std::array<double, 3> x{};
      for (std::size_t k = 0; k < form_of(s.what).operands; ++k) x[k] = of[s.operands[k]];
      of[i] = run_operation(s.what, x[0], x[1], x[2]);
    }
  }
  std::vector<double> results;
  for (const traced_result& r : p.results) results.push_back(of[r.step]);
  return results;
}

RLCORE_END
