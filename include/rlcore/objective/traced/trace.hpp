// The program of a piece, recorded by evaluating the piece once.
#pragma once

#include <cstddef>

#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/objective/traced/program.hpp"
#include "rlcore/objective/traced/simplify.hpp"
#include "rlcore/objective/traced/value.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

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
requires(!pair_link<P>) traced_program trace(const P& piece) {
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

RLCORE_ALGORITHM_END
RLCORE_END
