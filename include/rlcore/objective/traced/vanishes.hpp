// Which results of a program are 0 whatever the other fields are.
#pragma once

#include <cstddef>
#include <vector>

#include "rlcore/objective/piece/field.hpp"
#include "rlcore/objective/traced/operation.hpp"
#include "rlcore/objective/traced/program.hpp"

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

RLCORE_END
