// data.*: prompts and their files.
#pragma once

#include "rlcore/config/key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key data[] = {
    {"data.train_files", texts, "'~/data/rlhf/gsm8k/train.parquet'", honoured,
     "training rows: one path or a list, concatenated in order"},
    {"data.val_files", texts, "'~/data/rlhf/gsm8k/test.parquet'", honoured, "validation rows: one path or a list"},
    {"data.prompt_key", text, "prompt", honoured, "column with the message list"},
    {"data.train_batch_size", integer, "1024", honoured, "prompts per step; the last partial batch is dropped",
     at_least(1)},
    {"data.max_prompt_length", integer, "512", honoured, "longest prompt in tokens", at_least(1)},
    {"data.max_response_length", integer, "512", honoured, "longest response in tokens", at_least(1)},
    {"data.filter_overlong_prompts", boolean, "False", honoured, "drop rows whose prompt is too long"},
    {"data.truncation", text, "error", honoured, "what happens to a prompt that is still too long",
     words("error|left|right|middle")},
    {"data.train_max_samples", integer, "-1", honoured, "only the first so many rows; <= 0: all"},
    {"data.val_max_samples", integer, "-1", honoured, "the same for validation"},
    {"data.shuffle", boolean, "True", honoured, "new order of the rows in each epoch, from rlcore.seed"},
    {"data.reward_fn_key", text, "data_source", honoured, "column that chooses the reward function"},
    {"data.apply_chat_template_kwargs", dictionary, "{}", honoured,
     "extra variables of the chat template: enable_thinking"},
    {"data.gen_batch_size", integer, "${data.train_batch_size}", honoured,
     "prompts of a round of sampling; without dynamic sampling a step trains on all of them", at_least(1)},
    {"data.val_batch_size", integer, "null", accepted, "validation is one batch here; deprecated upstream"},
    {"data.filter_overlong_prompts_workers", integer, "1", accepted,
     "processes that filter; rlcore.threads counts here"},
    {"data.dataloader_num_workers", integer, "8", accepted, "processes that load rows"},
    {"data.validation_shuffle", boolean, "False", accepted, "order of the validation rows; no result depends on it"},
    {"data.return_raw_input_ids", boolean, "False", accepted, "extra column of upstream batches"},
    {"data.return_raw_chat", boolean, "False", accepted, "extra column of upstream batches"},
    {"data.return_full_prompt", boolean, "False", accepted, "extra column of upstream batches"},
    {"data.return_multi_modal_inputs", boolean, "True", accepted, "extra column of upstream batches"},
    {"data.image_key", text, "images", accepted, "column with images; text only in this build"},
    {"data.video_key", text, "videos", accepted, "column with videos; text only in this build"},
    {"data.use_shm", boolean, "False", accepted, "copy files to shared memory first"},
    {"data.trust_remote_code", boolean, "False", accepted, "this program runs no code from model folders"},
    {"data.tokenizer", text, "null", fixed, "tokenizer other than the model's"},
    {"data.custom_cls.path", text, "null", fixed, "own dataset class (Python)"},
    {"data.custom_cls.name", text, "null", fixed, "own dataset class (Python)"},
    {"data.sampler.class_path", text, "null", fixed, "own sampler class (Python)"},
    {"data.sampler.class_name", text, "null", fixed, "own sampler class (Python)"},
    {"data.datagen.path", text, "null", fixed, "own data generator class (Python)"},
    {"data.datagen.name", text, "null", fixed, "own data generator class (Python)"},
};

constexpr key estimator_by_default(std::string_view name) noexcept {
  return {"algorithm.adv_estimator",
          text,
          name,
          honoured,
          "advantage estimator; gae trains a critic",
          words("gae|grpo|reinforce_plus_plus|reinforce_plus_plus_baseline|remax|rloo|opo|grpo_passk|gpg|"
                "grpo_vectorized|rloo_vectorized|optimal_token_baseline|tir_optimal_token_baseline")};
}

inline constexpr key algorithm[] = {
    estimator_by_default("grpo"),
    {"algorithm.norm_adv_by_std_in_grpo", boolean, "True", honoured,
     "divide by the group's standard deviation (grpo, grpo_passk); False is Dr.GRPO"},
    {"algorithm.use_kl_in_reward", boolean, "False", honoured, "subtract the KL to the reference from the reward"},
    {"algorithm.kl_penalty", text, "kl", honoured, "KL estimator in the reward",
     words("kl|k1|abs|mse|k2|low_var_kl|k3", "full")},
    {"algorithm.kl_ctrl.type", text, "fixed", honoured, "controller of the coefficient in the reward",
     words("fixed|adaptive")},
    {"algorithm.kl_ctrl.kl_coef", real, "0.001", honoured,
     "coefficient of the KL in the reward (only with use_kl_in_reward)"},
    {"algorithm.kl_ctrl.horizon", real, "10000", honoured, "adaptive controller: horizon in samples", at_least(1)},
    {"algorithm.kl_ctrl.target_kl", real, "0.1", honoured, "adaptive controller: KL aimed at"},
    {"algorithm.gamma", real, "1.0", honoured, "discount per token (gae, reinforce_plus_plus)", between(0, 1)},
    {"algorithm.lam", real, "1.0", honoured, "GAE's lambda", between(0, 1)},
    {"algorithm.use_pf_ppo", boolean, "False", fixed, "preference feedback PPO"},
    {"algorithm.pf_ppo.reweight_method", text, "pow", unused, "preference feedback PPO"},
    {"algorithm.pf_ppo.weight_pow", real, "2.0", unused, "preference feedback PPO"},
    {"algorithm.filter_groups.enable", boolean, "False", honoured,
     "dynamic sampling: train on groups whose answers differ, sample until there are enough"},
    {"algorithm.filter_groups.metric", text, "null", honoured, "by what the answers of a group differ",
     words("acc|score|seq_reward|seq_final_reward")},
    {"algorithm.filter_groups.max_num_gen_batches", integer, "0", honoured,
     "rounds of sampling in one step; the run then stops with a checkpoint. <= 0: no limit"},
};

}  // namespace trainer::keys
RLCORE_END
