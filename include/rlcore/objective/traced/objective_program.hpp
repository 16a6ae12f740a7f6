// All pieces of an objective as one program, so that what they share is computed once.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "rlcore/objective/loop/detail/row.hpp"
#include "rlcore/objective/traced/trace.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
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
  const traced scaled = t.slope * traced(coefficient_at<Index>(objective));
  std::size_t f = 0;
  while (field_at(f) != wrt_of<piece>()) ++f;
  slope[f] = structure<Objective>::first_with_output(Index) ? scaled : slope[f] + scaled;
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
  }
  (std::make_index_sequence<shape::pieces>{});
  for (std::size_t f = 0; f < field_count; ++f)
    if (contains(shape::outputs, field_at(f))) writer.result(field_names[f], slope[f]);
  return writer.finish();
}

RLCORE_ALGORITHM_END
RLCORE_END
