// Planner: memory and time of a training step on many devices, and the fastest layout:
//   build/bin/plan model=Qwen2.5-7B devices=64 cluster=910B
//   build/bin/plan model=[Qwen2.5-7B,Qwen3-30B-A3B] devices=[8,64,1024] cluster=H100
// and measures this machine as a cluster for the above:
//   build/bin/plan calibrate out=cluster.json
#include <cstdio>
#include <string_view>

#include "rlcore/planning/check_host.hpp"
#include "rlcore/planning/read_plan.hpp"
#include "rlcore/train/run/program.hpp"

int main(int argc, char** argv) {
  using namespace rlcore;
  return train::run_program("plan", [&] {
    const bool measures = argc > 1 && std::string_view(argv[1]) == "calibrate";
    const auto options = train::options::parse(argc - measures, argv + measures,
                                               measures ? train::calibrate_registry() : train::plan_registry());
    const std::string text = options.answer() ? *options.answer()
                             : measures       ? train::planning::calibrate(train::planning::read_calibration(options))
                                              : train::planning::run_plan(options);
    std::fputs(text.c_str(), stdout);
  });
}
