// DAPO (Yu et al. 2025, "DAPO: an open-source LLM reinforcement learning system at scale") with verl's command line:
//   build/bin/dapo_trainer data.train_files=train.parquet data.val_files=test.parquet actor_rollout_ref.model.path=...
//   ...
#include <cstdio>

#include "rlcore/config/programs/dapo.hpp"
#include "rlcore/trainer/program.hpp"
#include "rlcore/trainer/trainers.hpp"
#include "rlcore/training/ranks/ranks.hpp"

int main(int argc, char** argv) {
  using namespace rlcore;
  return trainer::run_program("dapo_trainer", [&] {
    const auto options = trainer::options::parse(argc, argv, trainer::dapo_registry());
    if (options.answer()) {
      std::fputs(options.answer()->c_str(), stdout);
      return;
    }
    trainer::on_ranks(options, [&](any_device& device, parallel::any_communicator& all) {
      trainer::train_policy(device, options, &all);
    });
  });
}
