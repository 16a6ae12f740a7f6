// The keys of sft_trainer: verl's fsdp_sft_trainer (state of August 2025), some later keys, and this library's own.
#pragma once

#include "rlcore/config/key.hpp"
#include "rlcore/config/keys/rlcore_keys.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key sft_data[] = {
    {"data.train_files", texts, "'~/data/gsm8k/train.parquet'", honoured,
     "training rows: one path or a list, concatenated in order (.parquet, .jsonl, .json)"},
    {"data.val_files", texts, "'~/data/gsm8k/test.parquet'", honoured,
     "evaluation rows: one path or a list; []: nothing is evaluated (upstream needs a file)"},
    {"data.train_batch_size", integer, "256", honoured, "rows of one optimizer step; a last partial one is dropped",
     at_least(1)},
    {"data.micro_batch_size_per_gpu", integer, "4", honoured,
     "rows per forward pass; memory only, no result depends on it", at_least(1)},
    {"data.micro_batch_size", integer, "null", accepted, "deprecated upstream", at_least(1)},
    {"data.prompt_key", text, "question", honoured, "column of the question"},
    {"data.response_key", text, "answer", honoured, "column of the answer"},
    {"data.prompt_dict_keys", texts, "null", honoured, "keys to follow inside the prompt column, which is a map then"},
    {"data.response_dict_keys", texts, "null", honoured, "the same for the response column"},
    {"data.multiturn.enable", boolean, "False", honoured,
     "rows are conversations; every turn of the assistant is learnt"},
    {"data.multiturn.messages_key", text, "messages", honoured, "column with the list of messages"},
    {"data.multiturn.tools_key", text, "tools", honoured, "column with the tool schemas, if there is one"},
    {"data.multiturn.enable_thinking_key", text, "enable_thinking", honoured,
     "column that turns thinking on or off, if there is one"},
    {"data.max_length", integer, "1024", honoured, "longest row in tokens", at_least(1)},
    {"data.truncation", text, "error", honoured, "what happens to a longer row: right keeps its head, left its tail",
     words("error|left|right")},
    {"data.train_max_samples", integer, "-1", honoured, "only the first so many rows; <= 0: all"},
    {"data.val_max_samples", integer, "-1", honoured, "the same for evaluation"},
    {"data.shuffle", boolean, "True", honoured, "new order of the rows in each epoch, from trainer.seed"},
    {"data.packing", boolean, "False", accepted, "rows of a pass are never padded here; no result depends on it"},
    {"data.balance_dp_token", boolean, "False", accepted,
     "the loss is always a mean over all trained tokens of the step"},
    {"data.apply_chat_template_kwargs.enable_thinking", boolean, "null", honoured,
     "thinking on or off in the chat template, for every row"},
    {"data.chat_template", text, "null", honoured,
     "another chat template than the model's: a file, Jinja text, or a family such as qwen2.5"},
    {"data.custom_cls.path", text, "null", fixed, "own dataset class (Python)"},
    {"data.custom_cls.name", text, "null", fixed, "own dataset class (Python)"},
    {"data.use_shm", boolean, "False", accepted, "copy files to shared memory first"},
};

inline constexpr key sft_model[] = {
    {"model.partial_pretrain", text, "'~/models/gemma-1.1-7b-it'", honoured, "model folder to start from"},
    {"model.lora_rank", integer, "0", honoured, "rank of the LoRA adapter; 0: all weights are trained", at_least(0)},
    {"model.lora_alpha", real, "16", honoured, "the adapter is scaled by alpha / rank"},
    {"model.target_modules", texts, "all-linear", honoured,
     "matrices with an adapter: all-linear or a list [q_proj,v_proj]"},
    {"model.enable_gradient_checkpointing", boolean, "True", honoured,
     "keep only each layer's input for the backward pass; memory only"},
    {"model.use_shm", boolean, "False", accepted, "copy files to shared memory first"},
    {"model.fsdp_config.model_dtype", text, "fp32", accepted, "weights are float32 here"},
    {"model.fsdp_config.wrap_policy.min_num_params", integer, "0", accepted, "a shard unit is a layer"},
    {"model.fsdp_config.cpu_offload", boolean, "False", accepted, "shards stay on the device"},
    {"model.fsdp_config.offload_params", boolean, "False", accepted, "shards stay on the device"},
    {"model.external_lib", text, "null", accepted, "Python package to import"},
    {"model.trust_remote_code", boolean, "False", accepted, "this program runs no code from model folders"},
    {"model.use_liger", boolean, "False", accepted, "fused kernels"},
    {"model.strategy", text, "fsdp2", honoured, "what ranks share: weights, gradients and optimizer state",
     words("fsdp|fsdp2")},
    {"model.fsdp_config.fsdp_size", integer, "-1", honoured, "ranks of a shard group, the groups hold copies; -1: all",
     at_least(-1)},
    {"model.fsdp_config.reshard_after_forward", boolean, "True", honoured,
     "False keeps gathered weights for the backward pass; memory and traffic only"},
    {"ulysses_sequence_parallel_size", integer, "1", honoured,
     "ranks that share each sequence, by heads (rlcore.context_kind)", at_least(1)},
    {"use_remove_padding", boolean, "False", accepted, "rows are never padded here"},
};

inline constexpr key sft_optim[] = {
    {"optim.lr", real, "1e-5", honoured, "largest learning rate", finite_from(0)},
    {"optim.betas", any, "[0.9,0.95]", honoured, "AdamW's decay rates of the moments"},
    {"optim.weight_decay", real, "0.01", honoured, "AdamW's decoupled weight decay", at_least(0)},
    {"optim.warmup_steps_ratio", real, "0.1", honoured, "share of the steps in which the rate rises from 0",
     between(0, 1)},
    {"optim.lr_warmup_steps_ratio", real, "null", honoured, "later name of warmup_steps_ratio", between(0, 1)},
    {"optim.lr_scheduler", text, "cosine", honoured,
     "then: cosine; wsd (stable for 0.9 of the rest, then cosine); cosine_with_min_lr (floor 0.1); linear; constant",
     words("cosine|wsd|cosine_with_min_lr|linear|constant")},
    {"optim.min_lr_ratio", real, "null", honoured, "floor of cosine, wsd and cosine_with_min_lr, as a share of lr",
     between(0, 1)},
    {"optim.clip_grad", real, "1.0", honoured, "largest L2 norm of the gradient; <= 0: no limit"},
};

inline constexpr key sft_run[] = {
    {"trainer.total_epochs", integer, "4", honoured, "passes over the training rows", at_least(0)},
    {"trainer.total_training_steps", integer, "null", honoured,
     "steps; ends the run earlier, the learning rate follows total_epochs all the same", at_least(0)},
    {"trainer.project_name", text, "gsm8k-sft", honoured, "first part of the run's name"},
    {"trainer.experiment_name", text, "test", honoured, "second part of the run's name"},
    {"trainer.default_local_dir", text, "checkpoints/${trainer.project_name}/${trainer.experiment_name}", honoured,
     "folder of checkpoints, metrics and report", not_empty},
    {"trainer.default_hdfs_dir", text, "null", fixed, "remote copy of the checkpoints"},
    {"trainer.logger", texts, "[console,file,tensorboard]", honoured,
     "where metrics go: console, file (metrics.jsonl), tensorboard (event files); for wandb, swanlab, mlflow, trackio "
     "and clearml a command that sends the files there is printed"},
    {"trainer.seed", integer, "1", honoured, "seed of the rows' order and of new weights", at_least(0)},
    {"trainer.save_freq", integer, "-1", honoured, "checkpoint every so many steps and always at the last"},
    {"trainer.test_freq", integer, "-1", honoured, "evaluation every so many steps and always at the last"},
    {"trainer.val_before_train", boolean, "False", honoured, "evaluation before the first step"},
    {"trainer.max_ckpt_to_keep", integer, "null", honoured, "older checkpoints are removed; null keeps all",
     at_least(0)},
    {"trainer.resume_mode", text, "auto", honoured, "auto: from the last checkpoint, if there is one",
     words("auto|disable|resume_path")},
    {"trainer.resume_from_path", text, "null", honoured, "checkpoint folder global_step_N to continue from"},
    {"trainer.checkpoint.save_contents", texts, "[model,optimizer,extra]", honoured,
     "given without hf_model, several ranks save weights as shards alone; else all is saved"},
    {"trainer.checkpoint.load_contents", texts, "${trainer.checkpoint.save_contents}", accepted,
     "everything is always loaded"},
};

inline constexpr key sft_own[] = {
    {"rlcore.report", boolean, "True", honoured, "write report.html beside the checkpoints"},
    console,
    {"rlcore.tensorboard_dir", text, "null", honoured,
     "folder of the event files (also --use_tensorboard); null: $TENSORBOARD_DIR, or tensorboard beside metrics.jsonl"},
    {"rlcore.logits_memory_mb", integer, "256", honoured, "memory for logits, in MiB; no result depends on it",
     at_least(1)},
    {"rlcore.chat_template", text, "null", honoured,
     "another chat template than the model's: a file, Jinja text, or a family such as qwen2.5"},
    {"rlcore.sft_loss", text, "nll", honoured,
     "nll: negative log-likelihood; dft: weighted by the token's probability (Wu et al. 2025)", words("nll|dft")},
    {"rlcore.show_mask", integer, "0", honoured,
     "print the tokens of the first so many training rows with marks of what is learnt, and stop", at_least(0)},
};

}  // namespace trainer::keys
RLCORE_END
