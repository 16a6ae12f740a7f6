// Options of the programs that prepare data: gsm8k_preprocess, gsm8k_solutions, geo3k_preprocess.
#pragma once

#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace trainer {

/// Input folder (raw files), output folder and format.
inline registry gsm8k_preprocess_registry() {
  using namespace keys;
  static constexpr key table[] = {
      {"input_dir", text, "null", honoured, "where the raw files are; nothing is downloaded", not_empty},
      {"local_save_dir", text, "'~/data/gsm8k'", honoured, "where train and test are written", not_empty},
      {"format", text, "null", honoured, "null: parquet where this build has it, otherwise jsonl",
       words("parquet|jsonl|both")},
      {"hdfs_dir", text, "null", honoured, "refused: copy the files after the conversion"},
  };
  static constexpr flag other_names[] = {{"local_dataset_path", "input_dir"}, {"local_dir", "local_save_dir"}};
  registry r;
  r.program = "gsm8k_preprocess";
  r.summary = "raw GSM8K (train.jsonl and test.jsonl of openai/grade-school-math) to the trainers' files";
  r.details =
      "Converts INPUT_DIR/train.jsonl and INPUT_DIR/test.jsonl (lines {\"question\", \"answer\"}) to verl's columns.\n"
      "  gsm8k_preprocess --input_dir grade_school_math/data --local_save_dir ~/data/gsm8k\n";
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
      {"format", text, "parquet", honoured, "jsonl has the pictures in base64", words("parquet|jsonl|both")},
      {"hdfs_dir", text, "null", honoured, "refused: copy the files after the conversion"},
  };
  static constexpr flag other_names[] = {{"input_dir", "local_dataset_path"}, {"local_dir", "local_save_dir"}};
  registry r;
  r.program = "geo3k_preprocess";
  r.summary = "Geometry3K (hiyouga/geometry3k: columns images, problem, answer) to the trainers' files";
  r.details =
      "Converts the files train*.parquet and test*.parquet of a copy of the hub's data set, wherever they lie in the\n"
      "folder, to verl's columns. The bytes of the pictures stay as they are.\n"
      "  geo3k_preprocess --local_dataset_path geometry3k --local_save_dir ~/data/geo3k\n";
  return r.add_as_flags(table).add_flags(other_names).add_positional({"local_dataset_path", 0});
}

}  // namespace trainer

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

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

}  // namespace trainer
RLCORE_END
#endif
