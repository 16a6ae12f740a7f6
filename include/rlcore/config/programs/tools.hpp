// Options of the tools compare_runs, model_merger, random_model and variants.
#pragma once

#include <string>

#include "rlcore/config/registry.hpp"
#include "rlcore/nn/family/families.hpp"

RLCORE_BEGIN
namespace trainer {

/// The two runs, the metrics and steps to compare, and the threshold.
registry compare_runs_registry();

/// The words merge and test, the folders, the type of the written weights and the adapter's treatment.
registry model_merger_registry();

/// The tokenizer, the folder to write, the sizes of the model and the seed of its weights.
registry random_model_registry();

/// The algorithms and seeds to compare, steps and warm start of each run, and settings for all of them.
registry variants_registry();

}  // namespace trainer

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE registry compare_runs_registry() {
  using namespace keys;
  static constexpr key runs[] = {
      {"run_a", text, "null", honoured, "the run: a metrics.jsonl, the folder of a run, or a console log", not_empty},
      {"run_b", text, "null", honoured, "the reference run, given alike", not_empty},
  };
  static constexpr key table[] = {
      {"key", texts, "null", honoured,
       "metric to compare, as often as wanted; 'critic/*': all that begin so; '*': all but times; null: see above"},
      {"steps", integer, "null", honoured, "only the first so many steps that both runs have", at_least(1)},
      {"threshold", real, "null", honoured,
       "largest mean error, as a number: 0.04 is 4 %; null: 0.04 for rewards and scores, 0.02 for others", at_least(0)},
      {"relative", boolean, "False", honoured, "compare |A - B| / |B| with the threshold instead of |A - B|"},
      {"out", text, "null", honoured, "also a page with both curves (HTML, nothing from outside)", not_empty},
  };
  static constexpr flag several[] = {{"key", "key", flag::append}};
  registry r;
  r.program = "compare_runs";
  r.summary = "how far run A is from the reference run B";
  r.details =
      "  compare_runs runs/npu runs/cpu --key critic/rewards/mean --key actor/pg_loss --out comparison.html\n"
      "Without --key it compares critic/rewards/mean or train/loss, whichever the runs have.\n"
      "Exit code: 0 within the thresholds, 2 above one of them or if a named metric is 0 in every step of both\n"
      "runs, 1 if the runs cannot be compared.\n";
  return r.add(runs).add_as_flags(table).add_flags(several).add_positional({"run_a"}).add_positional({"run_b"});
}

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

RLCORE_INLINE registry random_model_registry() {
  using namespace keys;
  static const std::string families = nn::family_names("|", "|");
  static const key table[] = {
      {"tokenizer", text, "null", honoured, "folder with tokenizer.json and tokenizer_config.json", not_empty},
      {"output", text, "null", honoured, "new folder", not_empty},
      {"family", text, "qwen2", honoured, "kind of model", words(families)},
      {"hidden_size", integer, "128", honoured, "a multiple of heads", at_least(1)},
      {"layers", integer, "4", honoured, "how many", at_least(1)},
      {"heads", integer, "4", honoured, "attention heads; half as many for keys and values", at_least(1)},
      {"intermediate", integer, "null", honoured, "width of the MLP; null: 3 times hidden_size", at_least(1)},
      {"experts", integer, "8", honoured, "of a layer of a family with experts", at_least(1)},
      {"experts_per_token", integer, "2", honoured, "experts that a token takes", at_least(1)},
      {"moe_intermediate", integer, "null", honoured, "width of an expert; null: hidden_size", at_least(1)},
      {"max_position", integer, "4096", honoured, "longest sequence", at_least(1)},
      {"seed", integer, "1", honoured, "of the random weights", at_least(1)},
  };
  registry r;
  r.program = "random_model";
  r.summary = "a small model with random weights around somebody's tokenizer, to try a trainer on";
  r.details =
      "Writes a Hugging Face folder: the tokenizer's files, the config of a model of that family and random weights.\n"
      "  random_model --tokenizer DIR --output DIR --hidden_size 128 --layers 4\n";
  return r.add_as_flags(table);
}

RLCORE_INLINE registry variants_registry() {
  using namespace keys;
  static constexpr key settings[] = {{"setting", texts, "null", honoured,
                                      "key=value: any setting of grpo_trainer that is not the algorithm's, for all "
                                      "runs"}};
  static constexpr key table[] = {
      {"algorithms", texts, "[grpo,dr_grpo,dapo,gspo,cispo,reinforce_plus_plus]", honoured,
       "names with commas between: which of --list, or all"},
      {"seeds", texts, "1", honoured, "numbers with commas between: one run of each algorithm with each"},
      {"steps", integer, "25", honoured, "training steps of a run", between(1, 1'000'000)},
      {"warm-start", integer, "480", honoured, "supervised steps before, made once", between(1, 1'000'000)},
      {"output", text, "runs/variants", honoured, "folder of the report and the runs", not_empty},
      {"list", boolean, "False", honoured, "what there is, and what it is made of"},
  };
  static constexpr flag lists[] = {{"algorithms", "algorithms"}, {"seeds", "seeds"}};  // one word per item
  registry r;
  r.program = "variants";
  r.summary = "compares algorithms on a small task; same prompts, same initial weights, same random numbers";
  r.details =
      R"(  variants                                                  the default set, one seed
  variants --algorithms grpo,dapo,gspo --seeds 1,2,3 --steps 40 --output runs/mine
  variants --algorithms all actor_rollout_ref.actor.optim.lr=1e-4
Leaves OUTPUT/report.html and, for each run, OUTPUT/<algorithm>-seed<N>/{metrics.jsonl,report.html}. A run that ended
is taken over by the next call of the same program with the same settings.
)";
  return r.add(settings).add_as_flags(table).add_flags(lists).add_positional({"setting", 0, positional::any_number});
}

}  // namespace trainer
RLCORE_END
#endif
