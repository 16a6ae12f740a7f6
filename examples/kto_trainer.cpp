// Kahneman-Tversky optimization (Ethayarajh et al. 2024) with OpenRLHF's command line:
//   build/bin/kto_trainer --pretrain MODEL --dataset train.jsonl --eval_dataset test.jsonl ...
#include <array>
#include <string>
#include <utility>

#include "rlcore/config/programs/preference_keys.hpp"
#include "rlcore/trainer/preference/parts.hpp"

namespace {

using namespace rlcore;
using namespace rlcore::trainer;

void train(any_device& device, const options& opt, parallel::any_communicator& world) {
  const team ranks(opt, &world);

  // Data: single answers, each judged good or bad.
  const base_model base = open_language_model(opt);
  const row_rules rules = read_row_rules(opt, base);
  const unpaired_columns keys{opt.get<std::string>("input_key"), opt.find<std::string>("output_key").value_or(""),
                              opt.get<std::string>("label_key")};
  auto train = read_unpaired(open_training_rows(opt), keys, rules);
  preference_rows<unpaired_row> held_out;
  if (const auto rows = open_evaluation_rows(opt)) held_out = read_unpaired(*rows, keys, rules);
  announce_rows(opt, train, held_out);

  // Loss: 1 - sigmoid(beta (z - KL)) of good answers, 1 - sigmoid(beta (KL - z)) of bad ones, z = logp - ref_logp; the
  // KL comes from answers to other prompts.
  const auto reference = load_reference(device, opt, base, ranks);
  kto_task<any_device> task({.beta = opt.get<double>("beta"),
                             .desirable_weight = opt.get<double>("desirable_loss_weight"),
                             .undesirable_weight = opt.get<double>("undesirable_loss_weight"),
                             .rows_per_pass = opt.get<std::int64_t>("micro_train_batch_size"),
                             .rows_per_step = opt.get<std::int64_t>("train_batch_size"),
                             .scores = scores_path(opt)},
                            rules, std::move(train), std::move(held_out), reference ? &reference->model : nullptr);

  // Steps: the gradient of --train_batch_size rows, one optimizer step; evaluation and checkpoints when they are due.
  supervised_run run(device, opt, read_openrlhf_run(opt), read_openrlhf_training(opt), base, task, ranks);
  while (run.next_step()) {
    run.update();
    run.finish_step();
  }
  const std::array<std::string, 3> shown{"train/kto_loss", "eval/eval_loss", "eval/pair_acc"};
  run.finish(shown);
  if (ranks.first()) export_model(opt);
}

}  // namespace

int main(int argc, char** argv) { return trainer_main(argc, argv, kto_registry(), train); }
