// Traced program: a loss as a list of operations, for devices that compile it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
/// One step of a traced program. Truth values (of comparisons and of the logical operations) are 1 and 0.
enum class operation : std::uint8_t {
  input,         ///< a field of the token
  constant,      ///< a number: a setting or a literal
  add,           ///< a + b
  subtract,      ///< a - b
  multiply,      ///< a b
  divide,        ///< a / b
  negate,        ///< -a
  less,          ///< a < b, false where either is NaN
  less_equal,    ///< a <= b, false where either is NaN
  equal,         ///< a == b, false where either is NaN
  logical_and,   ///< both of two truth values
  logical_or,    ///< either of two truth values
  logical_not,   ///< the opposite of a truth value
  select,        ///< b where a is true, else c; the unselected one may be NaN
  min,           ///< b where it is the smaller one, else a
  max,           ///< b where it is the larger one, else a
  clamp,         ///< a limited to [b, c]; NaN stays NaN
  abs,           ///< |a|
  sign,          ///< -1, 0 or 1; NaN stays NaN
  exp,           ///< e^a
  log,           ///< log a
  expm1,         ///< e^a - 1
  log1p,         ///< log(1 + a)
  excess,        ///< e^a - 1 - a
  sqrt,          ///< the square root
  sigmoid,       ///< 1 / (1 + e^-a)
  softplus,      ///< log(1 + e^a)
  multiply_add,  ///< a b + c, with one rounding where the executor has it
};

/// How an operation is written, and how many operands it has.
struct operation_form {
  std::string_view text;  ///< an infix sign, or the name of a function
  std::size_t operands;
  bool infix = false;
  bool commutes = false;  ///< the order of the two operands does not matter
};

/// The form of every operation, in their order.
inline constexpr std::array<operation_form, 28> operation_forms{{
    {"input", 0},
    {"constant", 0},
    {"+", 2, true, true},
    {"-", 2, true},
    {"*", 2, true, true},
    {"/", 2, true},
    {"-", 1},
    {"<", 2, true},
    {"<=", 2, true},
    {"==", 2, true, true},
    {"and", 2, true, true},
    {"or", 2, true, true},
    {"not ", 1},
    {"select", 3},
    {"min", 2},
    {"max", 2},
    {"clamp", 3},
    {"abs", 1},
    {"sign", 1},
    {"exp", 1},
    {"log", 1},
    {"expm1", 1},
    {"log1p", 1},
    {"excess", 1},
    {"sqrt", 1},
    {"sigmoid", 1},
    {"softplus", 1},
    {"multiply_add", 3},
}};

/// The form of `what`.
constexpr const operation_form& form_of(operation what) noexcept {
  return operation_forms[static_cast<std::size_t>(what)];
}

/// One step of a program: an operation on the results of earlier steps.
struct traced_step {
  operation what = operation::constant;
  std::array<std::size_t, 3> operands{};  ///< numbers of steps, as many as the operation has
  double number = 0;                      ///< of a constant
  field input = field::none;              ///< of an input
  int row = 0;                            ///< of an input: 1 for the rejected row of a pair link

  bool operator==(const traced_step&) const = default;
};

/// A named result of a program: the result of one of its steps.
struct traced_result {
  std::string_view name;  ///< "value", "slope" (of a pair link "slope_chosen", "slope_rejected"), or a monitor's
  std::size_t step = 0;
};

/// Steps in the order in which they run, without one that is not needed or computed twice. Settings are constants.
struct traced_program {
  std::vector<traced_step> steps;
  std::vector<traced_result> results;  ///< value, slope or slopes, monitors

  /// Steps that compute: not inputs and constants.
  std::size_t operations() const noexcept {
    std::size_t n = 0;
    for (const traced_step& s : steps) n += s.what != operation::input && s.what != operation::constant;
    return n;
  }
};

RLCORE_END
