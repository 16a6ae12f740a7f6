// The groups of keys on the pages of --help, with the keys that published command lines use most.
#pragma once

#include "rlcore/config/help_topic.hpp"

RLCORE_BEGIN
namespace trainer::keys {

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
    {"rollout", "sampling", "n temperature top_p top_k max_num_seqs"},
    {"trainer", "length of the run, saving, logging, devices",
     "total_epochs total_training_steps save_freq test_freq default_local_dir resume_mode project_name "
     "experiment_name n_gpus_per_node nnodes device logger",
     "ulysses_sequence_parallel_size"},
    {"rlcore", "what verl does not have",
     "threads compute seed console report reward_command data_source chat_template verl zero_stage"},
    {"rlcore.npu", "Ascend NPUs", "device deterministic"},
    {"rlcore.npu_emulator", "Ascend NPUs modelled on the CPU", "soc cann_version"},
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
};

/// plan.
inline constexpr help_topic plan_topics[] = {
    {"machine", "the model and the devices", "", "model devices cluster"},
    {"layout", "what the devices share; what is not given is searched", "",
     "data tensor context expert zero rollout_tensor shard_ranks how_context sequence_parallel reshard_after_forward "
     "reduction values experts gradients"},
    {"workload", "one step of training", "",
     "prompts responses prompt_length response_length image_tokens updates epochs micro_tokens recompute old_log_probs "
     "reference "
     "logits_memory_mb"},
    {"output", "what is printed", "", "show markdown", true},
};

}  // namespace trainer::keys
RLCORE_END
