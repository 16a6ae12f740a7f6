// Traced value, which records how it was computed: the V with which a piece is traced to a program.
#pragma once

#include <array>
#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/traced/program.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// A computed value: its operation and operands. Shared by all that use it.
struct expression {
  operation what = operation::constant;
  double number = 0;          ///< of a constant
  field input = field::none;  ///< of an input
  int row = 0;                ///< of an input: 1 for the second row that a pair link is shown
  std::array<std::shared_ptr<const expression>, 3> operands;
};

namespace detail {

template <class>
inline constexpr bool never = false;

template <class... Operands>
std::shared_ptr<const expression> expression_of(operation what, const Operands&... operands) {
  return std::make_shared<const expression>(expression{what, 0, field::none, 0, {operands.node...}});
}

}  // namespace detail

/// A truth value that records how it was computed. Choose with Math::select.
struct traced_mask {
  std::shared_ptr<const expression> node;

  /// Both.
  friend traced_mask operator&(const traced_mask& a, const traced_mask& b) {
    return {detail::expression_of(operation::logical_and, a, b)};
  }
  /// Either.
  friend traced_mask operator|(const traced_mask& a, const traced_mask& b) {
    return {detail::expression_of(operation::logical_or, a, b)};
  }
  /// The opposite.
  friend traced_mask operator!(const traced_mask& a) { return {detail::expression_of(operation::logical_not, a)}; }

  /// A branch on it does not compile: one evaluation stands for every token.
  template <std::same_as<bool> Truth>
  operator Truth() const noexcept {
    static_assert(
        detail::never<Truth>,
        "rlcore: a piece must not branch on a value (if, ?:, &&, ||, while; std::max, std::min and std::clamp "
        "do): one evaluation stands for many tokens; compute both results and choose with "
        "Math::select(condition, a, b), Math::max, Math::min or Math::clamp, join conditions with Math::all and "
        "Math::any");
    return false;
  }
};

/// The second operand of a traced number in a + b, a < b: a literal or a setting.
template <class N>
concept plain_number = std::is_arithmetic_v<N>;

/// A number that records how it was computed.
struct traced {
  std::shared_ptr<const expression> node;

  /// V{}: 0.
  traced() = default;
  /// What `n` computes.
  explicit traced(std::shared_ptr<const expression> n) noexcept : node(std::move(n)) {}
  /// A constant: a literal, or a setting as it is now.
  traced(double number)
      : node(std::make_shared<const expression>(expression{operation::constant, number, field::none, 0, {}})) {}

  /// A field of the token, of row 1 for the second token of a pair link.
  static traced field_value(field f, int row) {
    return traced(std::make_shared<const expression>(expression{operation::input, 0, f, row, {}}));
  }

  /// It is no double: std::exp(x) and its like want one, and do not compile.
  template <std::same_as<double> Number>
  operator Number() const noexcept {
    static_assert(
        detail::never<Number>,
        "rlcore: a piece must not make a double of a value: std::exp, std::log, std::sqrt, std::abs, std::pow "
        "and the rest of <cmath> know one number, and one evaluation stands for many tokens; call Math::exp, "
        "Math::log, Math::sqrt, Math::abs, ..., and write x * x for a power");
    return 0;
  }
  /// Nor any other number or truth value: if (x) and float(x) do not compile.
  template <class Number>
    requires(std::is_arithmetic_v<Number> && !std::same_as<Number, double>)
  explicit operator Number() const noexcept {
    static_assert(detail::never<Number>,
                  "rlcore: a piece must not branch on a value or convert it to a type of its own (if (x), float(x), "
                  "int(x)): one evaluation stands for many tokens; compare, x > V(0), and choose with "
                  "Math::select(condition, a, b)");
    return {};
  }

  friend traced operator+(const traced& a, const traced& b) { return of(operation::add, a, b); }
  friend traced operator-(const traced& a, const traced& b) { return of(operation::subtract, a, b); }
  friend traced operator*(const traced& a, const traced& b) { return of(operation::multiply, a, b); }
  friend traced operator/(const traced& a, const traced& b) { return of(operation::divide, a, b); }
  friend traced operator-(const traced& a) { return of(operation::negate, a); }
  friend traced operator+(const traced& a) { return a; }
  /// The sum takes the place of the value.
  traced& operator+=(const traced& b) { return *this = *this + b; }
  /// The difference takes the place of the value.
  traced& operator-=(const traced& b) { return *this = *this - b; }
  /// The product takes the place of the value.
  traced& operator*=(const traced& b) { return *this = *this * b; }
  /// The quotient takes the place of the value.
  traced& operator/=(const traced& b) { return *this = *this / b; }

  friend traced_mask operator<(const traced& a, const traced& b) {
    return {detail::expression_of(operation::less, a, b)};
  }
  friend traced_mask operator>(const traced& a, const traced& b) { return b < a; }
  friend traced_mask operator<=(const traced& a, const traced& b) {
    return {detail::expression_of(operation::less_equal, a, b)};
  }
  friend traced_mask operator>=(const traced& a, const traced& b) { return b <= a; }
  friend traced_mask operator==(const traced& a, const traced& b) {
    return {detail::expression_of(operation::equal, a, b)};
  }
  friend traced_mask operator!=(const traced& a, const traced& b) { return !(a == b); }

  // with a literal, as with traced(literal): exact matches, so that nothing asks for the double of a traced value
  friend traced operator+(const traced& a, plain_number auto b) { return a + traced(static_cast<double>(b)); }
  friend traced operator+(plain_number auto a, const traced& b) { return traced(static_cast<double>(a)) + b; }
  friend traced operator-(const traced& a, plain_number auto b) { return a - traced(static_cast<double>(b)); }
  friend traced operator-(plain_number auto a, const traced& b) { return traced(static_cast<double>(a)) - b; }
  friend traced operator*(const traced& a, plain_number auto b) { return a * traced(static_cast<double>(b)); }
  friend traced operator*(plain_number auto a, const traced& b) { return traced(static_cast<double>(a)) * b; }
  friend traced operator/(const traced& a, plain_number auto b) { return a / traced(static_cast<double>(b)); }
  friend traced operator/(plain_number auto a, const traced& b) { return traced(static_cast<double>(a)) / b; }
  friend traced_mask operator<(const traced& a, plain_number auto b) { return a < traced(static_cast<double>(b)); }
  friend traced_mask operator<(plain_number auto a, const traced& b) { return traced(static_cast<double>(a)) < b; }
  friend traced_mask operator>(const traced& a, plain_number auto b) { return a > traced(static_cast<double>(b)); }
  friend traced_mask operator>(plain_number auto a, const traced& b) { return traced(static_cast<double>(a)) > b; }
  friend traced_mask operator<=(const traced& a, plain_number auto b) { return a <= traced(static_cast<double>(b)); }
  friend traced_mask operator<=(plain_number auto a, const traced& b) { return traced(static_cast<double>(a)) <= b; }
  friend traced_mask operator>=(const traced& a, plain_number auto b) { return a >= traced(static_cast<double>(b)); }
  friend traced_mask operator>=(plain_number auto a, const traced& b) { return traced(static_cast<double>(a)) >= b; }
  friend traced_mask operator==(const traced& a, plain_number auto b) { return a == traced(static_cast<double>(b)); }
  friend traced_mask operator==(plain_number auto a, const traced& b) { return traced(static_cast<double>(a)) == b; }
  friend traced_mask operator!=(const traced& a, plain_number auto b) { return a != traced(static_cast<double>(b)); }
  friend traced_mask operator!=(plain_number auto a, const traced& b) { return traced(static_cast<double>(a)) != b; }

  /// The result of an operation.
  template <class... Operands>
  static traced of(operation what, const Operands&... operands) {
    return traced(detail::expression_of(what, operands...));
  }
};

/// The functions of exact_math and fast_math for traced values.
struct traced_math {
  /// a where the condition holds, else b.
  static traced select(const traced_mask& condition, const traced& a, const traced& b) {
    return traced::of(operation::select, condition, a, b);
  }
  /// Whether all conditions hold.
  template <class... M>
  static traced_mask all(const traced_mask& first, const M&... rest) {
    return (first & ... & rest);
  }
  /// Whether any of the conditions holds.
  template <class... M>
  static traced_mask any(const traced_mask& first, const M&... rest) {
    return (first | ... | rest);
  }
  /// b where it is the smaller one, else a.
  static traced min(const traced& a, const traced& b) { return traced::of(operation::min, a, b); }
  /// b where it is the larger one, else a.
  static traced max(const traced& a, const traced& b) { return traced::of(operation::max, a, b); }
  /// x limited to [low, high].
  static traced clamp(const traced& x, const traced& low, const traced& high) {
    return traced::of(operation::clamp, x, low, high);
  }
  /// |x|
  static traced abs(const traced& x) { return traced::of(operation::abs, x); }
  /// -1, 0 or 1
  static traced sign(const traced& x) { return traced::of(operation::sign, x); }
  /// e^x
  static traced exp(const traced& x) { return traced::of(operation::exp, x); }
  /// log x
  static traced log(const traced& x) { return traced::of(operation::log, x); }
  /// e^x - 1
  static traced expm1(const traced& x) { return traced::of(operation::expm1, x); }
  /// log(1 + x)
  static traced log1p(const traced& x) { return traced::of(operation::log1p, x); }
  /// e^x - 1 - x
  static traced excess(const traced& x) { return traced::of(operation::excess, x); }
  /// The square root.
  static traced sqrt(const traced& x) { return traced::of(operation::sqrt, x); }
  /// 1 / (1 + e^-x)
  static traced sigmoid(const traced& x) { return traced::of(operation::sigmoid, x); }
  /// log(1 + e^x)
  static traced softplus(const traced& x) { return traced::of(operation::softplus, x); }
};

RLCORE_ALGORITHM_END
RLCORE_END
