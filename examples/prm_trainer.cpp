// A process reward model (Lightman et al. 2023) with OpenRLHF's command line:
//   build/bin/prm_trainer --pretrain MODEL --dataset train.jsonl --eval_dataset test.jsonl ...
#include <cstdio>

#include "rlcore/config/programs/preference_keys.hpp"
#include "rlcore/trainer/program.hpp"
#include "rlcore/trainer/trainers.hpp"
#include "rlcore/training/ranks/ranks.hpp"

int main(int argc, char** argv) {
  using namespace rlcore;
  return trainer::run_program("prm_trainer", [&] {
    const auto options = trainer::options::parse(argc, argv, trainer::prm_registry());
    if (options.answer()) {
      std::fputs(options.answer()->c_str(), stdout);
      return;
    }
    trainer::on_ranks(options, [&](any_device& device, parallel::any_communicator& all) {
      trainer::train_prm(device, options, &all);
    });
  });
}
