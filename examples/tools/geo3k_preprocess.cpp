// Geometry3K (hiyouga/geometry3k on the hub, downloaded before) to the files that the trainers read:
//   build/bin/geo3k_preprocess --local_dataset_path geometry3k --local_save_dir ~/data/geo3k
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/tools.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/train/run/program.hpp"
#include "rlcore/verify/dataset_rows.hpp"

namespace {

namespace fs = std::filesystem;
using rlcore::config_error;
using rlcore::data_error;
using rlcore::data::row;

struct settings {
  fs::path input, output;
  std::string format;
};

settings read_settings(const rlcore::train::options& o) {
  if (o.find<std::string>("hdfs_dir"))
    throw config_error("--hdfs_dir is not supported; copy the files after the conversion");
  const auto input = o.find<std::string>("local_dataset_path");
  if (!input)
    throw config_error(
        "--local_dataset_path is needed: a folder with the Parquet files of hiyouga/geometry3k; `hf download "
        "hiyouga/geometry3k --repo-type dataset --local-dir geometry3k` makes one");
  const fs::path folder = rlcore::checkpoint::expand_home(*input);
  if (!fs::is_directory(folder)) throw config_error("--local_dataset_path " + *input + ": no such folder");
  return {folder, rlcore::checkpoint::expand_home(o.get<std::string>("local_save_dir")), o.get<std::string>("format")};
}

/// train-00000-of-00001.parquet and similar, anywhere in the folder, sorted by name.
std::vector<fs::path> files_of(const settings& s, const std::string& split) {
  std::vector<fs::path> files;
  std::error_code code;
  for (const auto& entry : fs::recursive_directory_iterator(s.input)) {
    const std::string name = entry.path().filename().string();
    const bool named = name == split + ".parquet" || (name.starts_with(split + "-") && name.ends_with(".parquet"));
    if (named && !fs::equivalent(entry.path().parent_path(), s.output, code)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw data_error(s.input.string() + ": no " + split + ".parquet and no " + split + "-*.parquet in this folder");
  return files;
}

std::vector<row> convert(const settings& s, const std::string& split) {
  std::vector<row> rows;
  for (const fs::path& file : files_of(s, split)) {
    const rlcore::data::table raw = rlcore::data::read_table(file);
    for (std::size_t i = 0; i < raw.rows.size(); ++i)
      rows.push_back(rlcore::verify::geo3k_row(raw.rows[i], split, rows.size(), rlcore::data::row_text(raw.file, i)));
  }
  if (rows.empty()) throw data_error(s.input.string() + ": no rows of " + split);
  return rows;
}

void write(const std::vector<row>& rows, const fs::path& path) {
  rlcore::checkpoint::replace_file(path, [&](const fs::path& temporary) {
#ifdef RLCORE_HAS_PARQUET
    if (path.extension() == ".parquet") return rlcore::data::write_parquet(temporary, rows);
#endif
    rlcore::data::output_file file(temporary);
    file.write(rlcore::data::to_jsonl(rows));
    file.close();
  });
  std::printf("%s: %zu rows\n", path.c_str(), rows.size());
}

void run(const settings& s) {
  if (!rlcore::data::has_parquet)
    throw config_error(
        "this build has no Parquet, in which the hub has Geometry3K; install Arrow C++ or `pip install pyarrow` and "
        "build again");
  const std::vector<row> train = convert(s, "train"), test = convert(s, "test");
  std::error_code code;
  fs::create_directories(s.output, code);
  if (code) rlcore::data::throw_file_error(s.output, "create the folder", code.value());
  for (const std::string format : {"parquet", "jsonl"}) {
    if (s.format != format && s.format != "both") continue;
    write(train, s.output / ("train." + format));
    write(test, s.output / ("test." + format));
  }
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::train::run_program("geo3k_preprocess", [&] {
    const auto options = rlcore::train::options::parse(argc, argv, rlcore::train::geo3k_preprocess_registry());
    if (options.answer()) return void(std::fputs(options.answer()->c_str(), stdout));
    run(read_settings(options));
  });
}
