// Raw GSM8K (train.jsonl and test.jsonl of openai/grade-school-math) to the files that the trainers read:
//   build/bin/gsm8k_preprocess --input_dir grade_school_math/data --local_save_dir ~/data/gsm8k
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/trainer/program.hpp"
#include "rlcore/verify/gsm8k_row.hpp"

namespace {

using rlcore::config_error;
using rlcore::data_error;
using rlcore::data::row;

constexpr const char* usage = R"(usage: gsm8k_preprocess [--input_dir] DIR [--local_save_dir DIR] [--format F]

Converts DIR/train.jsonl and DIR/test.jsonl (lines {"question", "answer"}) to verl's columns.

  --input_dir DIR        where the raw files are; nothing is downloaded (also --local_dataset_path)
  --local_save_dir DIR   where train and test are written, default ~/data/gsm8k (also --local_dir)
  --format F             parquet, jsonl or both; default parquet when this build has it, otherwise jsonl
  --help                 this text
)";

struct settings {
  std::string input, output = "~/data/gsm8k", format = rlcore::data::has_parquet ? "parquet" : "jsonl";
  bool help = false;
};

settings parse(std::span<char*> arguments) {
  settings s;
  const std::vector<std::string> names{
      "--input_dir", "--local_dataset_path", "--local_save_dir", "--local_dir", "--format", "--hdfs_dir", "--help"};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i], value;
    if (name == "--help" || name == "-h") {
      s.help = true;
      return s;
    }
    if (!name.starts_with("--")) {
      if (!s.input.empty()) throw config_error("two input folders: " + s.input + " and " + name);
      s.input = name;
      continue;
    }
    if (const std::size_t equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (i + 1 < arguments.size() && std::find(names.begin(), names.end(), name) != names.end()) {
      value = arguments[++i];
    }
    if (std::find(names.begin(), names.end(), name) == names.end() || name == "--help")
      throw config_error("unknown option '" + name + "'" + rlcore::did_you_mean(name, names) + "; see --help");
    if (value.empty()) throw config_error("option " + name + " needs a value");
    if (name == "--hdfs_dir") throw config_error("--hdfs_dir is not supported; copy the files after the conversion");
    (name == "--format"                                        ? s.format
     : name == "--input_dir" || name == "--local_dataset_path" ? s.input
                                                               : s.output) = value;
  }
  if (s.input.empty()) throw config_error("no input folder; expected one with train.jsonl and test.jsonl (see --help)");
  if (s.format != "parquet" && s.format != "jsonl" && s.format != "both")
    throw config_error("--format is '" + s.format + "'; expected parquet, jsonl or both");
  return s;
}

struct output {
  std::filesystem::path path;
  std::vector<row> rows;

  void write(const std::filesystem::path& temporary) const {
    if (path.extension() == ".parquet") {
#ifdef RLCORE_HAS_PARQUET
      rlcore::data::write_parquet(temporary, rows);
      return;
#endif
    }
    rlcore::data::output_file file(temporary);
    file.write(rlcore::data::to_jsonl(rows));
    file.close();
  }
};

std::vector<row> convert(const std::filesystem::path& file, const std::string& split) {
  std::vector<row> rows;
  for (const row& raw : rlcore::data::read_jsonl(file)) {
    const std::string where = rlcore::data::row_text(file.string(), rows.size());
    rows.push_back(rlcore::verify::gsm8k_row(rlcore::data::string_column(raw, "question", where),
                                             rlcore::data::string_column(raw, "answer", where), split, rows.size(),
                                             where));
  }
  if (rows.empty()) throw data_error(file.string() + ": no rows");
  return rows;
}

/// All files are complete before the first one takes its name.
void write_all(std::span<const output> outputs) {
  if (outputs.empty()) return;
  rlcore::checkpoint::replace_file(outputs[0].path, [&](const std::filesystem::path& temporary) {
    outputs[0].write(temporary);
    write_all(outputs.subspan(1));
  });
}

void run(const settings& s) {
  const std::filesystem::path input = rlcore::checkpoint::expand_home(s.input),
                              folder = rlcore::checkpoint::expand_home(s.output);
  if (s.format != "jsonl" && !rlcore::data::has_parquet)
    throw config_error(
        "--format " + s.format +
        ": this build has no Parquet; install Arrow C++ or `pip install pyarrow` and build again, or use "
        "--format jsonl");
  std::vector<output> outputs;
  for (const std::string split : {"train", "test"}) {
    const std::vector<row> rows = convert(input / (split + ".jsonl"), split);
    for (const std::string format : {"parquet", "jsonl"})
      if (s.format == format || s.format == "both") outputs.push_back({folder / (split + "." + format), rows});
  }
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) rlcore::data::throw_file_error(folder, "create the folder", code.value());
  for (const output& o : outputs)
    if (std::filesystem::equivalent(folder, input, code) && o.path.extension() == ".jsonl")
      throw config_error(o.path.string() + " would overwrite the raw file; choose another --local_save_dir");
  write_all(outputs);
  for (const output& o : outputs) std::printf("%s: %zu rows\n", o.path.c_str(), o.rows.size());
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::trainer::run_program("gsm8k_preprocess", [&] {
    const settings s = parse(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
    s.help ? static_cast<void>(std::fputs(usage, stdout)) : run(s);
  });
}
