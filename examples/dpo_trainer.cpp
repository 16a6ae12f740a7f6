// Direct preference optimization (Rafailov et al. 2023) with OpenRLHF's command line:
//   build/bin/dpo_trainer --pretrain MODEL --dataset train.jsonl --eval_dataset test.jsonl ...
#include <cstdint>
#include <string>
#include <utility>

#include "rlcore/trainer/preference/parts.hpp"

namespace {

using namespace rlcore;
using namespace rlcore::trainer;

void train(any_device& device, const options& opt, const team& ranks) {
  // Data: pairs of a chosen and a rejected answer to one prompt.
  const auto base = open_language_model(opt);
  const auto rules = open_row_rules(opt, *base);
  const pair_columns keys{opt.find<std::string>("prompt_key").value_or(""), opt.get<std::string>("chosen_key"),
                          opt.get<std::string>("rejected_key")};
  auto [train, held_out] = open_pairs(opt, keys, *rules, true);
  announce_rows(opt, train, held_out);
  if (opt.get<bool>("ipo") && opt.get<double>("label_smoothing") != 0)
    say("note: --label_smoothing has no effect with --ipo\n");

  // Loss: -log sigmoid(beta ((logp - ref_logp) of the chosen - that of the rejected answer)), or IPO's square; plus the
  // likelihood of the chosen answer.
  const auto reference = load_reference(device, opt, *base, ranks);
  const auto task = make_task(device,
                              dpo_task_settings{.beta = opt.get<double>("beta"),
                                                .label_smoothing = opt.get<double>("label_smoothing"),
                                                .nll_loss_coef = opt.get<double>("nll_loss_coef"),
                                                .ipo = opt.get<bool>("ipo"),
                                                .pairs_per_pass = opt.get<std::int64_t>("micro_train_batch_size"),
                                                .scores = scores_path(opt)},
                              std::move(train), std::move(held_out), reference.get());

  // Steps: the gradient of --train_batch_size rows, one optimizer step; evaluation and checkpoints when they are due.
  train_supervised(device, opt, *base, *task, ranks, {"train/loss", "train/acc", "eval/eval_loss", "eval/acc_mean"});
}

}  // namespace

int main(int argc, char** argv) { return trainer_main(argc, argv, dpo_registry(), train); }
