// The flags of OpenRLHF's train_sft (0.7.5): what it adds to those of its other trainers, and other defaults.
#pragma once

#include "rlcore/config/flag.hpp"
#include "rlcore/config/key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key openrlhf_sft[] = {
    {"train_batch_size", integer, "128", honoured,
     "rows of one optimizer step; steps run on from one epoch into the next", at_least(1)},
    {"max_epochs", integer, "2", honoured, "passes over the training rows", at_least(0)},
    {"learning_rate", real, "5e-6", honoured, "largest learning rate", finite_from(0)},
    {"lr_scheduler", text, "cosine_with_min_lr", honoured, "after the warm-up: cosine to a tenth or to 0, or others",
     words("cosine_with_min_lr|cosine|linear|constant|constant_with_warmup")},
    {"input_key", text, "input", honoured, "column with the prompt, or with whole conversations"},
    {"output_key", text, "null", honoured, "column with the response; null: it is the end of the conversation"},
    {"input_template", text, "'User: {}\nAssistant: '", honoured, "text around the prompt, with {} in its place"},
    {"apply_chat_template", boolean, "False", honoured, "columns hold messages; a text is one message"},
    {"tokenizer_chat_template", text, "null", honoured,
     "another chat template than the model's: a file, Jinja text, or a family such as qwen2.5"},
    {"multiturn", boolean, "False", honoured,
     "every turn of the assistant is learnt, not only the last (with apply_chat_template)"},
    {"pretrain_mode", boolean, "False", honoured, "input_key holds texts, all of which is learnt"},
    {"max_len", integer, "2048", honoured, "most tokens of a row; longer ones are cut at the end", at_least(4)},
    {"ckpt_path", text, "./ckpt/checkpoints_sft", honoured, "folder of checkpoints, metrics and report", not_empty},
    {"wandb_project", text, "openrlhf_train_sft", honoured, "first part of the run's name, for the report"},
};

inline constexpr key openrlhf_sft_own[] = {
    {"rlcore.sft_loss", text, "nll", honoured,
     "nll: negative log-likelihood; dft: weighted by the token's probability (Wu et al. 2025)", words("nll|dft")},
    {"rlcore.show_mask", integer, "0", honoured,
     "print the tokens of the first so many training rows with marks of what is learnt, and stop", at_least(0)},
};

/// Of both command lines of sft_trainer.
inline constexpr flag show_mask[] = {{"show_mask", "rlcore.show_mask"}};

}  // namespace trainer::keys
RLCORE_END
