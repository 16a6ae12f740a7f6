// Options of npu_doctor and npu_golden.
#pragma once

#include "rlcore/config/options.hpp"
#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace trainer {

/// The machine and device to inspect, and the output; the check rejects --report beside --timings or --json, and --cann
/// where it has no effect.
registry npu_doctor_registry();

/// record or replay, the folder, and which provider runs the operators.
registry npu_golden_registry();

}  // namespace trainer

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE registry npu_doctor_registry() {
  using namespace keys;
  static constexpr key table[] = {
      {"emulator", boolean, "False", honoured, "the emulated machine instead of this one"},
      {"cann", text, "8.3", honoured, "version of CANN that the emulated machine plays", words("8.1|8.3|8.5|9.1")},
      {"device", integer, "0", honoured, "number of the device to check", between(0, 1023)},
      {"timings", boolean, "False", honoured, "and how long the main kernels take"},
      {"json", text, "null", honoured, "file for what is printed, for programs", not_empty},
      {"report", text, "null", honoured, "all that is to be known of this machine, in one archive: FILE.tar.gz",
       not_empty},
      {"rules", boolean, "False", honoured, "what CANN accepts of its operators, as docs/npu_operators.md"},
  };
  registry r;
  r.program = "npu_doctor";
  r.summary = "what of Ascend's CANN is on this machine, whether rlcore can use it, and if not, what to do";
  r.details =
      R"(  npu_doctor                        compares every kernel of training with the processor's
  npu_doctor --report FILE.tar.gz   writes all of it, every operator's results, timings and three steps of GRPO
  npu_doctor --rules                prints what CANN accepts of its operators
Exit code: 0 if trainer.device=npu can work, otherwise 1.
)";
  r.check = [](options& o) {
    if (o.is_set("cann") && (!o.get<bool>("emulator") || o.find<std::string>("report")))
      throw config_error(
          "--cann is the version that a check of the emulated machine plays: it goes with --emulator, not "
          "with --report");
    if (o.find<std::string>("report") && (o.get<bool>("timings") || o.find<std::string>("json")))
      throw config_error("--report has timings and the JSON in its archive: leave out --timings and --json");
  };
  return r.add_as_flags(table);
}

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
