// Compares algorithms on the embedded task: same prompts, same initial weights, same random numbers; one table, one
// report with all curves.
//   build/bin/variants                                                  the default set, one seed
//   build/bin/variants --algorithms grpo,dapo,gspo --seeds 1,2,3 --steps 40 --output runs/mine [key=value ...]
//   build/bin/variants --list
// To compare an algorithm of your own, add it to variants() below.
#include <string>
#include <vector>

#include "comparison_program.hpp"
#include "rlcore/config/programs/tools.hpp"
#include "rlcore/objective/algorithm/cispo.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/algorithm/gspo.hpp"
#include "rlcore/objective/algorithm/ppo.hpp"
#include "rlcore/objective/algorithm/reinforce.hpp"
#include "rlcore/objective/algorithm/reinforce_plus_plus.hpp"
#include "rlcore/objective/algorithm/rloo.hpp"
#include "rlcore/objective/piece/combine/reweighted.hpp"
#include "rlcore/objective/selection/tokens.hpp"
#include "rlcore/train/run/program.hpp"

namespace {

using namespace rlcore;

/// What --algorithms can name: a name, an algorithm{advantage, objective, aggregation}, and a remark. The settings are
/// the papers'; another one is paper::dapo({.clip_high = 0.3}), with_kl(paper::dapo(), 0.001), ...
std::vector<comparison_program::variant> variants() {
  constexpr auto longest = static_cast<double>(embedded_task::max_response);
  return {
      {"grpo", paper::grpo(), "DeepSeekMath"},
      {"dr_grpo", paper::dr_grpo({.length = longest}), "neither deviation nor length divides"},
      {"dapo", paper::dapo(), "clip-higher; without dynamic sampling"},
      {"gspo", paper::gspo(), "one ratio per sequence"},
      {"luspo", paper::luspo(), "gspo, terms times length"},
      {"gmpo", paper::gmpo(), "geometric mean of the ratios"},
      {"cispo", paper::cispo(), "bounded weight, no token left out"},
      {"sapo", paper::sapo(), "soft gate instead of a clip"},
      {"vespo", paper::vespo(), "gamma-shaped weight of the sequence ratio"},
      {"dppo_tv", paper::dppo_tv(), "trust region by total variation"},
      {"dppo_kl", paper::dppo_kl(), "trust region by KL"},
      {"dro", paper::dro(), "squared log-ratio instead of a clip"},
      {"clip_cov", paper::clip_cov(), "few tokens of high covariance left out", clip_covariance{}},
      {"kl_cov", paper::kl_cov(), "few tokens of high covariance held back", kl_covariance{}},
      {"high_entropy", algorithm{group_relative{}, token_filter{paper::dapo().objective}, token_mean{}},
       "dapo on the fifth of the tokens with highest entropy", high_entropy{}},
      {"rloo", paper::rloo(), "mean of the others as baseline"},
      {"opo", paper::opo(), "length-weighted baseline"},
      {"gpg", paper::gpg(), "groups without signal made up for"},
      {"reinforce_plus_plus", paper::reinforce_plus_plus(), "normalised over the batch's tokens"},
      {"reinforce_plus_plus_baseline", paper::reinforce_plus_plus_baseline(), "the same after the group mean"},
      {"reinforce", algorithm{group_relative{.normalize_by_std = false}, policy_gradient{}, token_mean{}},
       "group mean as baseline"},
  };
}

void run(int argc, char** argv) {
  const auto options = train::options::parse(argc, argv, train::variants_registry());
  if (options.answer()) return void(std::fputs(options.answer()->c_str(), stdout));
  const auto known = variants();
  if (options.get<bool>("list")) return void(std::fputs(comparison_program::list_text(known).c_str(), stdout));
  auto r = comparison_program::read_request(options);
  if (r.algorithms == std::vector<std::string>{"all"}) {
    r.algorithms.clear();
    for (const auto& v : known) r.algorithms.push_back(v.name);
  }
  comparison_program::program(known, std::move(r)).run();
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::train::run_program("variants", [&] { run(argc, argv); });
}
