// A process reward model (Lightman et al. 2023) with OpenRLHF's command line:
//   build/bin/prm_trainer --pretrain MODEL --dataset train.jsonl --eval_dataset test.jsonl ...
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

  // Data: answers whose steps are judged, at placeholder tokens.
  const base_model base = open_language_model(opt);
  const row_rules rules = read_row_rules(opt, base);
  const step_columns keys{opt.get<std::string>("input_key"), opt.get<std::string>("label_key"),
                          opt.find<std::string>("placeholder_token").value_or(""), opt.list("reward_tokens")};
  const step_tokens words = find_step_tokens(base.tokenizer, keys);
  auto train = read_steps(open_training_rows(opt), keys, words, rules);
  preference_rows<judged_row> held_out;
  if (const auto rows = open_evaluation_rows(opt)) held_out = read_steps(*rows, keys, words, rules);
  announce_rows(opt, train, held_out);

  // Loss: the cross entropy of the judgement's token at each placeholder.
  prm_task<any_device> task({.reward_tokens = words.rewards,
                             .rows_per_pass = opt.get<std::int64_t>("micro_train_batch_size"),
                             .scores = scores_path(opt)},
                            std::move(train), std::move(held_out));

  // Steps: the gradient of --train_batch_size rows, one optimizer step; evaluation and checkpoints when they are due.
  supervised_run run(device, opt, read_openrlhf_run(opt), read_openrlhf_training(opt), base, task, ranks);
  while (run.next_step()) {
    run.update();
    run.finish_step();
  }
  const std::array<std::string, 4> shown{"train/prm_loss", "train/acc", "eval/eval_loss", "eval/acc_mean"};
  run.finish(shown);
  if (ranks.first()) export_model(opt);
}

}  // namespace

int main(int argc, char** argv) { return trainer_main(argc, argv, prm_registry(), train); }
