// The command line of npu_golden.
#pragma once

#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace trainer {

/// record or replay, the folder, and which provider runs the operators.
registry npu_golden_registry();

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE registry npu_golden_registry() {
  using namespace keys;
  static constexpr key places[] = {
      {"operation", text, "null", honoured, "write files, or compare with what they hold", words("record|replay")},
      {"folder", text, "null", honoured, "where the files are", not_empty},
  };
  static constexpr key table[] = {
      {"provider", text, "null", honoured, "what runs the operators; null: emulator for record, cann for replay",
       words("cann|emulator")},
      {"device", integer, "0", honoured, "number of the NPU", between(0, 1'000'000)},
      {"report", text, "null", honoured, "what replay found; null: report.json in the folder", not_empty},
      {"soc", text, "Ascend910B3", honoured, "the chip to emulate"},
      {"cann", integer, "80300", honoured, "the version of CANN to emulate: 80300 is 8.3.RC1", between(0, 1'000'000)},
  };
  registry r;
  r.program = "npu_golden";
  r.summary = "the operators of an Ascend NPU beside the emulator's, through files";
  r.details =
      R"(  npu_golden record DIR                       runs every operator on the emulated machine and writes DIR
  npu_golden replay DIR                       runs the same on this machine's CANN and compares
  npu_golden record DIR --provider cann       the other way round: writes what this machine's NPU does
  npu_golden replay DIR --provider emulator   compares the emulator with what was recorded
Exit code of replay: 0 if every case that could run is within its bound, 2 otherwise; 1 if it cannot be done.
)";
  return r.add(places).add_as_flags(table).add_positional({"operation"}).add_positional({"folder"});
}

}  // namespace trainer
RLCORE_END
#endif
