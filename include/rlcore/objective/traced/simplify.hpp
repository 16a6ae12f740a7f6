// Simplifies traced expressions to steps: common subexpressions, dead code and constants, with bit-identical results.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/objective/traced/program.hpp"
#include "rlcore/objective/traced/run.hpp"
#include "rlcore/objective/traced/value.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// Converts expressions to steps. Equal expressions become one step (a + b equals b + a), operations on constants
/// become constants, and no-ops disappear: -(-a), a * 1, a / 1, a - 0, select(c, a, a), a < -inf. Sums with 0 and
/// products with 0 or -1 stay where they would change a NaN, an infinity or the sign of a zero.
class program_writer {
 public:
  /// Adds a result.
  void result(std::string_view name, const traced& value) {
    kept_.push_back(value);
    program_.results.push_back({name, number_of(value.node.get())});
  }

  /// The program of all results, without steps that none of them needs.
  traced_program finish() {
    std::vector<bool> needed(program_.steps.size());
    for (const traced_result& r : program_.results) needed[r.step] = true;
    for (std::size_t i = program_.steps.size(); i-- > 0;)
      if (needed[i])
        for (std::size_t k = 0; k < operands(i); ++k) needed[program_.steps[i].operands[k]] = true;
    traced_program kept;
    std::vector<std::size_t> place(program_.steps.size());
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      if (!needed[i]) continue;
      place[i] = kept.steps.size();
      kept.steps.push_back(program_.steps[i]);
      for (std::size_t k = 0; k < operands(i); ++k)
        kept.steps.back().operands[k] = place[program_.steps[i].operands[k]];
    }
    for (const traced_result& r : program_.results) kept.results.push_back({r.name, place[r.step]});
    return kept;
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  using key = std::tuple<operation, std::size_t, std::size_t, std::size_t, std::uint64_t, unsigned, int>;

  std::size_t operands(std::size_t step) const { return form_of(program_.steps[step].what).operands; }
  const traced_step& at(std::size_t step) const { return program_.steps[step]; }
  bool is_number(std::size_t step, double number) const {
    return at(step).what == operation::constant &&
           std::bit_cast<std::uint64_t>(at(step).number) == std::bit_cast<std::uint64_t>(number);
  }

  /// The step of an expression; one that other expressions share is visited once. V{} is 0.
  std::size_t number_of(const expression* e) {
    if (e == nullptr) return added({operation::constant, {}, 0, field::none, 0});
    if (const auto found = seen_.find(e); found != seen_.end()) return found->second;
    traced_step s{e->what, {}, e->number, e->input, e->row};
    for (std::size_t k = 0; k < form_of(e->what).operands; ++k) s.operands[k] = number_of(e->operands[k].get());
    return seen_[e] = simplified(s);
  }

  std::size_t simplified(traced_step s) {
    const auto [a, b, c] = s.operands;
    switch (s.what) {
      case operation::negate:
        if (at(a).what == operation::negate) return at(a).operands[0];
        break;
      case operation::logical_not:
        if (at(a).what == operation::logical_not) return at(a).operands[0];
        break;
      case operation::multiply:
        if (is_number(a, 1)) return b;
        if (is_number(b, 1)) return a;
        break;
      case operation::divide:
        if (is_number(b, 1)) return a;
        break;
      case operation::multiply_add:
        if (is_number(a, 1)) return added({operation::add, {b, c}});
        if (is_number(b, 1)) return added({operation::add, {a, c}});
        break;
      case operation::subtract:
        if (is_number(b, 0)) return a;
        break;
      case operation::less:  // nothing is below -inf or above inf
        if (is_number(b, -infinity) || is_number(a, infinity)) return added({operation::constant, {}, 0});
        break;
      case operation::logical_or:
        if (is_number(a, 0) || is_number(b, 1)) return b;
        if (is_number(b, 0) || is_number(a, 1)) return a;
        break;
      case operation::logical_and:
        if (is_number(a, 1) || is_number(b, 0)) return b;
        if (is_number(b, 1) || is_number(a, 0)) return a;
        break;
      case operation::select:
        if (b == c) return b;
        if (at(a).what == operation::constant) return at(a).number != 0 ? b : c;
        break;
      default:
        break;
    }
    return added(folded(s));
  }

  /// An operation on constants as the constant that it gives.
  traced_step folded(const traced_step& s) const {
    const std::size_t count = form_of(s.what).operands;
    std::array<double, 3> x{};
    for (std::size_t k = 0; k < count; ++k) {
      if (at(s.operands[k]).what != operation::constant) return s;
      x[k] = at(s.operands[k]).number;
    }
    if (count == 0) return s;
    return {operation::constant, {}, run_operation(s.what, x[0], x[1], x[2]), field::none, 0};
  }

  /// The number of an equal step, or of this one behind all others.
  std::size_t added(traced_step s) {
    if (form_of(s.what).commutes && s.operands[1] < s.operands[0]) std::swap(s.operands[0], s.operands[1]);
    const key k{s.what,
                s.operands[0],
                s.operands[1],
                s.operands[2],
                std::bit_cast<std::uint64_t>(s.number),
                static_cast<unsigned>(s.input),
                s.row};
    const auto [found, fresh] = numbers_.try_emplace(k, program_.steps.size());
    if (fresh) program_.steps.push_back(s);
    return found->second;
  }

  traced_program program_;
  std::map<key, std::size_t> numbers_;
  std::unordered_map<const expression*, std::size_t> seen_;
  std::vector<traced> kept_;  // their expressions, so that seen_ has no address of another one
};

RLCORE_ALGORITHM_END
RLCORE_END
