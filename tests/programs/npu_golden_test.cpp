// Operators as files: what is recorded, what replaying tells, and that it never takes the emulator for an NPU. Here
// both sides are the emulator, so these tests show that recording and comparing work, not that the model is right; its
// results are held against PyTorch in tests/device/npu/operators_*_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "examples/npu/golden_case.hpp"
#include "support/program.hpp"

namespace RLCORE_TEST_ID {
namespace {

using golden::data_type;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

program::result run(std::vector<std::string> arguments, const std::string& cann = "/nowhere") {
  return program::run("npu_golden", arguments, "env RLCORE_CANN_LIB_DIR='" + cann + "'");
}
std::string pretended(const std::string& folder) { return std::string(RLCORE_CANN_EMULATED_DIR) + "/" + folder; }

class npu_golden : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    place = new scratch::folder;
    recorded = new program::result(run({"record", files()}));
  }
  static void TearDownTestSuite() {
    delete recorded;
    delete place;
  }
  static std::string files() { return (*place / "golden").string(); }
  static json report() { return json::parse(scratch::read(*place / "golden" / "report.json")); }
  /// Of all but what was not recorded.
  static void expect_equal_bits() {
    const json made = report();
    for (const json& output : made["outputs"])
      if (output["verdict"] != "absent") {
        EXPECT_EQ(output["equal"], 1.0) << output;
      }
  }
  static inline scratch::folder* place = nullptr;
  static inline program::result* recorded = nullptr;
};

TEST_F(npu_golden, has_a_case_for_every_operator_of_the_list) {
  ASSERT_EQ(recorded->code, 0) << recorded->err;
  EXPECT_EQ(recorded->err, "");
  const std::string cases = scratch::read(*place / "golden" / "cases.jsonl");
  std::istringstream list(
      scratch::read(std::filesystem::path(RLCORE_SOURCE_DIR) / "include/rlcore/device/npu/abi/operators.inc"));
  const std::string row = "RLCORE_NPU_OPERATOR(";
  int operators = 0;
  for (std::string line; std::getline(list, line);)
    if (line.starts_with(row)) {
      const std::string name = line.substr(row.size(), line.find(',') - row.size());
      EXPECT_THAT(cases, HasSubstr("\"operator\":\"" + name + "\"")) << name;
      ++operators;
    }
  EXPECT_GT(operators, 50);
  EXPECT_THAT(recorded->out, HasSubstr(" cases of " + std::to_string(operators) + " operators by the emulator of "));
}

TEST_F(npu_golden, holds_what_the_operator_was_given_and_gave) {
  std::istringstream list(scratch::read(*place / "golden" / "cases.jsonl"));
  json found;
  for (std::string line; std::getline(list, line);)
    if (const json c = json::parse(line); c["name"] == "div_float32") found = c;
  const golden::golden_case c = golden::read(files(), found);
  const golden::tensor &x = c.given.at("x"), &y = c.given.at("y"), &z = c.results.at("z");
  ASSERT_EQ(z.size(), 3U * 5 * 17);
  for (std::size_t i = 0; i < z.size(); ++i) EXPECT_EQ(z.at<float>(i), x.at<float>(i) / y.at<float>(i));
}

TEST_F(npu_golden, without_cann_says_so_and_runs_nothing) {
  std::filesystem::remove(*place / "golden" / "report.json");  // of another test
  const auto r = run({"replay", files()});
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.out, "");
  EXPECT_THAT(r.err, HasSubstr("npu_golden: npu: no CANN"));
  EXPECT_THAT(r.err, testing::EndsWith("; --provider emulator needs none\n"));
  EXPECT_FALSE(std::filesystem::exists(*place / "golden" / "report.json"));
}

TEST_F(npu_golden, the_emulator_repeats_itself_and_is_called_by_its_name) {
  const auto r = run({"replay", files(), "--provider", "emulator"});
  EXPECT_EQ(r.code, 0) << r.out;
  EXPECT_THAT(r.out, HasSubstr("emulator of Ascend910B3 (modelled, no hardware): "));
  EXPECT_THAT(r.out, HasSubstr(", 0 not, 1 cases that this CANN lacks"));
  EXPECT_THAT(r.out, Not(HasSubstr("FAIL")));
  std::istringstream lines(r.out);
  std::string heading, row;
  std::getline(lines, heading);
  while (std::getline(lines, row) && !row.empty())
    EXPECT_EQ(row.find(row.ends_with("absent") ? "absent" : "pass"), heading.find("verdict")) << row;
  expect_equal_bits();
}

/// Before 8.5 a product of bfloat16 has no float result.
TEST_F(npu_golden, what_only_a_newer_cann_has_is_absent_from_an_older_one) {
  auto r = run({"replay", files(), "--provider", "emulator", "--cann", "80500"});
  EXPECT_EQ(r.code, 0);
  expect_equal_bits();  // the older one has recorded none
  const std::string newer = (*place / "newer").string();
  r = run({"record", newer, "--cann", "80500"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, Not(HasSubstr("without a result")));
  r = run({"replay", newer, "--provider", "emulator", "--cann", "80500"});
  EXPECT_EQ(r.code, 0) << r.out;
  EXPECT_THAT(r.out, HasSubstr(", 0 not, 0 cases"));
  r = run({"replay", newer, "--provider", "emulator"});
  EXPECT_EQ(r.code, 0) << r.out;
  EXPECT_THAT(r.out, HasSubstr(", 0 not, 1 cases"));
}

TEST_F(npu_golden, records_the_machine_for_one_that_has_none) {
  const std::string theirs = (*place / "theirs").string();
  auto r = run({"record", theirs, "--provider", "cann"}, pretended("required"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr(" by CANN 8.3.RC1, Ascend910B3 in "));
  EXPECT_THAT(r.out, HasSubstr("29 of them without a result"));
  EXPECT_EQ(json::parse(scratch::read(*place / "theirs" / "about.json"))["machine"]["cann"], "8.3.RC1");
  r = run({"replay", theirs, "--provider", "emulator"});
  EXPECT_EQ(r.code, 0) << r.out;
  EXPECT_THAT(r.out, HasSubstr(", 0 not, 29 cases"));
  r = run({"record", theirs, "--provider", "cann"}, pretended("faulty"));
  EXPECT_EQ(r.code, 0) << r.err;
  r = run({"replay", theirs, "--provider", "emulator"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.out, HasSubstr("FAIL: where it was recorded: npu: aclnnRmsNormGrad"));
  r = run({"record", theirs, "--provider", "cann"});
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.err, HasSubstr("npu_golden: npu: no CANN"));
}

TEST_F(npu_golden, runs_on_libraries_loaded_at_run_time) {
  for (const char* folder : {"whole", "split"}) {
    const auto r = run({"replay", files()}, pretended(folder));
    EXPECT_EQ(r.code, 0) << r.out << r.err;
    EXPECT_THAT(r.out, HasSubstr("CANN 8.3.RC1, Ascend910B3: "));
    expect_equal_bits();
  }
  const auto r = run({"replay", files(), "--report", (*place / "other.json").string()}, pretended("required"));
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_THAT(r.out, HasSubstr("29 cases that this CANN lacks"));
  const json other = json::parse(scratch::read(*place / "other.json"));
  EXPECT_EQ(other["absent"], 29);  // 14 operators, one version
  EXPECT_EQ(other["failed"], 0);
}

TEST_F(npu_golden, what_is_out_of_bounds_fails) {
  const std::filesystem::path file = *place / "golden" / "neg_float32.safetensors";
  const std::string good = scratch::read(file);
  std::string bad = good;
  bad[bad.size() - 2] ^= 1;  // of the last result
  scratch::write(file, bad);
  const auto r = run({"replay", files(), "--provider", "emulator"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.out, HasSubstr("FAIL"));
  EXPECT_THAT(r.out, HasSubstr(", 1 not, "));
  scratch::write(file, good.substr(0, good.size() - 1));
  const auto cut = run({"replay", files(), "--provider", "emulator"});
  EXPECT_EQ(cut.code, 1);
  EXPECT_THAT(cut.err, HasSubstr("neg_float32.safetensors: truncated"));
  scratch::write(file, good);
}

TEST_F(npu_golden, refuses_what_it_does_not_know) {
  EXPECT_THAT(run({"replay", files(), "--provder", "emulator"}).err, HasSubstr("did you mean"));
  EXPECT_THAT(run({"replay", files(), "--provider", "cuda"}).err,
              HasSubstr("--provider=cuda: expected cann, emulator"));
  EXPECT_THAT(run({"replay"}).err, HasSubstr("expected FOLDER"));
  EXPECT_THAT(run({"recrod", "x"}).err, HasSubstr("expected record, replay (did you mean 'record'?)"));
  EXPECT_EQ(run({}).code, 1);
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_THAT(run({"replay", "/nowhere", "--provider", "emulator"}).err, HasSubstr("npu_golden record makes it"));
}

golden::difference difference(data_type type, std::vector<double> a, std::vector<double> b, bool rms = false) {
  const golden::shape n{static_cast<std::int64_t>(a.size())};
  return golden::compare(golden::make_tensor(type, n, a), golden::make_tensor(type, n, b), rms);
}

TEST(golden_difference, is_counted_in_units_of_the_last_place) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(difference(data_type::float32, {1, 2, 3}, {1, 2 + 0x1p-21, 3}).largest, 2);
  EXPECT_EQ(difference(data_type::float32, {1, 2, 3}, {1, 2 + 0x1p-21, 3}).where, 1U);
  EXPECT_EQ(difference(data_type::float32, {1, 2, 3, 4}, {1, 2 + 0x1p-21, 3, 4}).mean, 0.5);
  EXPECT_EQ(difference(data_type::float32, {1, 2, 3, 4}, {1, 2 + 0x1p-21, 3, 4}).equal, 0.75);
  EXPECT_EQ(difference(data_type::bfloat16, {-1}, {-1 - 0x1p-7}).largest, 1);
  EXPECT_EQ(difference(data_type::float16, {1}, {1 + 0x1p-9}).largest, 2);
  EXPECT_EQ(difference(data_type::int64, {5}, {8}).largest, 3);
  EXPECT_EQ(difference(data_type::float32, {0}, {0x1p-149}).largest, 1);  // the smallest subnormal
  EXPECT_EQ(difference(data_type::float32, {inf, std::nan("")}, {inf, std::nan("")}).largest, 0);
  EXPECT_EQ(difference(data_type::float32, {inf}, {3e38}).largest, inf);
  EXPECT_EQ(difference(data_type::float32, {1}, {std::nan("")}).largest, inf);
  // A small value among large ones: their root mean square is sqrt(12), where the unit is 2^-22.
  EXPECT_EQ(difference(data_type::float32, {0, 4, 4, -4}, {0x1p-21, 4, 4, -4}, true).largest, 2);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
