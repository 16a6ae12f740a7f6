// Supervised fine-tuning with the command line of verl's fsdp_sft_trainer:
//   build/bin/sft_trainer data.train_files=train.parquet data.val_files=test.parquet model.partial_pretrain=... ...
// or of OpenRLHF's train_sft:
//   build/bin/sft_trainer --pretrain MODEL --dataset train.jsonl --input_key question --output_key answer ...
#include <array>
#include <string>
#include <utility>

#include "rlcore/config/programs/sft.hpp"
#include "rlcore/trainer/supervised/parts.hpp"

namespace {

using namespace rlcore;
using namespace rlcore::trainer;

/// `Objective`: what a learnt token costs.
template <class Objective>
void fine_tune(any_device& device, const options& opt, const base_model& base, sft_work& work, const team& ranks) {
  sft_task<any_device, Objective> task(std::move(work.train), std::move(work.eval), work.run.rows_per_pass,
                                       work.eval_name);
  supervised_run run(device, opt, work.run, work.training, base, task, ranks);
  while (run.next_step()) {
    run.update();       // the gradient of a batch of rows, one optimizer step
    run.finish_step();  // evaluation and checkpoint when they are due, log
  }
  const std::array<std::string, 2> shown{"train/loss", work.eval_name};
  run.finish(shown);
}

void train(any_device& device, const options& opt, parallel::any_communicator& world) {
  const team ranks(opt, &world);

  // Data: conversations, or questions with answers; the answers are learnt.
  const base_model base =
      open_base_model(opt.get<std::string>(speaks_openrlhf(opt) ? "pretrain" : "model.partial_pretrain"));
  sft_work work = open_sft(opt, base);
  if (work.show_mask > 0) return show_masks(work, base.tokenizer);

  // Loss: -logp of each learnt token, or -p logp with the p taken as a constant (dynamic fine-tuning).
  if (work.dft)
    fine_tune<dft>(device, opt, base, work, ranks);
  else
    fine_tune<negative_log_likelihood>(device, opt, base, work, ranks);
  if (speaks_openrlhf(opt) && ranks.first()) export_model(opt);
}

}  // namespace

int main(int argc, char** argv) { return trainer_main(argc, argv, sft_registry(argc, argv), train); }
