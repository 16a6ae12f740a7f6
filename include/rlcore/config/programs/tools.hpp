// Options of the tools: preparing data, NPUs, comparing runs, converting models, variants.
#pragma once

#include <string>

#include "rlcore/config/options.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/nn/config.hpp"

RLCORE_BEGIN
namespace train {

/// Input folder (raw files), output folder and format.
inline registry gsm8k_preprocess_registry() {
  using namespace keys;
  static constexpr key table[] = {
      {"input_dir", text, "null", honoured, "where the raw files are; nothing is downloaded", not_empty},
      {"local_save_dir", text, "'~/data/gsm8k'", honoured, "where train and test are written", not_empty},
      {"format", text, "null", honoured, "null: parquet where this build has it, otherwise jsonl",
       words("parquet|jsonl|both")},
      {"tools", boolean, "False", honoured,
       "rows that call verl's GSM8K tool, and tools.json for rollout.multi_turn.tool_config_path"},
      {"hdfs_dir", text, "null", honoured, "refused: copy the files after the conversion"},
  };
  static constexpr flag other_names[] = {{"local_dataset_path", "input_dir"}, {"local_dir", "local_save_dir"}};
  registry r;
  r.program = "gsm8k_preprocess";
  r.summary = "raw GSM8K (train.jsonl and test.jsonl of openai/grade-school-math) to the trainers' files";
  r.details =
      "Converts INPUT_DIR/train.jsonl and INPUT_DIR/test.jsonl (lines {\"question\", \"answer\"}) to verl's columns.\n"
      "  gsm8k_preprocess --input_dir grade_school_math/data --local_save_dir ~/data/gsm8k\n"
      "With --tools the rows are those of verl's gsm8k_tool_agent_loop.\n";
  return r.add_as_flags(table).add_flags(other_names).add_positional({"input_dir", 0});
}

/// The file of judged solutions, the output folder, the held-out split, and the step labels.
registry gsm8k_solutions_registry();

/// Input folder (hub files), output folder and format.
inline registry geo3k_preprocess_registry() {
  using namespace keys;
  static constexpr key table[] = {
      {"local_dataset_path", text, "null", honoured, "folder with the hub's Parquet files; nothing is downloaded",
       not_empty},
      {"local_save_dir", text, "'~/data/geo3k'", honoured, "where train and test are written", not_empty},
      {"format", text, "parquet", honoured, "jsonl has the images in base64", words("parquet|jsonl|both")},
      {"hdfs_dir", text, "null", honoured, "refused: copy the files after the conversion"},
  };
  static constexpr flag other_names[] = {{"input_dir", "local_dataset_path"}, {"local_dir", "local_save_dir"}};
  registry r;
  r.program = "geo3k_preprocess";
  r.summary = "Geometry3K (hiyouga/geometry3k: columns images, problem, answer) to the trainers' files";
  r.details =
      "Converts the files train*.parquet and test*.parquet of a copy of the hub's data set, wherever they lie in the\n"
      "folder, to verl's columns. The bytes of the images stay as they are.\n"
      "  geo3k_preprocess --local_dataset_path geometry3k --local_save_dir ~/data/geo3k\n";
  return r.add_as_flags(table).add_flags(other_names).add_positional({"local_dataset_path", 0});
}

/// The machine and device to inspect, and the output; the check rejects --report beside --timings or --json, and --cann
/// where it has no effect.
registry npu_doctor_registry();

/// The GPU to inspect, or the emulated one.
registry cuda_doctor_registry();

/// record or replay, the folder, and which provider runs the operators.
registry npu_golden_registry();

/// The two runs, the metrics and steps to compare, and the threshold.
registry compare_runs_registry();

/// The words merge and test, the folders, the type of the written weights and the adapter's treatment.
registry model_merger_registry();

/// The tokenizer, the folder to write, the sizes of the model and the seed of its weights.
registry random_model_registry();

/// The algorithms and seeds to compare, steps and warm start of each run, and settings for all of them.
registry variants_registry();

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE registry gsm8k_solutions_registry() {
  using namespace keys;
  static constexpr key table[] = {
      {"input", text, "null", honoured, "example_model_solutions.jsonl; nothing is downloaded", not_empty},
      {"local_save_dir", text, "'~/data/gsm8k_solutions'", honoured, "where the files are written", not_empty},
      {"held_out", real, "0.25", honoured, "share of the questions that are held out", between(0, 1)},
      {"seed", integer, "1", honoured, "which ones", between(0, 1e15)},
      {"messages", boolean, "False", honoured, "prompts and solutions as message lists, for --apply_chat_template"},
      {"mixed", boolean, "False", honoured, "unpaired rows and steps only of questions with right and wrong solutions"},
      {"step_labels", text, "first_error", honoured,
       "first_error: see above; solution: every step is as good as its solution", words("first_error|solution")},
      {"placeholder", text, "'ки'", honoured, "the mark after a step; it has to be one token of the model", not_empty},
  };
  registry r;
  r.program = "gsm8k_solutions";
  r.summary = "right and wrong solutions of four models to GSM8K as preference data";
  r.details =
      R"(Writes, for training and for held-out questions (no question is in both):
  pairs_{train,test}.jsonl     prompt, chosen, rejected: every right with every wrong solution   (rm, dpo)
  unpaired_{train,test}.jsonl  input, output, label: 1 for a right solution, 0 for a wrong one   (kto)
  steps_{train,test}.jsonl     input with a mark after each step, value: "+" or "-" per mark      (prm)
The data judges whole solutions. With first_error the steps of a wrong one are good until a calculator result does not
occur in the true solution.
  gsm8k_solutions --input grade_school_math/data/example_model_solutions.jsonl --local_save_dir ~/data/pairs
)";
  return r.add_as_flags(table);
}

RLCORE_INLINE registry npu_doctor_registry() {
  using namespace keys;
  static constexpr key table[] = {
      {"emulator", boolean, "False", honoured, "the emulated machine instead of this one"},
      {"cann", text, "8.3", honoured, "version of CANN that the emulated machine plays", words("8.1|8.3|8.5|9.1")},
      {"device", integer, "0", honoured, "number of the device to check", between(0, 1023)},
      {"timings", boolean, "False", honoured, "and how long the main kernels take"},
      {"json", text, "null", honoured, "file for what is printed, for programs", not_empty},
      {"report", text, "null", honoured, "all that is to be known of this machine, in one archive: FILE.tar.gz",
       not_empty},
      {"rules", boolean, "False", honoured, "what the emulator checks of a call, rules of docs/npu_operators.md"},
  };
  registry r;
  r.program = "npu_doctor";
  r.summary = "what of Ascend's CANN is on this machine, whether rlcore can use it, and if not, what to do";
  r.details =
      R"(  npu_doctor                        compares every kernel of training with the processor's
  npu_doctor --report FILE.tar.gz   writes all of it, every operator's results, timings and three steps of GRPO
  npu_doctor --rules                prints what the emulator checks of a call
Exit code: 0 if trainer.device=npu can work, otherwise 1.
)";
  r.check = [](options& o) {
    if (o.is_set("cann") && (!o.get<bool>("emulator") || o.find<std::string>("report")))
      throw config_error(
          "--cann is the version that a check of the emulated machine plays: it goes with --emulator, not "
          "with --report");
    if (o.find<std::string>("report") && (o.get<bool>("timings") || o.find<std::string>("json")))
      throw config_error("--report has timings and the JSON in its archive: leave out --timings and --json");
  };
  return r.add_as_flags(table);
}

RLCORE_INLINE registry cuda_doctor_registry() {
  using namespace keys;
  static constexpr key table[] = {
      {"emulator", boolean, "False", honoured, "the kernels in the process, instead of a GPU"},
      {"device", integer, "0", honoured, "number of the GPU to check", between(0, 1023)},
  };
  registry r;
  r.program = "cuda_doctor";
  r.summary = "what of NVIDIA's CUDA is on this machine, whether rlcore can use it, and if not, what to install";
  r.details =
      R"(  cuda_doctor              compares the results of every kernel with the processor's, to the bit
  cuda_doctor --emulator   the same without a GPU
Exit code: 0 if trainer.device=cuda can work, otherwise 1.
)";
  return r.add_as_flags(table);
}

RLCORE_INLINE registry npu_golden_registry() {
  using namespace keys;
  static constexpr key places[] = {
      {"operation", text, "null", honoured, "write files, or compare with what they hold", words("record|replay")},
      {"folder", text, "null", honoured, "where the files are", not_empty},
  };
  static constexpr key table[] = {
      {"provider", text, "null", honoured, "what runs the operators; null: emulator for record, cann for replay",
       words("cann|emulator")},
      {"device", integer, "0", honoured, "number of the NPU", between(0, 1'000'000)},
      {"report", text, "null", honoured, "what replay found; null: report.json in the folder", not_empty},
      {"soc", text, "Ascend910B3", honoured, "the chip to emulate"},
      {"cann", integer, "80300", honoured, "the version of CANN to emulate: 80300 is 8.3.RC1", between(0, 1'000'000)},
  };
  registry r;
  r.program = "npu_golden";
  r.summary = "the operators of an Ascend NPU beside the emulator's, through files";
  r.details =
      R"(  npu_golden record DIR                       runs every operator on the emulated machine and writes DIR
  npu_golden replay DIR                       runs the same on this machine's CANN and compares
  npu_golden record DIR --provider cann       the other way round: writes what this machine's NPU does
  npu_golden replay DIR --provider emulator   compares the emulator with what was recorded
Exit code of replay: 0 if every case that could run is within its bound, 2 otherwise; 1 if it cannot be done.
)";
  return r.add(places).add_as_flags(table).add_positional({"operation"}).add_positional({"folder"});
}

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
      {"local_dir", text, "null", honoured,
       "folder with the shards, or with huggingface/: .../global_step_N/actor; or a GGUF file"},
      {"target_dir", text, "tmp", honoured,
       "merge: where the Hugging Face folder is written; a name that ends in .gguf: the file"},
      {"test_hf_dir", text, "null", honoured, "test: the Hugging Face folder to compare with"},
      {"dtype", text, "bf16", honoured,
       "type of the written weights; q8_0: in a GGUF file; test rounds both sides to it",
       words("bf16|fp16|fp32|bfloat16|float16|float32|q8_0")},
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
  r.summary = "FSDP shards of verl, or folders of our trainers -> a Hugging Face folder or a GGUF file";
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
  r.summary = "a small model with random weights and the tokenizer of another model, to try a trainer on";
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

}  // namespace train
RLCORE_END
#endif
