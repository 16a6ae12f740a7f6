// The command line of plan.
#pragma once

#include "rlcore/config/keys/rlcore_keys.hpp"
#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace train {

/// The model, the devices, the parts of the layout that are fixed, and one step of the workload.
registry plan_registry();

/// plan calibrate.
registry calibrate_registry();

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE registry plan_registry() {
  using namespace keys;
  static constexpr key table[] = {
      {"model", texts, "null", honoured,
       "a known model such as Qwen2.5-7B, or the path of a config.json; with a list the best layout of each, a row "
       "each"},
      {"devices", texts, "8", honoured, "how many; a list: a row each"},
      {"cluster", text, "910B", honoured,
       "910B, A3, A100, H100, H200, cpu (public quotes), or the path of a cluster.json"},
      {"data", integer, "null", honoured, "data-parallel ranks; null: what is left", at_least(1)},
      {"context", integer, "null", honoured, "ranks that share a sequence; null: searched, as the next four",
       at_least(1)},
      {"tensor", integer, "null", honoured, "ranks that share a layer", at_least(1)},
      {"expert", integer, "null", honoured, "ranks that share the experts", at_least(1)},
      {"zero", integer, "null", honoured, "0 (DDP), 1, 2, 3 (FSDP)", between(0, 3)},
      {"rollout_tensor", integer, "null", honoured,
       "devices with one copy of the weights while sampling (rollout.tensor_model_parallel_size); null: as tensor; 0: "
       "searched",
       at_least(0)},
      {"shard_ranks", integer, "null", honoured, "neighbouring ranks that the state is cut over (HSDP); 0: all",
       at_least(0)},
      {"stages", integer, "1", honoured, "stages of a pipeline (pipeline_model_parallel_size); 0: searched",
       between(0, 1048576)},
      {"num_layers_in_first_pipeline_stage", integer, "null", honoured,
       "layers of the first stage; the others share the rest equally", at_least(1)},
      {"num_layers_in_last_pipeline_stage", integer, "null", honoured, "layers of the last stage", at_least(1)},
      {"account_for_embedding_in_pipeline_split", boolean, "False", honoured, "the embedding counts as one layer"},
      {"account_for_loss_in_pipeline_split", boolean, "False", honoured, "the head counts as one layer"},
      {"how_context", text, "gather_kv", honoured, "kind of context parallelism", words("gather_kv|ring|ulysses")},
      {"sequence_parallel", boolean, "True", honoured, "with tensor: activations between products are split too"},
      {"reshard_after_forward", boolean, "True", honoured, "zero 3: False keeps gathered weights for the backward"},
      {"optimizer_offload", boolean, "False", honoured, "AdamW's moments are in the memory of the host"},
      {"reduction", text, "tree", honoured, "order of sums over ranks", words("fast|ranked|tree|exact")},
      {"values", text, "fp32", honoured,
       "gathered weights, activations, keys and values: fp32 as this library has them; bf16: what that would save",
       words("fp32|bf16")},
      {"experts", text, "whole", honoured,
       "weights of experts: whole with zero 3, as this library's trainers have them (groups that sample divide them); "
       "or divided among the ranks of `expert` everywhere",
       words("whole|divided")},
      {"gradients", text, "fp32", honoured, "on the wire", words("fp32|bf16")},
      {"prompts", integer, "128", honoured, "prompts of a step", at_least(1)},
      {"responses", integer, "8", honoured, "responses per prompt", at_least(1)},
      {"prompt_length", integer, "1024", honoured, "tokens of a prompt", at_least(1)},
      {"image_tokens", integer, "0", honoured,
       "tokens of a prompt that stand for its image, of a model that reads images", at_least(0)},
      {"response_length", integer, "3072", honoured, "tokens of a response; all are as long", at_least(1)},
      {"updates", integer, "1", honoured, "optimizer steps for a step's sequences", at_least(1)},
      {"epochs", integer, "1", honoured, "times that each sequence is trained on", at_least(1)},
      {"micro_tokens", integer, "16384", honoured, "tokens that a device takes through the model at once", at_least(1)},
      {"gradient_leaves", integer, "8", honoured, "rlcore.gradient_leaves: parts that an update's rows are dealt to",
       at_least(1)},
      {"recompute", boolean, "True", honoured, "activation recomputation"},
      {"sampling", boolean, "True", honoured,
       "False: supervised and preference trainers, which only update; prompts x responses are the rows of a step"},
      {"lora_rank", integer, "0", honoured, "adapters of all linear layers; 0: all weights are trained", at_least(0)},
      {"old_log_probs", boolean, "True", honoured, "old log-probs are computed again before the update"},
      {"reference", text, "none", honoured,
       "a reference model: none, sharded as the trained one, which is what this library does, or whole on every device",
       words("none|sharded|whole")},
      {"logits_memory_mb", integer, "256", honoured, "memory for logits, in MiB", at_least(1)},
      {"show", integer, "5", honoured, "layouts listed at most", at_least(1)},
      {"markdown", boolean, "False", honoured, "lists of models or devices: the table as Markdown"},
  };
  registry r;
  r.program = "plan";
  r.summary = "memory, traffic and time of a training step on many devices, and the layout that is fastest";
  r.topics = keys::plan_topics;
  return r.add(table);
}

RLCORE_INLINE registry calibrate_registry() {
  using namespace keys;
  static constexpr key table[] = {
      {"out", text, "cluster.json", honoured, "file to be written"},
      {"ranks", texts, "[1,2]", honoured,
       "ranks that work at the same time, as threads; under mpirun those it started"},
      {"threads", integer, "1", honoured, "threads of a rank", at_least(1)},
      {"seconds", real, "0.02", honoured, "spent on each point of a table", between(0.0001, 10)},
      {"check", boolean, "True", honoured, "predict training steps and collectives, and measure them"},
  };
  registry r;
  r.program = "plan calibrate";
  r.summary = "measure what this machine does, and how well a plan predicts it";
  return r.add(table);
}

}  // namespace train
RLCORE_END
#endif
