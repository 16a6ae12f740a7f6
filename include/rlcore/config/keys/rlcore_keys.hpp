// Keys of rlcore itself, and the help topics.
#pragma once

#include "rlcore/config/algorithm/verl_version.hpp"
#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace train::keys {

/// verl's trainers and evaluate.
inline constexpr help_topic verl_topics[] = {
    {"data", "rows, their columns and lengths",
     "train_files val_files files form train_batch_size max_length max_prompt_length max_response_length truncation "
     "prompt_key response_key image_key filter_overlong_prompts train_max_samples val_max_samples limit shuffle"},
    {"model", "the model, LoRA", "partial_pretrain path lora_rank lora_alpha target_modules"},
    {"actor_rollout_ref.model", "the policy's model, LoRA", "path lora_rank lora_alpha target_modules"},
    {"actor_rollout_ref.actor", "the policy's loss, updates and optimizer",
     "optim.lr ppo_mini_batch_size ppo_micro_batch_size_per_gpu clip_ratio_low clip_ratio_high use_kl_loss "
     "kl_loss_coef "
     "loss_agg_mode policy_loss.loss_mode entropy_coeff"},
    {"actor_rollout_ref.rollout", "sampling, in training and validation",
     "n temperature top_p top_k max_num_seqs val_kwargs.n val_kwargs.do_sample val_kwargs.temperature"},
    {"actor_rollout_ref.ref", "the reference model", "log_prob_micro_batch_size_per_gpu"},
    {"algorithm", "advantages, KL in the reward, dynamic sampling",
     "adv_estimator norm_adv_by_std_in_grpo use_kl_in_reward kl_ctrl.kl_coef gamma lam filter_groups.enable"},
    {"custom_reward_function", "your own reward", "path name"},
    {"reward_model", "reward manager, overlong penalty, reward model",
     "reward_manager overlong_buffer.enable overlong_buffer.len enable model.path"},
    {"reward", "newer names of the two before", "reward_manager.name custom_reward_function.path"},
    {"critic", "the value model", "model.path optim.lr cliprange_value grad_clip"},
    {"optim", "optimizer and schedule", "lr weight_decay warmup_steps_ratio lr_scheduler clip_grad betas"},
    {"rollout", "sampling; the length of asynchronous runs", "n temperature top_p top_k max_num_seqs"},
    {"async_training", "asynchronous training", "staleness_threshold trigger_parameter_sync_step"},
    {"trainer", "length of the run, saving, logging, devices",
     "total_epochs total_training_steps save_freq test_freq default_local_dir resume_mode project_name "
     "experiment_name n_gpus_per_node nnodes device logger",
     "ulysses_sequence_parallel_size"},
    {"rlcore", "what verl does not have",
     "threads compute seed console report reward_command data_source chat_template verl zero_stage"},
    {"rlcore.npu", "Ascend NPUs", "device deterministic"},
    {"rlcore.npu_emulator", "Ascend NPUs modelled on the CPU", "soc cann_version"},
    {"rlcore.cuda", "NVIDIA GPUs", "device required"},
    {"rlcore.cuda_emulator", "kernels of NVIDIA GPUs on the CPU", "seed"},
    {"quickstart", "the task and the model that are made first", "task_only warm_start_steps"},
    {"evaluate", "stored responses, the rule of judgement, output", "", "responses rule rule_box output_dir"},
    {"openrlhf", "flags of OpenRLHF's train_ppo_ray, instead of the keys above", "",
     "pretrain prompt_data input_key label_key apply_chat_template advantage_estimator n_samples_per_prompt "
     "rollout_batch_size train_batch_size actor_learning_rate init_kl_coef save_path",
     true},
};

/// OpenRLHF's single-model trainers: train_sft, train_dpo, train_kto, train_rm, train_prm.
inline constexpr help_topic openrlhf_topics[] = {
    {"model", "the model that is trained, LoRA", "",
     "pretrain ref_pretrain lora_rank lora_alpha target_modules lora_dropout load_in_4bit value_head_prefix "
     "ref_offload"},
    {"data", "rows, their columns and lengths", "image_key",
     "dataset eval_dataset prompt_key chosen_key rejected_key input_key output_key label_key placeholder_token "
     "reward_tokens apply_chat_template max_len max_samples input_template tokenizer_chat_template multiturn "
     "pretrain_mode dataset_probs dataset_split eval_split use_ms"},
    {"loss", "the objective", "",
     "beta ipo label_smoothing nll_loss_coef desirable_loss_weight undesirable_loss_weight loss margin_loss "
     "aux_loss_coef compute_fp32_loss"},
    {"optimizer", "learning rate, batches, epochs", "",
     "learning_rate train_batch_size micro_train_batch_size max_epochs lr_warmup_ratio lr_scheduler adam_betas l2 "
     "max_norm gradient_checkpointing seed"},
    {"run", "saving, evaluation, logging", "",
     "save_path ckpt_path save_steps eval_steps load_checkpoint max_ckpt_num use_tensorboard wandb_project "
     "wandb_run_name logging_steps save_hf_ckpt disable_ds_ckpt max_ckpt_mem use_ds_universal_ckpt use_wandb wandb_org "
     "wandb_group"},
    {"devices", "what ranks share; switches of OpenRLHF's engines", "",
     "zero_stage ds_tensor_parallel_size ring_attn_size", true},
    {"trainer", "ranks and the device", "device n_gpus_per_node nnodes"},
    {"rlcore", "what OpenRLHF does not have", "threads compute console logger report sft_loss show_mask eval_scores"},
    {"rlcore.npu", "Ascend NPUs", "device deterministic"},
    {"rlcore.npu_emulator", "Ascend NPUs modelled on the CPU", "soc cann_version"},
    {"rlcore.cuda", "NVIDIA GPUs", "device required"},
    {"rlcore.cuda_emulator", "kernels of NVIDIA GPUs on the CPU", "seed"},
};

/// plan.
inline constexpr help_topic plan_topics[] = {
    {"machine", "the model and the devices", "", "model devices cluster"},
    {"layout", "what the devices share; what is not given is searched", "",
     "data tensor context expert zero rollout_tensor stages shard_ranks how_context sequence_parallel "
     "reshard_after_forward optimizer_offload reduction values experts gradients num_layers_in_first_pipeline_stage "
     "num_layers_in_last_pipeline_stage account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split"},
    {"workload", "one step of training", "",
     "prompts responses prompt_length response_length sampling lora_rank micro_tokens recompute reference updates "
     "epochs "
     "old_log_probs gradient_leaves image_tokens logits_memory_mb"},
    {"output", "what is printed", "", "show markdown", true},
};

inline constexpr key trace_file = {
    "rlcore.trace", text, "null", honoured,
    "file of a time line of the first steps, by rank and thread, for ui.perfetto.dev or chrome://tracing"};
inline constexpr key trace_steps = {
    "rlcore.trace_steps", integer, "3", honoured, "steps of it, from the start of the run", at_least(1)};
inline constexpr key console = {
    "rlcore.console",
    text,
    "null",
    honoured,
    "short: a table of steps, all metrics go to console.log; verl: all metrics; null: short on a terminal",
    words("short|verl")};

inline constexpr key device[] = {
    {"trainer.device", text, "cpu", honoured,
     "cpu; npu: Ascend, by CANN; npu_emulator: modelled on the CPU; cuda: NVIDIA, or the CPU where there is none "
     "(upstream default: cuda); cuda_emulator: its kernels on the CPU",
     words("cpu|npu|npu_emulator|cuda|cuda_emulator")},
    {"rlcore.compute", text, "null", honoured,
     "what products read: float32, bfloat16 (masters float32), hf32 (NPU); null: float32, on the NPU bfloat16",
     words("float32|bfloat16|hf32")},
    {"rlcore.threads", integer, "0", honoured,
     "worker threads (CPU and emulator); 0: all cores. No result depends on it", at_least(0)},
    {"rlcore.instruction_set", text, "null", honoured,
     "kernels of the CPU: avx512_bf16, avx512, avx2 or portable; null: the best that this processor has",
     words("avx512_bf16|avx512|avx2|portable")},
    {"rlcore.npu.device", integer, "0", honoured, "number of the NPU", between(0, 1023)},
    {"rlcore.npu.deterministic", boolean, "True", honoured,
     "equal runs give equal bits: operators that add in any order take their slower ordered forms"},
    {"rlcore.npu.hccl", boolean, "True", honoured,
     "several NPUs exchange their memory by HCCL; False: through the host's memory. No result depends on it"},
    {"rlcore.npu.sync_each_operation", boolean, "False", honoured,
     "wait after every operator, so that an error names the one that failed; slow"},
    {"rlcore.npu.trace", text, "null", honoured, "file for every call of Ascend's functions, one per line"},
    {"rlcore.cuda.device", integer, "0", honoured, "number of the GPU", between(0, 1023)},
    {"rlcore.cuda.required", boolean, "False", honoured,
     "refuse to run where no GPU can be used, instead of running on the CPU"},
    {"rlcore.cuda.sync_each_operation", boolean, "False", honoured,
     "wait after every kernel, so that an error names the one that failed; slow"},
    {"rlcore.cuda.cache", text, "null", honoured,
     "folder of compiled kernels; null: rlcore/cuda in $XDG_CACHE_HOME or ~/.cache; none: they are compiled at every "
     "start"},
    {"rlcore.cuda_emulator.seed", integer, "0", honoured,
     "of the order of a block's threads between barriers; no result depends on it; 0: by number", at_least(0)},
    {"rlcore.npu_emulator.soc", text, "Ascend910B3", honoured, "the chip that is played",
     words("Ascend910B1|Ascend910B2|Ascend910B2C|Ascend910B3|Ascend910B4|Ascend910B4-1|Ascend910_9391|Ascend910_9392|"
           "Ascend910_9381|Ascend910_9382|Ascend910_9372|Ascend910_9362")},
    {"rlcore.npu_emulator.cann_version", text, "8.3", honoured,
     "the release of CANN that is played; before 8.5 a float32 result of bfloat16 factors is rounded to bfloat16",
     words("8.1|8.3|8.5|9.1")},
    {"rlcore.npu_emulator.seed", integer, "0", honoured, "of every order that the hardware leaves open", at_least(0)},
    {"rlcore.npu_emulator.exp_ulp", integer, "0", honoured,
     "largest error of exp and its like, in units in the last place", between(0, 16)},
    {"rlcore.npu_emulator.hf32_ties", text, "zero", honoured,
     "where a float goes that lies half-way between two HF32 numbers; documentation leaves it open",
     words("zero|even|away")},
    {"rlcore.npu_emulator.delay_microseconds", integer, "0", honoured,
     "every operator waits a random time up to this, which shows what does not wait for it", between(0, 1000000)},
    {"rlcore.npu_emulator.strict", boolean, "True", honoured,
     "refuse what is documented as not allowed even where hardware may let it pass"},
    {"rlcore.npu_emulator.reference", boolean, "False", honoured,
     "operators in float64 with one rounding, to tell the rounding from the method"},
    {"rlcore.npu_emulator.memory_gb", integer, "null", honoured,
     "memory of the card, GiB, taken from this machine as it is used; null: the chip's", between(1, 1024)},
};

inline constexpr key images[] = {
    {"data.image_key", text, "images", honoured, "column with the images that <image> marks stand for", not_empty},
    {"data.video_key", text, "videos", honoured, "column with videos; a row that has some is refused", not_empty},
    {"data.image_patch_size", integer, "null", honoured, "side of a patch in pixels; null: the model's, which is 14",
     between(14, 14)},
    {"data.mm_processor_kwargs", dictionary, "{}", honoured,
     "sizes of images instead of the model's: min_pixels, max_pixels, size.shortest_edge, size.longest_edge"},
    {"rlcore.image_cache_mb", integer, "512", honoured, "memory for prepared images, in MiB; no result depends on it",
     at_least(0)},
};

/// Image preprocessing for the vision tower.
inline constexpr key image_pixels[] = {
    {"rlcore.image_resampling", text, "torchvision", honoured,
     "bicubic resampling of images as torchvision (vLLM, transformers) or Pillow rounds it",
     words("torchvision|pillow")},
    {"rlcore.image_alpha", text, "white", honoured,
     "a transparent image: its colours laid on white as in vLLM and qwen-vl-utils, or its opacity dropped as in "
     "Pillow",
     words("drop|white")},
};

/// The name of OpenRLHF's flag, in programs with its command line.
inline constexpr flag image_flags[] = {{"image_key", "data.image_key"}, {"data.image_key", "data.image_key"}};

inline constexpr key ranks[] = {
    {"trainer.nnodes", integer, "1", honoured,
     "machines; more than 1 needs mpirun, whose ranks they are then checked against", at_least(1)},
    {"trainer.n_gpus_per_node", integer, "8", honoured,
     "ranks on each machine: without mpirun as many threads of this process; not given: 1", at_least(1)},
    {"rlcore.deadline_s", real, "600", honoured, "seconds that a rank waits for another before the run is given up",
     at_least(1)},
    {"rlcore.compare_collectives", boolean, "False", honoured,
     "ranks of MPI compare each collective before it, to find the first that differs; threads always do"},
};

inline constexpr key row_chunks{
    "rlcore.row_chunks",
    integer,
    "0",
    honoured,
    "parts of what tensor parallel ranks add up: with 8, say, 1, 2, 4 and 8 ranks have the same bits; 0: not cut",
    between(0, 64)};

/// How training ranks share the work.
inline constexpr key sharing[] = {
    {"rlcore.zero_stage", integer, "null", honoured,
     "what ranks share: 0 nothing (DDP), 1 moments, 2 and gradients, 3 and weights (FSDP); null: by strategy",
     between(0, 3)},
    {"rlcore.tensor_parallel_size", integer, "null", honoured,
     "ranks that share each matrix; null: as the strategy's own keys have it", at_least(1)},
    {"rlcore.context_parallel_size", integer, "null", honoured, "the same for ranks that share each sequence",
     at_least(1)},
    {"rlcore.expert_parallel_size", integer, "null", honoured, "the same for ranks that share the experts",
     at_least(1)},
    {"rlcore.pipeline_parallel_size", integer, "null", honoured,
     "stages of a pipeline, which share the layers (ZeRO 0 or 1)", at_least(1)},
    {"rlcore.context_kind", text, "null", honoured,
     "how ranks share a sequence: keys gathered, carried around a ring, or heads exchanged; null: by strategy",
     words("gather_kv|ring|ulysses")},
    {"rlcore.reduction", text, "tree", honoured,
     "how gradients are added: tree, exact: same bits for any number of ranks; ranked, fast: for equal runs",
     words("fast|ranked|tree|exact")},
    {"rlcore.gradient_leaves", integer, "null", honoured,
     "parts that an update's rows are dealt to, on one rank as on many; the bits depend on it, not on the ranks; "
     "null: a sixteenth of the rows, a power of two from 8 to 64",
     between(1, 4096)},
    row_chunks,
    {"rlcore.reduce_dtype", text, "null", honoured,
     "type of gradients between ranks, the sums are float32; null: float32, or fsdp_config.mixed_precision's",
     words("float32|bfloat16")},
};

inline constexpr key verl_version_key = {
    "rlcore.verl",
    text,
    "0.9.1",
    honoured,
    "the version of verl whose numbers are computed where versions differ (docs/verl_versions.md)",
    words(verl_version_choices)};

}  // namespace train::keys
RLCORE_END
