// Supervised fine-tuning with the command line of verl's fsdp_sft_trainer:
//   build/bin/sft_trainer data.train_files=train.parquet data.val_files=test.parquet model.partial_pretrain=... ...
#include <cstdio>

#include "rlcore/trainer/host_device.hpp"
#include "rlcore/trainer/program.hpp"
#include "rlcore/trainer/supervised/train_sft.hpp"

int main(int argc, char** argv) {
  using namespace rlcore;
  return trainer::run_program("sft_trainer", [&] {
    const auto options = trainer::options::parse(argc, argv, trainer::sft_registry());
    if (options.answer()) {
      std::fputs(options.answer()->c_str(), stdout);
      return;
    }
    cpu device = trainer::host_device(options);
    trainer::train_sft(device, options);
  });
}
