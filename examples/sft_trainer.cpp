// Supervised fine-tuning with the command line of verl's fsdp_sft_trainer:
//   build/bin/sft_trainer data.train_files=train.parquet data.val_files=test.parquet model.partial_pretrain=... ...
// or of OpenRLHF's train_sft:
//   build/bin/sft_trainer --pretrain MODEL --dataset train.jsonl --input_key question --output_key answer ...
#include <cstdio>

#include "rlcore/config/programs/sft.hpp"
#include "rlcore/trainer/program.hpp"
#include "rlcore/trainer/trainers.hpp"
#include "rlcore/training/ranks/ranks.hpp"

int main(int argc, char** argv) {
  using namespace rlcore;
  return trainer::run_program("sft_trainer", [&] {
    const auto options = trainer::options::parse(argc, argv, trainer::sft_registry(argc, argv));
    if (options.answer()) {
      std::fputs(options.answer()->c_str(), stdout);
      return;
    }
    trainer::on_ranks(options, [&](any_device& device, parallel::any_communicator& all) {
      trainer::train_sft(device, options, &all);
    });
  });
}
