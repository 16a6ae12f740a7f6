// The flags that OpenRLHF's trainers share (0.7.5, openrlhf/cli/train_*.py): names and defaults are theirs.
#pragma once

#include "rlcore/config/flag.hpp"
#include "rlcore/config/key.hpp"
#include "rlcore/config/keys/rlcore/console_key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key openrlhf_data[] = {
    {"pretrain", text, "null", honoured, "model folder to start from"},
    {"dataset", text, "null", honoured,
     "training rows: .jsonl, .json or .parquet files or folders of them, separated by commas (folder@sub)"},
    {"dataset_probs", text, "null", honoured, "mix the data sets: probability of each, separated by commas"},
    {"dataset_split", text, "train", honoured, "which files of a folder are read"},
    {"eval_dataset", text, "null", honoured, "evaluation rows, as dataset"},
    {"eval_split", text, "test", honoured, "which files of a folder are read for evaluation"},
    {"max_samples", integer, "1000000", honoured, "most rows of each data set and of all together", at_least(1)},
};

inline constexpr key openrlhf_training[] = {
    {"train_batch_size", integer, "128", honoured,
     "rows of one optimizer step; the last partial one of an epoch is left out", at_least(1)},
    {"micro_train_batch_size", integer, "8", honoured, "rows that go through the model together; memory only",
     at_least(1)},
    {"max_epochs", integer, "1", honoured, "passes over the training rows", at_least(0)},
    {"lr_warmup_ratio", real, "0.03", honoured, "share of the steps, rounded up, in which the rate rises from 0",
     between(0, 1)},
    {"adam_betas", any, "[0.9,0.95]", honoured, "AdamW's decay rates of the moments: two numbers"},
    {"l2", real, "0.0", honoured, "AdamW's decoupled weight decay; biases and norms have none", at_least(0)},
    {"max_norm", real, "1.0", honoured, "largest L2 norm of the gradient; <= 0: no limit"},
    {"gradient_checkpointing", boolean, "False", honoured, "keep only each layer's input for the backward pass"},
    {"seed", integer, "42", honoured, "seed of the rows' order, of mixing and of new weights", at_least(0)},
    {"lora_rank", integer, "0", honoured, "rank of the LoRA adapter; 0: all weights are trained", at_least(0)},
    {"lora_alpha", integer, "16", honoured, "the adapter is scaled by alpha / rank", at_least(1)},
    {"target_modules", texts, "all-linear", honoured, "matrices with an adapter: all-linear or names such as q_proj"},
    {"lora_dropout", real, "0", fixed, "dropout in front of the adapter"},
    {"load_in_4bit", boolean, "False", fixed, "quantised base weights"},
};

inline constexpr key openrlhf_run[] = {
    {"save_path", text, "./ckpt", honoured, "folder of the trained model, for transformers"},
    {"ckpt_path", text, "./ckpt/checkpoints", honoured, "folder of checkpoints, metrics and report", not_empty},
    {"save_steps", integer, "-1", honoured, "checkpoint every so many steps and always at the last"},
    {"eval_steps", integer, "-1", honoured, "evaluation every so many steps and at the last; -1: after every epoch"},
    {"max_ckpt_num", integer, "3", honoured, "older checkpoints are removed", at_least(1)},
    {"load_checkpoint", boolean, "False", honoured, "go on from the last checkpoint in ckpt_path, to the same bits"},
    {"use_tensorboard", text, "null", honoured, "folder for TensorBoard event files"},
    {"logging_steps", integer, "1", accepted, "every step is logged", at_least(1)},
    {"save_hf_ckpt", boolean, "False", accepted, "every checkpoint holds Hugging Face weights (folder huggingface)"},
    {"disable_ds_ckpt", boolean, "False", accepted, "checkpoints are always whole"},
    {"max_ckpt_mem", real, "1e8", accepted, "disk limit in GB", at_least(0)},
    {"use_ds_universal_ckpt", boolean, "False", accepted, "checkpoints do not depend on the number of devices"},
    {"use_wandb", text, "null", honoured, "metrics go to files; the command that sends them to wandb is printed"},
    {"wandb_org", text, "null", accepted, "web tracker"},
    {"wandb_group", text, "null", accepted, "web tracker"},
    {"wandb_project", text, "openrlhf", honoured, "first part of the run's name, for the report"},
    {"wandb_run_name", text, "run", honoured, "second part of the run's name"},
    {"use_ms", boolean, "False", fixed, "download from ModelScope; nothing is downloaded here"},
};

inline constexpr key openrlhf_device[] = {
    {"full_determinism", boolean, "False", accepted, "always: equal runs give equal bits"},
    {"flash_attn", boolean, "False", accepted, "attention never stores its matrix"},
    {"packing_samples", boolean, "False", accepted, "rows are never padded"},
    {"ring_attn_size", integer, "1", honoured, "ranks that share each sequence (rlcore.context_kind)", at_least(1)},
    {"ring_head_stride", integer, "1", accepted, "heads per turn of the ring", at_least(1)},
    {"aux_loss_coef", real, "0", honoured, "load-balancing loss of a mixture of experts; none with dense models",
     at_least(0)},
    {"zero_stage", integer, "2", honoured,
     "what ranks share: 0 nothing, 1 optimizer state, 2 and gradients, 3 and weights", between(0, 3)},
    {"zpg", integer, "1", accepted, "second copies of shards within a machine", at_least(1)},
    {"ds_tensor_parallel_size", integer, "1", honoured, "ranks that share each matrix", at_least(1)},
    {"adam_offload", boolean, "False", accepted, "optimizer state in host memory, where it is"},
    {"grad_accum_dtype", text, "null", accepted, "gradients are float32"},
    {"overlap_comm", boolean, "False", accepted, "gathers begin early where the engine can, always"},
    {"gradient_checkpointing_use_reentrant", boolean, "False", accepted, "how activations are computed again"},
    {"deepcompile", boolean, "False", accepted, "compiler of graphs"},
    {"use_liger_kernel", boolean, "False", accepted, "fused kernels"},
    {"disable_fast_tokenizer", boolean, "False", accepted, "choice of tokenizer code; the ids are the same"},
    {"local_rank", integer, "-1", accepted, "number of the process"},
};

inline constexpr key openrlhf_own[] = {
    {"rlcore.shuffle", boolean, "True", honoured, "new order of the rows in each epoch, from the seed"},
    {"rlcore.eval_before_train", boolean, "False", honoured, "evaluation before the first step"},
    {"rlcore.eval_scores", text, "null", honoured,
     "file for the scores of the evaluation rows, one JSON object per row, replaced by each evaluation"},
    {"rlcore.logger", texts, "[console,file,tensorboard]", honoured,
     "where metrics go: console, file (metrics.jsonl), tensorboard"},
    console,
    {"rlcore.report", boolean, "True", honoured, "write report.html beside the checkpoints"},
    {"rlcore.logits_memory_mb", integer, "256", honoured, "memory for logits, in MiB; no result depends on it",
     at_least(1)},
};

inline constexpr flag openrlhf_flags[] = {
    {"adam_betas", "adam_betas", 2},
    {"bf16", "rlcore.compute", flag::switch_only, "bfloat16"},
};

}  // namespace trainer::keys
RLCORE_END
