// The command line of gsm8k_preprocess: verl's script plus extra options.
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

}  // namespace trainer
RLCORE_END
