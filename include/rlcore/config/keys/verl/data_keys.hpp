// data.*: prompts and their files.
#pragma once

#include "rlcore/config/key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key data[] = {
    {"data.train_files", texts, "'~/data/rlhf/gsm8k/train.parquet'", honoured,
     "training rows: one path or a list, concatenated in order"},
    {"data.val_files", texts, "'~/data/rlhf/gsm8k/test.parquet'", honoured,
     "validation rows: one path or a list, [] for none"},
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

}  // namespace trainer::keys
RLCORE_END
