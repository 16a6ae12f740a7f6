// A reward model (Ouyang et al. 2022) with OpenRLHF's command line:
//   build/bin/rm_trainer --pretrain MODEL --dataset train.jsonl --eval_dataset test.jsonl ...
#include <algorithm>
#include <string>
#include <utility>

#include "rlcore/train/preference/parts.hpp"

namespace {

using namespace rlcore;
using namespace rlcore::train;

void train_rm(any_device& device, const options& opt, const team& ranks) {
  // Data: pairs of a chosen and a rejected answer to one prompt. The model has one number per token for a head.
  const auto base = open_score_model(opt);
  const auto rules = open_row_rules(opt, *base);
  const pair_columns keys{opt.find<std::string>("prompt_key").value_or(""), opt.get<std::string>("chosen_key"),
                          opt.get<std::string>("rejected_key")};
  auto [train, held_out] = open_pairs(opt, keys, *rules, false);
  if (opt.find<std::string>("eval_dataset").value_or("").empty()) {
    const std::size_t n = std::min(train.size(), std::max<std::size_t>(1, train.read / 100));
    held_out = train.first(n);
    say("note: without --eval_dataset the first %zu training rows are evaluated\n", n);
  }
  announce_rows(opt, train, held_out);

  // Loss: -log sigmoid(score of the chosen - score of the rejected answer - margin).
  const bool margins = opt.get<bool>("margin_loss"), logistic = opt.get<std::string>("loss") == "sigmoid";
  if (margins && !logistic) say("note: --margin_loss has no effect with --loss logexp\n");
  const answer_loss loss = margins && logistic ? answer_loss(paper::rm_with_margins()) : answer_loss(paper::rm());
  const auto task = make_task(device,
                              rm_task_settings{.loss = loss,
                                               .margins = margins && logistic,
                                               .pairs_per_pass = opt.get<std::int64_t>("micro_train_batch_size"),
                                               .scores = scores_path(opt)},
                              std::move(train), std::move(held_out));

  // Steps: the gradient of --train_batch_size rows, one optimizer step; evaluation and checkpoints when they are due.
  train_supervised(device, opt, *base, *task, ranks, {"train/loss", "train/acc", "eval/eval_loss", "eval/acc_mean"});
}

}  // namespace

int main(int argc, char** argv) { return trainer_main(argc, argv, rm_registry(), train_rm); }
