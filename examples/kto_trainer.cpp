// Kahneman-Tversky optimization (Ethayarajh et al. 2024) with OpenRLHF's command line:
//   build/bin/kto_trainer --pretrain MODEL --dataset train.jsonl --eval_dataset test.jsonl ...
#include <cstdint>
#include <string>
#include <utility>

#include "rlcore/train/preference/parts.hpp"

namespace {

using namespace rlcore;
using namespace rlcore::train;

void train_kto(any_device& device, const options& opt, const team& ranks) {
  // Data: single answers, each judged good or bad.
  const auto base = open_language_model(opt);
  const auto rules = open_row_rules(opt, *base);
  const unpaired_columns keys{opt.get<std::string>("input_key"), opt.find<std::string>("output_key").value_or(""),
                              opt.get<std::string>("label_key")};
  auto [train, held_out] = open_unpaired(opt, keys, *rules);
  announce_rows(opt, train, held_out);

  // Loss: 1 - sigmoid(beta (z - KL)) of good answers, 1 - sigmoid(beta (KL - z)) of bad ones, z = logp - ref_logp; the
  // KL comes from answers to other prompts.
  const double beta = opt.get<double>("beta");
  const auto loss = [&](kto_baseline kl) -> answer_loss {
    return paper::kto({.kl = kl,
                       .beta = beta,
                       .desirable_weight = opt.get<double>("desirable_loss_weight"),
                       .undesirable_weight = opt.get<double>("undesirable_loss_weight")});
  };
  const auto reference = load_reference(device, opt, *base, ranks);
  const auto task = make_task(device,
                              kto_task_settings{.loss = loss,
                                                .beta = beta,
                                                .rows_per_pass = opt.get<std::int64_t>("micro_train_batch_size"),
                                                .rows_per_step = opt.get<std::int64_t>("train_batch_size"),
                                                .scores = scores_path(opt)},
                              *rules, std::move(train), std::move(held_out), reference.get());

  // Steps: the gradient of --train_batch_size rows, one optimizer step; evaluation and checkpoints when they are due.
  train_supervised(device, opt, *base, *task, ranks, {"train/kto_loss", "eval/eval_loss", "eval/pair_acc"});
}

}  // namespace

int main(int argc, char** argv) { return trainer_main(argc, argv, kto_registry(), train_kto); }
