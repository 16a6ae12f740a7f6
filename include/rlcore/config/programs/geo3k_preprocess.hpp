// The command line of geo3k_preprocess: verl's script plus extra options.
#pragma once

#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace trainer {

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
