// Direct preference optimization (Rafailov et al. 2023) with OpenRLHF's command line:
//   build/bin/dpo_trainer --pretrain MODEL --dataset train.jsonl --eval_dataset test.jsonl ...
#include <cstdint>
#include <string>
#include <utility>

#include "rlcore/train/preference/parts.hpp"

namespace {

using namespace rlcore;
using namespace rlcore::train;

void train_dpo(any_device& device, const options& opt, const team& ranks) {
  // Data: pairs of a chosen and a rejected answer to one prompt.
  const auto base = open_language_model(opt);
  const auto rules = open_row_rules(opt, *base);
  const pair_columns keys{opt.find<std::string>("prompt_key").value_or(""), opt.get<std::string>("chosen_key"),
                          opt.get<std::string>("rejected_key")};
  auto [train, held_out] = open_pairs(opt, keys, *rules, true);
  announce_rows(opt, train, held_out);
  if (opt.get<bool>("ipo") && opt.get<double>("label_smoothing") != 0)
    say("note: --label_smoothing has no effect with --ipo\n");

  // Loss, with z the log-ratio to the reference of the chosen answer less that of the rejected one: -log sigmoid(beta
  // z) (DPO), or (z - 1 / (2 beta))^2 (IPO); plus the likelihood of the chosen answer. The mean over the pairs of a
  // step.
  const double beta = opt.get<double>("beta");
  const answer_loss loss =
      opt.get<bool>("ipo")
          ? answer_loss(openrlhf::ipo({.beta = beta}))
          : answer_loss(paper::dpo({.beta = beta, .label_smoothing = opt.get<double>("label_smoothing")}));
  const auto reference = load_reference(device, opt, *base, ranks);
  const auto task = make_task(device,
                              dpo_task_settings{.loss = loss,
                                                .nll_loss_coef = opt.get<double>("nll_loss_coef"),
                                                .beta = beta,
                                                .pairs_per_pass = opt.get<std::int64_t>("micro_train_batch_size"),
                                                .scores = scores_path(opt)},
                              std::move(train), std::move(held_out), reference.get());

  // Steps: the gradient of --train_batch_size rows, one optimizer step; evaluation and checkpoints when they are due.
  train_supervised(device, opt, *base, *task, ranks, {"train/loss", "train/acc", "eval/eval_loss", "eval/acc_mean"});
}

}  // namespace

int main(int argc, char** argv) { return trainer_main(argc, argv, dpo_registry(), train_dpo); }
