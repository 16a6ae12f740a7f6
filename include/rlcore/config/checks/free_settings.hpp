// Settings that may change on resume: ranks, layout, threads, memory, length, validation, logging, saving.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

/// Key names; `*` at one end is a wildcard. docs/checkpoints.md lists them. All other keys change the numbers of a run.
inline constexpr std::string_view free_settings[] = {
    // where it runs
    "trainer.device", "rlcore.npu*", "rlcore.cuda*", "trainer.nnodes", "trainer.n_gpus_per_node", "rlcore.threads",
    "rlcore.instruction_set", "rlcore.deadline_s", "rlcore.compare_collectives", "rlcore.zero_stage", "*_parallel_size",
    "*.megatron.*", "*.fsdp_config.*", "*.strategy", "rlcore.context_kind", "rlcore.reduction",
    "rlcore.gradient_leaves", "rlcore.row_chunks", "rlcore.reduce_dtype", "zero_stage", "ring_attn_size", "zpg",
    "local_rank",
    // how much memory it takes
    "*micro_batch_size*", "*micro_train_batch_size", "*micro_rollout_batch_size", "*use_dynamic_bsz",
    "*max_token_len_per_gpu", "*gradient_checkpointing*", "*gpu_memory_utilization", "*max_num_seqs",
    "*max_num_batched_tokens", "*enable_chunked_prefill", "*enable_prefix_caching", "*update_weights_bucket_megabytes",
    "rlcore.logits_memory_mb", "rlcore.image_cache_mb", "rlcore.max_decode_batch",
    // run length, evaluation, logging and saving
    "trainer.total_epochs", "trainer.total_training_steps", "max_epochs", "num_episodes", "*val_*", "trainer.test_freq",
    "*eval_*", "trainer.logger", "rlcore.logger", "rlcore.console", "logging_steps", "*use_wandb*", "wandb_*",
    "*use_tensorboard", "rlcore.tensorboard_dir", "trainer.project_name", "trainer.experiment_name", "rlcore.report",
    "*show_mask", "trainer.save_freq", "save_*", "max_ckpt_*", "*ckpt_to_keep", "*.checkpoint.*",
    "trainer.rollout_data_dir", "rlcore.export_*", "trainer.resume_*", "load_checkpoint", "rlcore.replay_wait_s",
    "rlcore.reward_timeout", "rlcore.tool_timeout_s", "rlcore.tool_processes", "*agent.num_workers",
    // where files are: a folder may have moved
    "trainer.default_local_dir", "ckpt_path", "*input_tokenizer", "*train_files", "dataset", "prompt_data",
    "rlcore.replay"};

/// Model folders; they may have moved, but their weights must be the same.
inline constexpr std::string_view model_settings[] = {"*model.path", "*.partial_pretrain", "pretrain", "*_pretrain"};

/// Whether one of `patterns` is or matches the key.
constexpr bool names_setting(std::span<const std::string_view> patterns, std::string_view key) noexcept {
  return std::any_of(patterns.begin(), patterns.end(), [key](std::string_view pattern) {
    const bool before = pattern.starts_with('*'), after = pattern.ends_with('*');
    if (before) pattern.remove_prefix(1);
    if (after) pattern.remove_suffix(1);
    if (before && after) return key.find(pattern) != key.npos;
    return before ? key.ends_with(pattern) : after ? key.starts_with(pattern) : key == pattern;
  });
}

/// Whether the key may change on resume.
constexpr bool is_free_setting(std::string_view key) noexcept {
  return names_setting(free_settings, key) || names_setting(model_settings, key);
}

}  // namespace train
RLCORE_END
