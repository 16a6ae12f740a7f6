// Runs build/bin/geo3k_preprocess as a user would, on files that `datasets` wrote (reference/image_rows.py).
#include <cstdlib>

#include "data/scratch.hpp"
#include "rlcore/data/table.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;
const fs::path program = fs::path(RLCORE_BIN_DIR) / "geo3k_preprocess", reference = RLCORE_REFERENCE_DIR;

struct result {
  int code;
  std::string out, err;
};
result run(const std::string& arguments) {
  const scratch::folder place;
  const std::string command = "'" + program.string() + "' " + arguments + " > '" + (place / "out").string() + "' 2> '" +
                              (place / "err").string() + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, scratch::read(place / "out"), scratch::read(place / "err")};
}

class geo3k_preprocess : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(program)) GTEST_SKIP() << "no " << program;
    if (!rlcore::data::has_parquet) GTEST_SKIP() << "no Parquet";
    fs::create_directories(hub / "data");
    for (const std::string split : {"train", "test"})
      fs::copy_file(reference / ("geo3k_" + split + ".parquet"), hub / "data" / (split + "-00000-of-00001.parquet"));
  }
  /// One line that contains `part`, exit code 1, and no file in the output folder.
  void refused(const std::string& arguments, const std::string& part) {
    const result r = run(arguments);
    EXPECT_EQ(r.code, 1) << r.out << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_TRUE(!fs::exists(saved) || fs::is_empty(saved)) << arguments;
  }
  const scratch::folder place;
  const fs::path hub = place / "hub", saved = place / "saved";
  const std::string from = "'" + hub.string() + "'", to = " --local_save_dir '" + saved.string() + "' ";
};

TEST_F(geo3k_preprocess, writes_both_splits_and_leaves_the_images_alone) {
  const result r = run("--local_dataset_path " + from + to + "--format both");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("train.parquet: 2 rows"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("test.jsonl: 1 rows"), std::string::npos) << r.out;
  const auto rows = rlcore::data::read_table(saved / "train.parquet").rows;
  const auto raw = rlcore::data::read_table(reference / "geo3k_train.parquet").rows;
  ASSERT_EQ(rows.size(), 2u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(rows[i]["images"][0]["bytes"].is_binary());
    EXPECT_EQ(rows[i]["images"], raw[i]["images"]);
    EXPECT_EQ(rows[i]["reward_model"]["ground_truth"], raw[i]["answer"]);
    EXPECT_EQ(rows[i]["extra_info"]["index"], i);
    EXPECT_TRUE(rows[i]["prompt"][0]["content"].get<std::string>().starts_with(raw[i]["problem"].get<std::string>()));
  }
  EXPECT_EQ(rlcore::data::read_table(saved / "test.parquet").rows[0]["extra_info"]["split"], "test");
  EXPECT_EQ(rlcore::data::to_jsonl(rows), scratch::read(saved / "train.jsonl"));
  EXPECT_EQ(run(from + " --local_dir '" + saved.string() + "'").code, 0);
}

TEST_F(geo3k_preprocess, refuses_bad_input_in_one_line) {
  refused("", "--local_dataset_path is needed: a folder with the Parquet files of hiyouga/geometry3k");
  refused(from + to + "--hdfs_dir /x", "--hdfs_dir is not supported");
  refused(from + to + "--format csv", "expected parquet, jsonl, both");
  refused("/nonexistent" + to, "--local_dataset_path /nonexistent: no such folder");
  fs::remove(hub / "data" / "test-00000-of-00001.parquet");
  refused(from + to, "no test.parquet and no test-*.parquet");
  scratch::write(hub / "test.parquet", "x");
  refused(from + to, "test.parquet: not a readable Parquet file");
  fs::copy_file(reference / "data_nested_snappy.parquet", hub / "test.parquet", fs::copy_options::overwrite_existing);
  refused(from + to, "test.parquet: row 0: no column 'problem'");
  EXPECT_EQ(run("--help").code, 0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
