// What a training step needs and takes on many devices, and which layout is fastest:
//   build/bin/plan model=Qwen2.5-7B devices=64 cluster=910B
//   build/bin/plan model=[Qwen2.5-7B,Qwen3-30B-A3B] devices=[8,64,1024] cluster=H100
#include <cstdio>

#include "rlcore/trainer/planning/read_plan.hpp"
#include "rlcore/trainer/program.hpp"

int main(int argc, char** argv) {
  using namespace rlcore;
  return trainer::run_program("plan", [&] {
    const auto options = trainer::options::parse(argc, argv, trainer::plan_registry());
    const std::string text = options.answer() ? *options.answer() : trainer::planning::run_plan(options);
    std::fputs(text.c_str(), stdout);
  });
}
