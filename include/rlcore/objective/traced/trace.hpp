// Tracing: records the operations of a piece as a program.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "rlcore/objective/loop/detail/row.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/objective/traced/program.hpp"
#include "rlcore/objective/traced/simplify.hpp"
#include "rlcore/objective/traced/value.hpp"
#include "rlcore/simd/math.hpp"

RLCORE_BEGIN
/// For every step of p, whether it is 0 where field `f` is 0 and everything else is finite. False where that does not
/// show in the operations alone.
inline std::vector<bool> steps_that_vanish(const traced_program& p, field f) {
  std::vector<bool> zero;
  const auto number = [&](std::size_t i) { return p.steps[i].number; };
  const auto is_number = [&](std::size_t i) { return p.steps[i].what == operation::constant; };
  for (const traced_step& s : p.steps) {
    const auto of = [&](std::size_t k) -> bool { return zero[s.operands[k]]; };
    switch (s.what) {
      case operation::input:
        zero.push_back(s.input == f);
        break;
      case operation::constant:
        zero.push_back(s.number == 0);
        break;
      case operation::multiply:
        zero.push_back(of(0) || of(1));
        break;
      case operation::divide:
        zero.push_back(of(0) && is_number(s.operands[1]) && number(s.operands[1]) != 0);
        break;
      case operation::add:
      case operation::subtract:
      case operation::min:
      case operation::max:
        zero.push_back(of(0) && of(1));
        break;
      case operation::select:
        zero.push_back(of(1) && of(2));
        break;
      case operation::multiply_add:
        zero.push_back((of(0) || of(1)) && of(2));
        break;
      case operation::negate:
      case operation::abs:
      case operation::sign:
      case operation::expm1:
      case operation::log1p:
      case operation::excess:
      case operation::sqrt:
        zero.push_back(of(0));
        break;
      default:
        zero.push_back(false);
    }
  }
  return zero;
}

RLCORE_ALGORITHM_BEGIN
/// The functions of traced_math by arithmetic, comparisons, select, exp and log alone: the formulas of fast_math for
/// floats, which lose no digits near 0.
struct basic_op_math {
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
  /// e^x - 1 - x. inf - inf is NaN, so x is limited by what has an infinite exponential.
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

/// The result of one step, by basic_op_math.
inline traced expanded_step(const traced_step& s, const traced& a, const traced& b, const traced& c) {
  using few = basic_op_math;
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
    case operation::multiply_add:
      return a * b + c;
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

namespace detail {

/// A token whose fields are inputs of row 0 or 1.
inline token<traced> traced_token(int row) {
  token<traced> t;
  for (std::size_t f = 0; f < field_count; ++f) t.*field_member<traced>[f] = traced::field_value(field_at(f), row);
  return t;
}

/// Adds the monitors of P.
template <class P, class Term>
traced_program finish_trace(program_writer& writer, const Term& t) {
  if constexpr (monitor_count < P >> 0)
    for (std::size_t m = 0; m < monitor_count<P>; ++m) writer.result(monitors_of<P>()[m], t.monitor[m]);
  return writer.finish();
}

}  // namespace detail

/// The program of a token piece, or of a link of one row, with its settings as they are: results "value", "slope" and
/// the monitors. A piece that branches on a value does not compile.
template <class P>
  requires(!pair_link<P>)
traced_program trace(const P& piece) {
  program_writer writer;
  const auto t = piece.template operator()<traced_math, traced>(detail::traced_token(0));
  writer.result("value", t.value);
  writer.result("slope", t.slope);
  return detail::finish_trace<P>(writer, t);
}

/// The program of a pair link: results "value", "slope_chosen", "slope_rejected" and the monitors.
template <pair_link L>
traced_program trace(const L& link) {
  program_writer writer;
  const auto t = link.template operator()<traced_math, traced>(detail::traced_token(0), detail::traced_token(1));
  writer.result("value", t.value);
  writer.result("slope_chosen", t.slope_chosen);
  writer.result("slope_rejected", t.slope_rejected);
  return detail::finish_trace<L>(writer, t);
}

namespace detail {

/// Adds the value and the monitors of piece `Index`, and its slope, times its coefficient, to that of its field.
template <std::size_t Index, class Objective>
void trace_piece(const Objective& objective, program_writer& writer, const token<traced>& fields,
                 std::array<traced, field_count>& slope) {
  using piece = piece_type<Index, Objective>;
  const auto t = piece_at<Index>(objective).template operator()<traced_math, traced>(fields);
  writer.result(piece::name, t.value);
  if constexpr (monitor_count < piece >> 0)
    for (std::size_t m = 0; m < monitor_count<piece>; ++m) writer.result(monitors_of<piece>()[m], t.monitor[m]);
  const traced coefficient(coefficient_at<Index>(objective));
  std::size_t f = 0;
  while (field_at(f) != wrt_of<piece>()) ++f;
  slope[f] = structure<Objective>::first_with_output(Index)
                 ? t.slope * coefficient
                 : traced::of(operation::multiply_add, t.slope, coefficient, slope[f]);  // as the pack loop has it
}

}  // namespace detail

/// The program of a token objective. Results: of each piece its value and its monitors, in the order of a report; then
/// the slope of the whole by each field that it has one by, in the order of fields, under the field's name.
template <class Objective>
traced_program trace_objective(const Objective& objective) {
  using shape = detail::structure<Objective>;
  const token<traced> fields = detail::traced_token(0);
  program_writer writer;
  std::array<traced, field_count> slope;
  [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    (detail::trace_piece<Index>(objective, writer, fields, slope), ...);
  }(std::make_index_sequence<shape::pieces>{});
  for (std::size_t f = 0; f < field_count; ++f)
    if (contains(shape::outputs, field_at(f))) writer.result(field_names[f], slope[f]);
  return writer.finish();
}

RLCORE_ALGORITHM_END
RLCORE_END
