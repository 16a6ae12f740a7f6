// A traced program as C++ or CUDA source, and as readable text.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score.hpp"
#include "rlcore/objective/traced/program.hpp"
#include "rlcore/objective/traced/run.hpp"
#include "rlcore/objective/traced/trace.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The language of the source text.
enum class source_language { cpp, cuda };

/// The inputs of `p` in the order in which its source text needs them. Throws std::invalid_argument if one has no data.
template <class T>
std::vector<program_input<T>> source_inputs(const traced_program& p, const program_arrays<T>& arrays) {
  std::vector<program_input<T>> inputs;
  for (const traced_step& s : p.steps)
    if (s.what == operation::input) inputs.push_back(arrays.of(s));
  return inputs;
}

/// What the functions of program_source() use: to be written once, before them. `type` is float or double.
inline std::string source_prelude(source_language language, std::string_view type = "float") {
  const bool cuda = language == source_language::cuda;
  const std::string f = std::string(cuda ? "static __device__ __forceinline__ " : "static inline ") + "real ";
  std::string text = cuda ? "#ifndef NAN\n#define NAN __int_as_float(0x7fc00000)\n#endif\n"  // NVRTC has neither
                            "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif\n"
                          : "#include <cmath>\nusing namespace std;\n";
  text += "typedef " + std::string(type) + " real;\n";
  text += "struct rlcore_input { const real* data; long long row_stride, token_stride; };\n";
  text += f + "rlcore_min(real a, real b) { return b < a ? b : a; }\n";
  text += f + "rlcore_max(real a, real b) { return b > a ? b : a; }\n";
  text += f + "rlcore_clamp(real x, real low, real high) { return x < low ? low : x > high ? high : x; }\n";
  text += f + "rlcore_abs(real x) { return x < 0 ? -x : x; }\n";
  text += f + "rlcore_sign(real x) { return x > 0 ? real(1) : x < 0 ? real(-1) : x; }\n";
  text += f + "rlcore_sigmoid(real x) { real e = exp(-rlcore_abs(x)); return (x >= 0 ? real(1) : e) / (1 + e); }\n";
  text += f + "rlcore_softplus(real x) { return rlcore_max(x, real(0)) + log1p(exp(-rlcore_abs(x))); }\n";
  text += f +
          "rlcore_excess(real x) {\n"
          "  if (x > real(1e30)) return expm1(x);\n"
          "  if (!(x <= real(0.5) && x >= real(-0.5))) return expm1(x) - x;\n"
          "  real s = 1;\n"
          "  for (int k = 18; k > 2; --k) s = 1 + x / k * s;\n"
          "  return x * x / 2 * s;\n"
          "}\n";
  return text;
}

namespace detail {

/// The right side of a step: `t[3] - t[1]`.
inline std::string source_step(const traced_step& s) {
  const auto x = [&](std::size_t k) { return "t" + std::to_string(s.operands[k]); };
  const operation_form& form = form_of(s.what);
  switch (s.what) {
    case operation::constant:
      if (std::isnan(s.number)) return "real(NAN)";
      if (std::isinf(s.number)) return s.number > 0 ? "real(INFINITY)" : "real(-INFINITY)";
      return "real(" + shortest(s.number) + ")";
    case operation::logical_and:
      return x(0) + " && " + x(1);
    case operation::logical_or:
      return x(0) + " || " + x(1);
    case operation::logical_not:
      return "!" + x(0);
    case operation::negate:
      return "-" + x(0);
    case operation::select:
      return x(0) + " ? " + x(1) + " : " + x(2);
    case operation::exp:
    case operation::log:
    case operation::expm1:
    case operation::log1p:
    case operation::sqrt:
      return std::string(form.text) + "(" + x(0) + ")";
    case operation::multiply_add:
      return "fma(" + x(0) + ", " + x(1) + ", " + x(2) + ")";
    default:
      break;
  }
  if (form.infix) return x(0) + " " + std::string(form.text) + " " + x(1);
  std::string text = "rlcore_" + std::string(form.text) + "(" + x(0);
  for (std::size_t k = 1; k < form.operands; ++k) text += ", " + x(k);
  return text + ")";
}

/// Whether a step is a truth value.
inline bool is_truth(operation what) {
  return what == operation::less || what == operation::less_equal || what == operation::equal ||
         what == operation::logical_and || what == operation::logical_or || what == operation::logical_not;
}

/// What happens at slot (i, t): inputs are read, steps computed and results written only where the slot counts.
inline std::string source_body(const traced_program& p, const std::string& indent) {
  std::string text = indent + "if (live.data && !(live.data[i * live.row_stride + t * live.token_stride] > 0)) {\n";
  const std::string at = "[i * width + t]";
  for (std::size_t r = 0; r < p.results.size(); ++r)
    text += indent + "  if (results[" + std::to_string(r) + "]) results[" + std::to_string(r) + "]" + at + " = 0;\n";
  text += indent + "  continue;\n" + indent + "}\n";
  std::size_t inputs = 0;
  for (std::size_t k = 0; k < p.steps.size(); ++k) {
    const traced_step& s = p.steps[k];
    std::string right;
    if (s.what == operation::input) {
      const std::string in = "inputs[" + std::to_string(inputs++) + "]";
      std::size_t f = 0;
      while (field_at(f) != s.input) ++f;
      right = in + ".data[i * " + in + ".row_stride + t * " + in + ".token_stride];  // " +
              (s.row == 0 ? "" : "rejected.") + std::string(field_names[f]);
    } else {
      right = source_step(s) + ";";
    }
    text += indent + "const " + (is_truth(s.what) ? "bool" : "real") + " t" + std::to_string(k) + " = " + right + "\n";
  }
  for (std::size_t r = 0; r < p.results.size(); ++r) {
    const std::string result = "results[" + std::to_string(r) + "]";
    text += indent + "if (" + result + ") " + result + at + " = t" + std::to_string(p.results[r].step) + ";  // " +
            std::string(p.results[r].name) + "\n";
  }
  return text;
}

}  // namespace detail

/// The text of a function that runs `p` over arrays, behind source_prelude():
///
///   extern "C" void name(long long rows, long long width, const rlcore_input* inputs, rlcore_input live,
///                        real* const* results)
///
/// In C++ a loop over all slots, in CUDA a kernel whose threads share them out; all pointers are then of the device.
/// inputs are source_inputs(); results are p.results, null where one is not wanted.
inline std::string program_source(const traced_program& p, const std::string& name, source_language language) {
  const bool cuda = language == source_language::cuda;
  std::string text = std::string("extern \"C\" ") + (cuda ? "__global__ " : "") + "void " + name +
                     "(long long rows, long long width, const rlcore_input* inputs, rlcore_input live, "
                     "real* const* results) {\n";
  if (cuda) {
    text +=
        "  for (long long slot = blockIdx.x * (long long)blockDim.x + threadIdx.x; slot < rows * width;\n"
        "       slot += (long long)gridDim.x * blockDim.x) {\n"
        "    const long long i = slot / width, t = slot % width;\n";
  } else {
    text +=
        "  for (long long slot = 0; slot < rows * width; ++slot) {\n"
        "    const long long i = slot / width, t = slot % width;\n";
  }
  return text + detail::source_body(p, "    ") + "  }\n}\n";
}

namespace detail {

/// The name of every step: a field, a number, or its expression.
class program_text {
 public:
  explicit program_text(const traced_program& p) : program_(p), names_(p.steps.size()) {
    for (const traced_result& r : p.results)
      if (computes(r.step) && names_[r.step].empty()) names_[r.step] = r.name;
    std::size_t next = 1;
    for (std::size_t i = 0; i < p.steps.size(); ++i)
      if (names_[i].empty()) names_[i] = computes(i) ? "t" + std::to_string(next++) : leaf(p.steps[i]);
  }

  /// A line for each step that computes, and one for each result that is another's, a field or a number.
  std::string text(const std::string& indent) const {
    std::size_t width = 0;
    for (const traced_result& r : program_.results) width = std::max(width, r.name.size());
    std::string out;
    const auto line = [&](std::string_view name, const std::string& what) {
      out += indent + std::string(name) + std::string(width - std::min(width, name.size()), ' ') + " = " + what + "\n";
    };
    for (std::size_t i = 0; i < program_.steps.size(); ++i)
      if (computes(i)) line(names_[i], right_side(program_.steps[i]));
    for (const traced_result& r : program_.results)
      if (names_[r.step] != r.name) line(r.name, names_[r.step]);
    return out;
  }

 private:
  bool computes(std::size_t i) const { return form_of(program_.steps[i].what).operands > 0; }

  /// "logp"; the second row of a pair link is the rejected one.
  static std::string leaf(const traced_step& s) {
    if (s.what == operation::constant) return shortest(s.number);
    std::size_t f = 0;
    while (field_at(f) != s.input) ++f;
    return (s.row == 0 ? "" : "rejected.") + std::string(field_names[f]);
  }

  std::string right_side(const traced_step& s) const {
    const operation_form& form = form_of(s.what);
    const auto operand = [&](std::size_t k) { return names_[s.operands[k]]; };
    if (form.infix) return operand(0) + " " + std::string(form.text) + " " + operand(1);
    if (s.what == operation::negate || s.what == operation::logical_not) return std::string(form.text) + operand(0);
    std::string out = std::string(form.text) + "(" + operand(0);
    for (std::size_t k = 1; k < form.operands; ++k) out += ", " + operand(k);
    return out + ")";
  }

  const traced_program& program_;
  std::vector<std::string> names_;
};

}  // namespace detail

/// A program as text, a line for each step: `t1 = logp - old_logp`. The first rows of a pair link are the chosen ones.
inline std::string explain(const traced_program& program, const std::string& indent = {}) {
  return detail::program_text(program).text(indent);
}

namespace detail {

/// A piece with its name, its coefficient and its gather over a row.
template <class P>
std::string explain_piece(const P& piece, double coefficient) {
  std::string out(P::name);
  if (coefficient != 1) out += ", times " + shortest(coefficient);
  out += "\n";
  if constexpr (!std::is_same_v<gathers_of<P>, no_gather>) {
    out += std::string("  gathered = the ") + (gathers_of<P>::averages ? "mean" : "sum") + " over the row of value:\n";
    out += explain(trace(score_of(piece)), "    ");
  }
  return out + explain(trace(piece), "  ");
}

template <class Objective, std::size_t... Index>
std::string explain_pieces(const Objective& objective, std::index_sequence<Index...>) {
  std::string out;
  ((out += explain_piece(piece_at<Index>(objective), coefficient_at<Index>(objective))), ...);
  return out;
}

}  // namespace detail

/// The computation of every piece of an objective for a token, with its current settings; of a sequence objective, for
/// a row or a pair:
///
///   policy
///     t1       = logp - old_logp
///     t2       = exp(t1)
///     ...
///     value    = -t6
template <class Objective>
  requires(composite_piece<Objective> || token_piece<Objective> || pair_link<Objective>)
std::string explain(const Objective& objective) {
  return detail::explain_pieces(objective, std::make_index_sequence<piece_count<Objective>>{});
}
/// The same for a sequence objective: its gather over a row into logp, then its link.
template <class Gather, class Link>
std::string explain(const sequence_objective<Gather, Link>& objective) {
  static_assert(!batch_link<Link>,
                "rlcore: a batch link sorts or compares all rows at once, so it has no program for one of them");
  std::string out = std::string("logp = the ") + (Gather::averages ? "mean" : "sum") + " over the row of value:\n";
  out += explain(trace(typename Gather::score{}), "  ");
  return out + detail::explain_piece(objective.link, 1);
}

RLCORE_ALGORITHM_END
RLCORE_END
