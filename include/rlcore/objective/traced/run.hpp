// Interpreter: runs a traced program on the host.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/traced/program.hpp"
#include "rlcore/simd/exact.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
/// The result of one operation, by exact_math; truth values are 1 and 0.
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
    case operation::multiply_add:
      return a * b + c;
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

/// One array that a program reads: element (i, t) is data[i row_stride + t token_stride]. A stride of 0 repeats:
/// token_stride 0 means one value per row.
template <class T>
struct program_input {
  const T* data = nullptr;
  extent_t row_stride = 0, token_stride = 0;
};

/// The arrays of a program: `rows` rows of `width` slots, in the memory of the executor.
template <class T>
struct program_arrays {
  extent_t rows = 0, width = 0;
  program_input<T> input[2][field_count];  ///< by row (1: of the rejected row of a pair link) and number of the field
  program_input<T> live{};                 ///< a slot counts where this is above 0; without data all do
  std::span<T* const> results{};           ///< one array [rows, width] without gaps for each result; null: not wanted

  /// The input of a step. Throws std::invalid_argument if it has no data.
  const program_input<T>& of(const traced_step& s) const {
    std::size_t f = 0;
    while (field_at(f) != s.input) ++f;
    const program_input<T>& found = input[s.row][f];
    if (found.data == nullptr)
      throw std::invalid_argument("rlcore: a program reads " + std::string(field_names[f]) +
                                  (s.row == 0 ? "" : " of the rejected row") + ", which it was not given");
    return found;
  }
};

/// e.run_program(p, arrays) computes all wanted results of p at every slot. A slot that does not count gets 0 by
/// choice, not by multiplication: nothing that lies in its inputs reaches a result.
template <class E, class T = float>
concept program_executor =
    requires(E& e, const traced_program& p, const program_arrays<T>& arrays) { e.run_program(p, arrays); };

/// The host as an executor: slot by slot, in float64. Slow; the reference for all other executors.
struct host_program_executor {
  /// Computes all wanted results of p at every slot.
  template <class T>
  void run_program(const traced_program& p, const program_arrays<T>& arrays) const {
    for (extent_t i = 0; i < arrays.rows; ++i)
      for (extent_t t = 0; t < arrays.width; ++t) run_slot(p, arrays, i, t);
  }

 private:
  template <class T>
  static double at(const program_input<T>& x, extent_t i, extent_t t) {
    return static_cast<double>(x.data[i * x.row_stride + t * x.token_stride]);
  }
  template <class T>
  static void run_slot(const traced_program& p, const program_arrays<T>& arrays, extent_t i, extent_t t) {
    const bool live = arrays.live.data == nullptr || at(arrays.live, i, t) > 0;
    token<double> fields[2] = {};
    if (live)
      for (const traced_step& s : p.steps)
        if (s.what == operation::input)
          for (std::size_t f = 0; f < field_count; ++f)
            if (field_at(f) == s.input) fields[s.row].*field_member<double>[f] = at(arrays.of(s), i, t);
    const std::vector<double> values = live ? run(p, fields[0], fields[1]) : std::vector<double>(p.results.size(), 0.0);
    for (std::size_t r = 0; r < values.size(); ++r)
      if (arrays.results[r] != nullptr) arrays.results[r][i * arrays.width + t] = static_cast<T>(values[r]);
  }
};
static_assert(program_executor<host_program_executor, double>);

RLCORE_END
