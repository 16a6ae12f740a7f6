// The flags of OpenRLHF's DPO, KTO, reward and process reward trainers (0.7.5): their own flags and defaults.
#pragma once

#include "rlcore/config/checks/preference_checks.hpp"
#include "rlcore/config/keys/openrlhf_keys.hpp"
#include "rlcore/config/keys/rlcore_keys.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace train {
namespace keys {

inline constexpr key pair_columns[] = {
    {"prompt_key", text, "null", honoured,
     "column with the prompt; without one, the answers are whole texts or conversations"},
    {"chosen_key", text, "chosen", honoured, "column with the preferred answer"},
    {"rejected_key", text, "rejected", honoured, "column with the other answer"},
    {"input_template", text, "null", honoured, "text around the prompt, with {} in its place"},
};

/// Tokenization of texts and message lists, shared by all trainers.
inline constexpr key chat_text[] = {
    {"apply_chat_template", boolean, "False", honoured, "columns hold messages; a text is one message"},
    {"tokenizer_chat_template", text, "null", honoured,
     "another chat template than the model's: a file, Jinja text, or a family such as qwen2.5"},
    {"max_len", integer, "512", honoured, "most tokens of a row; longer ones are cut at the end", at_least(4)},
};

inline constexpr key dpo[] = {
    {"learning_rate", real, "1e-5", honoured, "largest learning rate", finite_from(0)},
    {"beta", real, "0.1", honoured, "strength of the pull to the reference", at_least(1e-12)},
    {"ipo", boolean, "False", honoured, "IPO's squared loss"},
    {"label_smoothing", real, "0.0", honoured, "share of pairs taken to be the wrong way round (cDPO)", between(0, 1)},
    {"nll_loss_coef", real, "0", honoured, "+ this times the mean NLL per token of the chosen answers", at_least(0)},
    {"ref_pretrain", text, "null", honoured, "model folder of the reference; null: pretrain"},
    {"ref_offload", boolean, "False", accepted, "where the reference is kept"},
    {"ckpt_path", text, "./ckpt/checkpoints_dpo", honoured, "folder of checkpoints, metrics and report", not_empty},
    {"wandb_project", text, "openrlhf_train_dpo", honoured, "first part of the run's name, for the report"},
};

inline constexpr key kto[] = {
    {"learning_rate", real, "1e-5", honoured, "largest learning rate", finite_from(0)},
    {"beta", real, "0.01", honoured, "strength of the pull to the reference", at_least(1e-12)},
    {"desirable_loss_weight", real, "1.0", honoured, "weight of desirable rows", at_least(0)},
    {"undesirable_loss_weight", real, "1.0", honoured, "weight of the others", at_least(0)},
    {"train_batch_size", integer, "128", honoured,
     "rows of one optimizer step; the last partial one of an epoch is left out", at_least(2)},
    {"input_key", text, "input", honoured, "column with the prompt"},
    {"output_key", text, "null", honoured, "column with the answer; null: input_key holds whole conversations"},
    {"label_key", text, "label", honoured, "column with 1 (desirable) or 0"},
    {"input_template", text, "'User: {}\nAssistant: '", honoured, "text around the prompt, with {} in its place"},
    {"max_len", integer, "2048", honoured, "most tokens of a row; longer ones are cut at the end", at_least(4)},
    {"ref_pretrain", text, "null", honoured, "model folder of the reference; null: pretrain"},
    {"ref_offload", boolean, "False", accepted, "where the reference is kept"},
    {"ckpt_path", text, "./ckpt/checkpoints_kto", honoured, "folder of checkpoints, metrics and report", not_empty},
    {"wandb_project", text, "openrlhf_train_dpo", honoured, "first part of the run's name, for the report"},
};

inline constexpr key rm[] = {
    {"learning_rate", real, "9e-6", honoured, "largest learning rate", finite_from(0)},
    {"micro_train_batch_size", integer, "1", honoured, "rows that go through the model together; memory only",
     at_least(1)},
    {"loss", text, "sigmoid", honoured, "sigmoid, or logexp: the same without a margin", words("sigmoid|logexp")},
    {"margin_loss", boolean, "False", honoured, "subtract the column margin of each pair"},
    {"compute_fp32_loss", boolean, "False", accepted, "the loss is always computed in more than float32"},
    {"value_head_prefix", text, "score", fixed, "name of the head"},
    {"eval_split", text, "train", honoured, "which files of a folder are read for evaluation"},
    {"ckpt_path", text, "./ckpt/checkpoints_rm", honoured, "folder of checkpoints, metrics and report", not_empty},
    {"wandb_project", text, "openrlhf_train_rm", honoured, "first part of the run's name, for the report"},
};

inline constexpr key prm[] = {
    {"learning_rate", real, "1e-6", honoured, "largest learning rate", finite_from(0)},
    {"lr_scheduler", text, "cosine_with_min_lr", honoured, "after the warm-up: cosine to a tenth or to 0, or none",
     words("cosine_with_min_lr|cosine|linear|constant|constant_with_warmup")},
    {"micro_train_batch_size", integer, "1", honoured, "rows that go through the model together; memory only",
     at_least(1)},
    {"input_key", text, "input", honoured, "column with a text that has a placeholder after each step"},
    {"label_key", text, "label", honoured,
     "column with a list, one per placeholder: reward tokens, or numbers from 0 to 1 (soft labels)"},
    {"placeholder_token", text, "null", honoured, "the token at which steps are judged"},
    {"reward_tokens", texts, "null", honoured, "the tokens of the judgement; with soft labels two, the good one first"},
    {"max_len", integer, "2048", honoured, "most tokens of a row; longer ones are cut at the end", at_least(4)},
    {"ckpt_path", text, "./ckpt/checkpoints_prm", honoured, "folder of checkpoints, metrics and report", not_empty},
    {"wandb_project", text, "openrlhf_train_prm", honoured, "first part of the run's name, for the report"},
};

}  // namespace keys

namespace detail {

inline registry openrlhf_registry(const char* program, const char* summary) {
  registry known;
  known.program = program;
  known.summary = summary;
  known.topics = keys::openrlhf_topics;
  known.check = check_preference_options;
  known.add_as_flags(keys::openrlhf_data);
  return known;
}
inline registry& finish_openrlhf(registry& known, std::span<const key> program_keys) {
  known.add_as_flags(keys::openrlhf_training).add_as_flags(keys::openrlhf_run).add_as_flags(keys::openrlhf_device);
  return known.add_as_flags(program_keys)
      .add(keys::ranks)
      .add(keys::sharing)
      .add(keys::device)
      .add(keys::openrlhf_own)
      .add(keys::images)
      .add(keys::image_pixels)
      .add_flags(keys::openrlhf_flags)
      .add_flags(keys::image_flags);
}

}  // namespace detail

registry dpo_registry();
registry kto_registry();
registry rm_registry();
registry prm_registry();

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE registry dpo_registry() {
  registry known = detail::openrlhf_registry("dpo_trainer",
                                             "direct preference optimization of a language model on "
                                             "pairs of answers");
  known.add_as_flags(keys::pair_columns).add_as_flags(keys::chat_text);
  return detail::finish_openrlhf(known, keys::dpo);
}

RLCORE_INLINE registry kto_registry() {
  registry known = detail::openrlhf_registry("kto_trainer",
                                             "Kahneman-Tversky optimization of a language model on "
                                             "answers that are desirable or not");
  known.add_as_flags(keys::chat_text);
  return detail::finish_openrlhf(known, keys::kto);
}

RLCORE_INLINE registry rm_registry() {
  registry known = detail::openrlhf_registry("rm_trainer", "a reward model from pairs of answers");
  known.add_as_flags(keys::pair_columns).add_as_flags(keys::chat_text);
  return detail::finish_openrlhf(known, keys::rm);
}

RLCORE_INLINE registry prm_registry() {
  registry known = detail::openrlhf_registry("prm_trainer",
                                             "a process reward model from answers whose steps are "
                                             "judged");
  return detail::finish_openrlhf(known, keys::prm);
}

}  // namespace train
RLCORE_END
#endif
