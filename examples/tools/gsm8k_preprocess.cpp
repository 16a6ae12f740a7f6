// Raw GSM8K (train.jsonl and test.jsonl of openai/grade-school-math) to the files that the trainers read:
//   build/bin/gsm8k_preprocess --input_dir grade_school_math/data --local_save_dir ~/data/gsm8k
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "rlcore/agent/builtin_tools.hpp"
#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/tools.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/train/run/program.hpp"
#include "rlcore/verify/dataset_rows.hpp"

namespace {

using rlcore::config_error;
using rlcore::data_error;
using rlcore::data::row;

struct settings {
  std::string input, output, format;
  bool tools = false;
};

settings read_settings(const rlcore::train::options& o) {
  if (o.find<std::string>("hdfs_dir"))
    throw config_error("--hdfs_dir is not supported; copy the files after the conversion");
  const auto input = o.find<std::string>("input_dir");
  const char* source = "; `git clone https://github.com/openai/grade-school-math` has one in grade_school_math/data";
  if (!input)
    throw config_error(std::string("--input_dir is needed: a folder with train.jsonl and test.jsonl") + source);
  if (!std::filesystem::is_directory(rlcore::checkpoint::expand_home(*input)))
    throw config_error("--input_dir " + *input + ": no such folder" + source);
  const char* usual = rlcore::data::has_parquet ? "parquet" : "jsonl";
  return {*input, o.get<std::string>("local_save_dir"), o.find<std::string>("format").value_or(usual),
          o.get<bool>("tools")};
}

struct output {
  std::filesystem::path path;
  std::vector<row> rows;  ///< of tools.json: one, the file

  void write(const std::filesystem::path& temporary) const {
    if (path.extension() == ".json") {
      rlcore::data::output_file file(temporary);
      file.write(rows[0].dump(2) + "\n");
      file.close();
      return;
    }
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

std::vector<row> convert(const std::filesystem::path& file, const std::string& split, bool tools) {
  const auto row_of = tools ? rlcore::verify::gsm8k_tool_row : rlcore::verify::gsm8k_row;
  std::vector<row> rows;
  for (const row& raw : rlcore::data::read_jsonl(file)) {
    const std::string where = rlcore::data::row_text(file.string(), rows.size());
    rows.push_back(row_of(rlcore::data::string_column(raw, "question", where),
                          rlcore::data::string_column(raw, "answer", where), split, rows.size(), where));
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
    const std::vector<row> rows = convert(input / (split + ".jsonl"), split, s.tools);
    for (const std::string format : {"parquet", "jsonl"})
      if (s.format == format || s.format == "both") outputs.push_back({folder / (split + "." + format), rows});
  }
  if (s.tools) {
    row file;
    file["tools"] = row::array({{{"class_name", "verl.tools.gsm8k_tool.Gsm8kTool"},
                                 {"config", {{"type", "native"}}},
                                 {"tool_schema", rlcore::agent::gsm8k_tool::default_schema()}}});
    outputs.push_back({folder / "tools.json", std::vector<row>(1, file)});
  }
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) rlcore::data::throw_file_error(folder, "create the folder", code.value());
  for (const output& o : outputs)
    if (std::filesystem::equivalent(folder, input, code) && o.path.extension() == ".jsonl")
      throw config_error(o.path.string() + " would overwrite the raw file; choose another --local_save_dir");
  write_all(outputs);
  for (const output& o : outputs)
    o.path.extension() == ".json" ? std::printf("%s\n", o.path.c_str())
                                  : std::printf("%s: %zu rows\n", o.path.c_str(), o.rows.size());
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::train::run_program("gsm8k_preprocess", [&] {
    const auto options = rlcore::train::options::parse(argc, argv, rlcore::train::gsm8k_preprocess_registry());
    if (options.answer()) return void(std::fputs(options.answer()->c_str(), stdout));
    run(read_settings(options));
  });
}
