// Compares algorithms on the embedded task: same prompts, same initial weights, same random numbers; one table, one
// report with all curves.
//   build/bin/variants                                                  the default set, one seed
//   build/bin/variants --algorithms grpo,dapo,gspo --seeds 1,2,3 --steps 40 --output runs/mine [key=value ...]
//   build/bin/variants --list
// To compare an algorithm of your own, add it to variants() below.
#include <string>
#include <vector>

#include "comparison_program.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation/fixed_length.hpp"
#include "rlcore/objective/aggregation/sequence_mean_token_mean.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/combine/scaled.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/k3.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"
#include "rlcore/objective/piece/surrogate/policy_gradient.hpp"
#include "rlcore/trainer/program.hpp"

namespace {

using namespace rlcore;

/// What --algorithms can name. A variant is a name, an algorithm{advantage, objective, aggregation}, and a remark.
std::vector<comparison_program::variant> variants() {
  const auto longest = static_cast<double>(embedded_task::max_response);
  return {
      {"grpo", algorithm{group_relative{}, sum{clipped_ratio{}, scaled{0.04, k3{}}}, sequence_mean_token_mean{}},
       "DeepSeekMath: KL in the loss"},
      {"dr_grpo", algorithm{group_relative{.normalize_by_std = false}, clipped_ratio{}, fixed_length{longest}},
       "neither deviation nor length divides"},
      {"dapo", algorithm{group_relative{}, clipped_ratio{.low = 0.2, .high = 0.28}, token_mean{}},
       "clip-higher, token mean; no dynamic sampling"},
      {"reinforce", algorithm{group_relative{.normalize_by_std = false}, policy_gradient{}, token_mean{}},
       "no ratio, group mean as baseline"},
  };
}

constexpr const char* default_set = "grpo,dr_grpo,dapo,reinforce";

constexpr const char* usage =
    "variants: compares algorithms on a small task; same prompts, same initial weights, same random numbers\n"
    "\n"
    "  --algorithms A,B,...  which of --list, or all                  (default grpo,dr_grpo,dapo,reinforce)\n"
    "  --seeds 1,2,...       one run of each algorithm with each seed (default 1)\n"
    "  --steps N             training steps of a run                  (default 25)\n"
    "  --warm-start N        supervised steps before, made once       (default 480)\n"
    "  --output FOLDER       (default runs/variants)\n"
    "  --list                what there is, and what it is made of\n"
    "  key=value             any setting of grpo_trainer that is not the algorithm's, for all runs\n"
    "\n"
    "Leaves FOLDER/report.html and, for each run, FOLDER/<algorithm>-seed<N>/{metrics.jsonl,report.html}. A run that\n"
    "ended is taken over by the next call of the same program with the same settings.\n";

void run(int argc, char** argv) {
  comparison_program::request r = comparison_program::read_request({argv + 1, argv + argc});
  const auto known = variants();
  if (r.help) return void(std::fputs(usage, stdout));
  if (r.list) return void(std::fputs(comparison_program::list_text(known).c_str(), stdout));
  if (r.algorithms.empty()) r.algorithms = comparison_program::split(default_set, "--algorithms");
  if (r.algorithms == std::vector<std::string>{"all"}) {
    r.algorithms.clear();
    for (const auto& v : known) r.algorithms.push_back(v.name);
  }
  comparison_program::program(known, std::move(r)).run();
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::trainer::run_program("variants", [&] { run(argc, argv); });
}
