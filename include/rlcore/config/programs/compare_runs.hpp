// The command line of compare_runs.
#pragma once

#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace trainer {

/// The two runs, the metrics and steps to compare, and the threshold.
registry compare_runs_registry();

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE registry compare_runs_registry() {
  using namespace keys;
  static constexpr key runs[] = {
      {"run_a", text, "null", honoured, "the run: a metrics.jsonl, the folder of a run, or a console log", not_empty},
      {"run_b", text, "null", honoured, "the reference run, given alike", not_empty},
  };
  static constexpr key table[] = {
      {"key", texts, "null", honoured,
       "metric to compare, as often as wanted; 'critic/*': all that begin so; '*': all but times; null: see above"},
      {"steps", integer, "null", honoured, "only the first so many steps that both runs have", at_least(1)},
      {"threshold", real, "null", honoured,
       "largest mean error, as a number: 0.04 is 4 %; null: 0.04 for rewards and scores, 0.02 for others", at_least(0)},
      {"relative", boolean, "False", honoured, "compare |A - B| / |B| with the threshold instead of |A - B|"},
      {"out", text, "null", honoured, "also a page with both curves (HTML, nothing from outside)", not_empty},
  };
  static constexpr flag several[] = {{"key", "key", flag::append}};
  registry r;
  r.program = "compare_runs";
  r.summary = "how far run A is from the reference run B";
  r.details =
      "  compare_runs runs/npu runs/cpu --key critic/rewards/mean --key actor/pg_loss --out comparison.html\n"
      "Without --key it compares critic/rewards/mean or train/loss, whichever the runs have.\n"
      "Exit code: 0 within the thresholds, 2 above one of them or if a named metric is 0 in every step of both\n"
      "runs, 1 if the runs cannot be compared.\n";
  return r.add(runs).add_as_flags(table).add_flags(several).add_positional({"run_a"}).add_positional({"run_b"});
}

}  // namespace trainer
RLCORE_END
#endif
