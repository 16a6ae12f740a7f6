// Supervised fine-tuning with the command line of verl's fsdp_sft_trainer:
//   build/bin/sft_trainer data.train_files=train.parquet data.val_files=test.parquet model.partial_pretrain=... ...
// or of OpenRLHF's train_sft:
//   build/bin/sft_trainer --pretrain MODEL --dataset train.jsonl --input_key question --output_key answer ...
#include <cstdint>
#include <string>

#include "rlcore/train/supervised/parts.hpp"

namespace {

using namespace rlcore;
using namespace rlcore::train;

void train_sft(any_device& device, const options& opt, const team& ranks) {
  // Data: conversations, or questions with answers; the answers are learnt.
  const auto base = open_pretrained(opt);
  const auto work = open_sft(opt, *base);
  if (opt.get<std::int64_t>("rlcore.show_mask") > 0) return show_masks(*work, *base);

  // Loss: -logp of each learnt token, or -p logp with the p taken as a constant (dynamic fine-tuning).
  // Steps: the gradient of a batch of rows, one optimizer step; evaluation and checkpoints when they are due.
  const auto learn = [&](const auto& task) {
    train_supervised(device, opt, *base, *task, ranks, {"train/loss", "val/loss", "eval/eval_loss"});
  };
  if (opt.get<std::string>("rlcore.sft_loss") == "dft")
    learn(make_sft_task(device, *work, dft{}));
  else
    learn(make_sft_task(device, *work, negative_log_likelihood{}));
}

}  // namespace

int main(int argc, char** argv) { return trainer_main(argc, argv, sft_registry(argc, argv), train_sft); }
