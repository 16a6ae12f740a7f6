// A piece as a straight-line program: what a device runs that cannot call the piece itself.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/objective/piece/field.hpp"
#include "rlcore/objective/traced/operation.hpp"

RLCORE_BEGIN

/// One step of a program: an operation on the results of earlier steps.
struct traced_step {
  operation what = operation::constant;
  std::array<std::size_t, 3> operands{};  ///< numbers of steps, as many as the operation has
  double number = 0;                      ///< of a constant
  field input = field::none;              ///< of an input
  int row = 0;                            ///< of an input: 1 for the rejected row of a pair link

  bool operator==(const traced_step&) const = default;
};

/// What a program computes under a name: the result of one of its steps.
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
