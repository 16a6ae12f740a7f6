// REINFORCE++ (Hu 2025) with verl's command line or the flags of OpenRLHF's train_ppo_ray:
//   build/bin/reinforce_plus_plus_trainer data.train_files=train.parquet data.val_files=test.parquet ...
#include <cstdio>

#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/trainer/program.hpp"
#include "rlcore/trainer/trainers.hpp"
#include "rlcore/training/ranks/ranks.hpp"

int main(int argc, char** argv) {
  using namespace rlcore;
  return trainer::run_program("reinforce_plus_plus_trainer", [&] {
    const auto options = trainer::options::parse(argc, argv, trainer::reinforce_plus_plus_trainer_registry());
    if (options.answer()) {
      std::fputs(options.answer()->c_str(), stdout);
      return;
    }
    trainer::on_ranks(options, [&](any_device& device, parallel::any_communicator& all) {
      trainer::train_policy(device, options, &all);
    });
  });
}
