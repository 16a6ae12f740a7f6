// A process reward model (Lightman et al. 2023) with OpenRLHF's command line:
//   build/bin/prm_trainer --pretrain MODEL --dataset train.jsonl --eval_dataset test.jsonl ...
#include <cstdint>
#include <string>
#include <utility>

#include "rlcore/train/preference/parts.hpp"

namespace {

using namespace rlcore;
using namespace rlcore::train;

void train_prm(any_device& device, const options& opt, const team& ranks) {
  // Data: answers whose steps are judged, at placeholder tokens.
  const auto base = open_language_model(opt);
  const auto rules = open_row_rules(opt, *base);
  const step_columns keys{opt.get<std::string>("input_key"), opt.get<std::string>("label_key"),
                          opt.find<std::string>("placeholder_token").value_or(""), opt.list("reward_tokens")};
  const step_tokens words = find_step_tokens(*base, keys);
  auto [train, held_out] = open_steps(opt, keys, words, *rules);
  announce_rows(opt, train, held_out);

  // Loss: the cross entropy of the judgement's token at each placeholder.
  const auto task = make_task(device,
                              prm_task_settings{.reward_tokens = words.rewards,
                                                .rows_per_pass = opt.get<std::int64_t>("micro_train_batch_size"),
                                                .scores = scores_path(opt)},
                              std::move(train), std::move(held_out));

  // Steps: the gradient of --train_batch_size rows, one optimizer step; evaluation and checkpoints when they are due.
  train_supervised(device, opt, *base, *task, ranks,
                   {"train/prm_loss", "train/acc", "eval/eval_loss", "eval/acc_mean"});
}

}  // namespace

int main(int argc, char** argv) { return trainer_main(argc, argv, prm_registry(), train_prm); }
