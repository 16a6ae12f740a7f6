// The command line of model_merger: verl's (python -m verl.model_merger) plus extra options.
#pragma once

#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace trainer {

/// The words merge and test, the folders, the type of the written weights and the adapter's treatment.
registry model_merger_registry();

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE registry model_merger_registry() {
  using namespace keys;
  static constexpr key table[] = {
      {"backend", text, "null", honoured, "what wrote the checkpoint", words("fsdp|megatron")},
      {"local_dir", text, "null", honoured, "folder with the shards, or with huggingface/: .../global_step_N/actor"},
      {"target_dir", text, "tmp", honoured, "merge: where the Hugging Face folder is written"},
      {"test_hf_dir", text, "null", honoured, "test: the Hugging Face folder to compare with"},
      {"dtype", text, "bf16", honoured, "type of the written weights; test rounds both sides to it",
       words("bf16|fp16|fp32|bfloat16|float16|float32")},
      {"merge_lora", boolean, "False", honoured, "add the adapter to the weights instead of writing lora_adapter/"},
      {"lora_alpha",
       real,
       "null",
       honoured,
       "alpha of the adapter, where the checkpoint does not say it",
       {.at_least = 0}},
      {"base_model", text, "null", honoured,
       "local_dir is an adapter folder: the model under it; null: what adapter_config.json names"},
      {"max_shard_size", real, "5", honoured, "GB (10^9 bytes) of weights in one file at most", {.at_least = 0}},
      {"hf_upload_path", text, "null", honoured, "refused: nothing is uploaded"},
      {"private", boolean, "False", accepted, "of the uploaded repository"},
      {"tie_word_embedding", boolean, "False", accepted, "for megatron; with fsdp config.json says it"},
      {"is_value_model", boolean, "False", accepted, "for megatron; with fsdp config.json says it"},
      {"use_cpu_initialization", boolean, "False", accepted, "no model is built here"},
      {"trust_remote_code", boolean, "False", accepted, "no code of a model is ever run here"},
  };
  static constexpr flag flags[] = {{"backend", "backend"},
                                   {"local_dir", "local_dir"},
                                   {"target_dir", "target_dir"},
                                   {"test_hf_dir", "test_hf_dir"},
                                   {"dtype", "dtype"},
                                   {"merge-lora", "merge_lora", flag::switch_only},
                                   {"merge_lora", "merge_lora", flag::switch_only},
                                   {"lora-alpha", "lora_alpha"},
                                   {"base_model", "base_model"},
                                   {"max-shard-size", "max_shard_size"},
                                   {"hf_upload_path", "hf_upload_path"},
                                   {"private", "private", flag::switch_only},
                                   {"tie-word-embedding", "tie_word_embedding", flag::switch_only},
                                   {"is-value-model", "is_value_model", flag::switch_only},
                                   {"use_cpu_initialization", "use_cpu_initialization", flag::switch_only},
                                   {"trust-remote-code", "trust_remote_code", flag::switch_only}};
  registry r;
  r.program = "model_merger {merge|test}";
  r.summary = "FSDP shards of verl, or folders of our trainers -> a Hugging Face folder";
  return r.add(table).add_flags(flags);
}

}  // namespace trainer
RLCORE_END
#endif
