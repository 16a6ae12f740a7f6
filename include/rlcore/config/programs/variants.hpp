// The command line of variants.
#pragma once

#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace trainer {

/// The algorithms and seeds to compare, steps and warm start of each run, and settings for all of them.
registry variants_registry();

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE registry variants_registry() {
  using namespace keys;
  static constexpr key settings[] = {{"setting", texts, "null", honoured,
                                      "key=value: any setting of grpo_trainer that is not the algorithm's, for all "
                                      "runs"}};
  static constexpr key table[] = {
      {"algorithms", texts, "[grpo,dr_grpo,dapo,gspo,cispo,reinforce_plus_plus]", honoured,
       "names with commas between: which of --list, or all"},
      {"seeds", texts, "1", honoured, "numbers with commas between: one run of each algorithm with each"},
      {"steps", integer, "25", honoured, "training steps of a run", between(1, 1'000'000)},
      {"warm-start", integer, "480", honoured, "supervised steps before, made once", between(1, 1'000'000)},
      {"output", text, "runs/variants", honoured, "folder of the report and the runs", not_empty},
      {"list", boolean, "False", honoured, "what there is, and what it is made of"},
  };
  static constexpr flag lists[] = {{"algorithms", "algorithms"}, {"seeds", "seeds"}};  // one word per item
  registry r;
  r.program = "variants";
  r.summary = "compares algorithms on a small task; same prompts, same initial weights, same random numbers";
  r.details =
      R"(  variants                                                  the default set, one seed
  variants --algorithms grpo,dapo,gspo --seeds 1,2,3 --steps 40 --output runs/mine
  variants --algorithms all actor_rollout_ref.actor.optim.lr=1e-4
Leaves OUTPUT/report.html and, for each run, OUTPUT/<algorithm>-seed<N>/{metrics.jsonl,report.html}. A run that ended
is taken over by the next call of the same program with the same settings.
)";
  return r.add(settings).add_as_flags(table).add_flags(lists).add_positional({"setting", 0, positional::any_number});
}

}  // namespace trainer
RLCORE_END
#endif
