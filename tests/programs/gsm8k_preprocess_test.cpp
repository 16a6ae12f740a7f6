// Runs build/bin/gsm8k_preprocess as a user would.
#include <cstdlib>

#include "data/scratch.hpp"
#include "rlcore/data/table.hpp"

namespace RLCORE_TEST_ID {
namespace {

const std::filesystem::path program = std::filesystem::path(RLCORE_BIN_DIR) / "gsm8k_preprocess";

struct result {
  int code;
  std::string out, err;
};
result run(const std::string& arguments, const std::string& before = "") {
  const scratch::folder place;
  const std::string command = before + " '" + program.string() + "' " + arguments + " > '" + (place / "out").string() +
                              "' 2> '" + (place / "err").string() + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, scratch::read(place / "out"), scratch::read(place / "err")};
}

class gsm8k_preprocess : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(program)) GTEST_SKIP() << "no " << program;
    std::filesystem::create_directory(raw);
    scratch::write(raw / "train.jsonl",
                   "{\"question\": \"1+1?\", \"answer\": \"2\\n#### 2\"}\n{\"question\": \"Cost?\", \"answer\": \"#### "
                   "1,200\"}\n");
    scratch::write(raw / "test.jsonl", "{\"question\": \"\xe6\xb0\xb4?\", \"answer\": \"#### -3\"}\n");
  }
  /// One line that contains `part`, exit code 1, and no file in the output folder.
  void refused(const std::string& arguments, const std::string& part, const std::string& before = "") {
    const result r = run(arguments, before);
    EXPECT_EQ(r.code, 1) << r.out << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_TRUE(!std::filesystem::exists(saved) || std::filesystem::is_empty(saved)) << arguments;
  }
  const scratch::folder place;
  const std::filesystem::path raw = place / "raw", saved = place / "saved";
  const std::string to = " --local_save_dir '" + saved.string() + "' ";
};

TEST_F(gsm8k_preprocess, writes_both_splits) {
  const result r = run("--input_dir '" + raw.string() + "'" + to + "--format=jsonl");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("train.jsonl: 2 rows"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("test.jsonl: 1 rows"), std::string::npos) << r.out;
  const auto rows = rlcore::data::read_jsonl(saved / "train.jsonl");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["reward_model"]["ground_truth"], "1200");
  EXPECT_EQ(rows[1]["extra_info"]["index"], 1);
  EXPECT_EQ(rlcore::data::read_jsonl(saved / "test.jsonl")[0]["extra_info"]["split"], "test");
  if (!rlcore::data::has_parquet) return;
  EXPECT_EQ(run("'" + raw.string() + "' --local_dir '" + saved.string() + "'").code, 0);
  EXPECT_EQ(rlcore::data::read_table(saved / "train.parquet").rows, rows);
}

TEST_F(gsm8k_preprocess, writes_rows_that_call_verls_tool) {
  const result r = run("--input_dir '" + raw.string() + "'" + to + "--format=jsonl --tools");
  EXPECT_EQ(r.code, 0) << r.err;
  const auto rows = rlcore::data::read_jsonl(saved / "train.jsonl");
  ASSERT_EQ(rows.size(), 2u);
  const auto& row = rows[1];
  std::vector<std::string> columns;
  for (const auto& [name, x] : row.items()) columns.push_back(name);
  EXPECT_EQ(columns,
            (std::vector<std::string>{"data_source", "agent_name", "prompt", "ability", "reward_model", "extra_info"}));
  EXPECT_EQ(row["agent_name"], "tool_agent");
  EXPECT_EQ(row["prompt"][0]["role"], "system");
  EXPECT_EQ(row["prompt"][1]["content"], "Cost? Let's think step by step and output the final answer after `####`.");
  EXPECT_EQ(row["extra_info"]["tools_kwargs"]["calc_gsm8k_reward"]["create_kwargs"]["ground_truth"], "1200");
  EXPECT_EQ(row["extra_info"]["interaction_kwargs"]["query"], row["prompt"][1]["content"]);
  EXPECT_NE(scratch::read(saved / "tools.json").find("verl.tools.gsm8k_tool.Gsm8kTool"), std::string::npos);
  if (!rlcore::data::has_parquet) return;
  EXPECT_EQ(run("'" + raw.string() + "' --tools" + to).code, 0);
  EXPECT_EQ(rlcore::data::read_table(saved / "train.parquet").rows, rows);
}

TEST_F(gsm8k_preprocess, refuses_bad_input_in_one_line) {
  const std::string from = "'" + raw.string() + "'";
  refused("", "--input_dir is needed: a folder with train.jsonl and test.jsonl; `git clone https://github.com/openai/");
  refused(from + to + "--fromat jsonl", "did you mean '--format'?");
  refused(from + to + "--format csv", "expected parquet, jsonl, both");
  refused(from + to + "--format", "needs a value");
  refused(from + to + "--hdfs_dir /x", "--hdfs_dir is not supported");
  refused(from + to + "--input_dir " + from, "is one word too many");
  refused("/nonexistent" + to, "--input_dir /nonexistent: no such folder; `git clone https://github.com/openai/");
  refused(from + " --format jsonl --local_dir " + from, "would overwrite the raw file");
  scratch::write(raw / "test.jsonl", "{\"question\": \"q\", \"answer\": \"42\"}\n");
  refused(from + to, "test.jsonl: row 0: the answer '42' has no number");
  scratch::write(raw / "test.jsonl", "{\"question\": \"q\"}\n");
  refused(from + to, "no column 'answer'; it has question");
  scratch::write(raw / "test.jsonl", "{\"question\": \n");
  refused(from + to, "test.jsonl: line 1: not valid JSON");
  scratch::write(raw / "test.jsonl", "");
  refused(from + to, "test.jsonl: no rows");
  EXPECT_EQ(run("--help").code, 0);
}

TEST_F(gsm8k_preprocess, leaves_nothing_half_written) {
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "{\"question\": \"1+1?\", \"answer\": \"#### 2\"}\n";
  scratch::write(raw / "test.jsonl", many);  // the second file does not fit
  refused("'" + raw.string() + "'" + to + "--format jsonl", "File too large", "trap '' XFSZ; ulimit -f 64;");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
