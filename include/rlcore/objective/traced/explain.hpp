// What an objective computes, as text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score/gather.hpp"
#include "rlcore/objective/traced/program.hpp"
#include "rlcore/objective/traced/trace.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

/// The name of every step: a field, a number, or what it computes.
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

/// A piece with its name, its coefficient and what it gathers over a row.
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

/// What every piece of an objective computes for a token, with its settings as they are; of one that links sequences,
/// what it computes for a row or a pair:
///
///   policy
///     t1       = logp - old_logp
///     t2       = exp(t1)
///     ...
///     value    = -t6
template <class Objective>
requires(composite_piece<Objective> || token_piece<Objective> || pair_link<Objective>) std::string
    explain(const Objective& objective) {
  return detail::explain_pieces(objective, std::make_index_sequence<piece_count<Objective>>{});
}
/// The same of an objective on sequences: what it gathers over a row into logp, then its link.
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
