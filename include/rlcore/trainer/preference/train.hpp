// Whole runs of DPO, KTO, reward and process reward models from OpenRLHF's command lines.
// trainers.hpp declares them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/device/any_device.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/trainer/preference/dpo_task.hpp"
#include "rlcore/trainer/preference/kto_task.hpp"
#include "rlcore/trainer/preference/prm_task.hpp"
#include "rlcore/trainer/preference/rm_task.hpp"
#include "rlcore/trainer/preference/run.hpp"
#include "rlcore/trainer/supervised/train_supervised.hpp"
#include "rlcore/trainer/trainers.hpp"
#include "rlcore/training/frozen_model.hpp"

RLCORE_BEGIN
namespace trainer {

/// Loads the frozen model of --ref_pretrain. Returns nullptr with LoRA and no other folder: the trained model's base
/// then serves as the reference.
template <class Device>
std::unique_ptr<frozen_model<Device>> load_reference(Device& device, const options& opt, const base_model& base,
                                                     const team& ranks) {
  const std::string name = opt.find<std::string>("ref_pretrain").value_or("");
  const bool separate = !name.empty() && checkpoint::resolve_model(name) != base.folder;
  if (!separate && opt.get<std::int64_t>("lora_rank") > 0) return nullptr;
  const base_model from = separate ? open_base_model(name) : base;
  if (from.config.vocab_size != base.config.vocab_size)
    throw config_error("--ref_pretrain: the reference has " + std::to_string(from.config.vocab_size) +
                       " tokens, the model " + std::to_string(base.config.vocab_size));
  auto model = std::make_unique<frozen_model<Device>>(device, from.config, &ranks.world());
  model->load(from.folder);
  return model;
}

/// Reads a causal language model's folder. Throws config_error for a score model.
inline base_model open_language_model(const options& opt) {
  base_model base = open_base_model(opt.get<std::string>("pretrain"));
  if (base.config.output != nn::model_output::logits)
    throw config_error("--pretrain " + base.folder.string() +
                       ": a score model (one number per token); expected a causal language model");
  return base;
}

/// Reads the pairs, then runs the supervised loop with a dpo_task.
template <class Device>
void train_dpo(Device& device, const options& opt, parallel::any_communicator* world) {
  const team ranks(opt, world);
  const silence others(!ranks.first());
  const base_model base = open_language_model(opt);
  const row_rules rules = read_row_rules(opt, base);
  const pair_columns keys{opt.find<std::string>("prompt_key").value_or(""), opt.get<std::string>("chosen_key"),
                          opt.get<std::string>("rejected_key")};
  auto train = read_pairs(open_training_rows(opt), keys, rules, true);
  preference_rows<preference_pair> held_out;
  if (const auto rows = open_evaluation_rows(opt)) held_out = read_pairs(*rows, keys, rules, true);
  announce_rows(opt, train, held_out);
  if (opt.get<bool>("ipo") && opt.get<double>("label_smoothing") != 0)
    say("note: --label_smoothing has no effect with --ipo\n");
  const auto reference = load_reference(device, opt, base, ranks);
  dpo_task<Device> task({.beta = opt.get<double>("beta"),
                         .label_smoothing = opt.get<double>("label_smoothing"),
                         .nll_loss_coef = opt.get<double>("nll_loss_coef"),
                         .ipo = opt.get<bool>("ipo"),
                         .pairs_per_pass = opt.get<std::int64_t>("micro_train_batch_size"),
                         .scores = scores_path(opt)},
                        std::move(train), std::move(held_out), reference ? &reference->model : nullptr);
  const std::array<std::string, 4> shown{"train/loss", "train/acc", "eval/eval_loss", "eval/acc_mean"};
  train_supervised(device, opt, read_openrlhf_run(opt), read_openrlhf_training(opt), base, task, shown, ranks);
  if (ranks.first()) export_model(opt);
}

/// Reads the judged answers, then runs the supervised loop with a kto_task.
template <class Device>
void train_kto(Device& device, const options& opt, parallel::any_communicator* world) {
  const team ranks(opt, world);
  const silence others(!ranks.first());
  const base_model base = open_language_model(opt);
  const row_rules rules = read_row_rules(opt, base);
  const unpaired_columns keys{opt.get<std::string>("input_key"), opt.find<std::string>("output_key").value_or(""),
                              opt.get<std::string>("label_key")};
  auto train = read_unpaired(open_training_rows(opt), keys, rules);
  preference_rows<unpaired_row> held_out;
  if (const auto rows = open_evaluation_rows(opt)) held_out = read_unpaired(*rows, keys, rules);
  announce_rows(opt, train, held_out);
  const auto reference = load_reference(device, opt, base, ranks);
  kto_task<Device> task({.beta = opt.get<double>("beta"),
                         .desirable_weight = opt.get<double>("desirable_loss_weight"),
                         .undesirable_weight = opt.get<double>("undesirable_loss_weight"),
                         .rows_per_pass = opt.get<std::int64_t>("micro_train_batch_size"),
                         .rows_per_step = opt.get<std::int64_t>("train_batch_size"),
                         .scores = scores_path(opt)},
                        rules, std::move(train), std::move(held_out), reference ? &reference->model : nullptr);
  const std::array<std::string, 3> shown{"train/kto_loss", "eval/eval_loss", "eval/pair_acc"};
  train_supervised(device, opt, read_openrlhf_run(opt), read_openrlhf_training(opt), base, task, shown, ranks);
  if (ranks.first()) export_model(opt);
}

/// Reads the pairs, then runs the supervised loop with an rm_task.
template <class Device>
void train_rm(Device& device, const options& opt, parallel::any_communicator* world) {
  const team ranks(opt, world);
  const silence others(!ranks.first());
  base_model base = open_base_model(opt.get<std::string>("pretrain"));
  base.config.output = nn::model_output::score;
  const row_rules rules = read_row_rules(opt, base);
  const pair_columns keys{opt.find<std::string>("prompt_key").value_or(""), opt.get<std::string>("chosen_key"),
                          opt.get<std::string>("rejected_key")};
  auto train = read_pairs(open_training_rows(opt), keys, rules, false);
  preference_rows<preference_pair> held_out;
  if (const auto rows = open_evaluation_rows(opt)) {
    held_out = read_pairs(*rows, keys, rules, false);
  } else {
    const std::size_t n = std::min(train.size(), std::max<std::size_t>(1, train.read / 100));
    held_out.rows.assign(train.rows.begin(), train.rows.begin() + static_cast<std::ptrdiff_t>(n));
    held_out.read = n;
    say("note: without --eval_dataset the first %zu training rows are evaluated\n", n);
  }
  announce_rows(opt, train, held_out);
  const bool margins = opt.get<bool>("margin_loss"), logistic = opt.get<std::string>("loss") == "sigmoid";
  if (margins && !logistic) say("note: --margin_loss has no effect with --loss logexp\n");
  rm_task<Device> task({.margins = margins && logistic,
                        .pairs_per_pass = opt.get<std::int64_t>("micro_train_batch_size"),
                        .scores = scores_path(opt)},
                       std::move(train), std::move(held_out));
  const std::array<std::string, 4> shown{"train/loss", "train/acc", "eval/eval_loss", "eval/acc_mean"};
  train_supervised(device, opt, read_openrlhf_run(opt), read_openrlhf_training(opt), base, task, shown, ranks);
  if (ranks.first()) export_model(opt);
}

/// Reads the judged steps, then runs the supervised loop with a prm_task.
template <class Device>
void train_prm(Device& device, const options& opt, parallel::any_communicator* world) {
  const team ranks(opt, world);
  const silence others(!ranks.first());
  const base_model base = open_language_model(opt);
  const row_rules rules = read_row_rules(opt, base);
  const step_columns keys{opt.get<std::string>("input_key"), opt.get<std::string>("label_key"),
                          opt.find<std::string>("placeholder_token").value_or(""), opt.list("reward_tokens")};
  const step_tokens words = find_step_tokens(base.tokenizer, keys);
  auto train = read_steps(open_training_rows(opt), keys, words, rules);
  preference_rows<judged_row> held_out;
  if (const auto rows = open_evaluation_rows(opt)) held_out = read_steps(*rows, keys, words, rules);
  announce_rows(opt, train, held_out);
  prm_task<Device> task({.reward_tokens = words.rewards,
                         .rows_per_pass = opt.get<std::int64_t>("micro_train_batch_size"),
                         .scores = scores_path(opt)},
                        std::move(train), std::move(held_out));
  const std::array<std::string, 4> shown{"train/prm_loss", "train/acc", "eval/eval_loss", "eval/acc_mean"};
  train_supervised(device, opt, read_openrlhf_run(opt), read_openrlhf_training(opt), base, task, shown, ranks);
  if (ranks.first()) export_model(opt);
}

}  // namespace trainer
RLCORE_END
