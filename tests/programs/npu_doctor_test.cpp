// What npu_doctor tells on machines in different states; none of them has an NPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/program.hpp"

namespace RLCORE_TEST_ID {
namespace {

using testing::HasSubstr;
using testing::Not;

program::result doctor(const std::vector<std::string>& arguments, const std::string& environment = "") {
  return program::run("npu_doctor", arguments, "env -u ASCEND_HOME_PATH -u ASCEND_OPP_PATH " + environment);
}
/// On libraries that pretend to be CANN.
std::string pretended(const std::string& folder) {
  return std::string("RLCORE_CANN_LIB_DIR='") + RLCORE_CANN_EMULATED_DIR + "/" + folder + "' ASCEND_OPP_PATH=/opp";
}
program::result with_libraries(const std::string& sample, const std::vector<std::string>& arguments = {}) {
  return doctor(arguments, "RLCORE_CANN_LIB_DIR='" + std::string(RLCORE_CANN_SAMPLES_DIR) + "/" + sample + "'");
}

TEST(npu_doctor, the_emulated_machine_is_well) {
  const auto r = doctor({"--emulator"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("SoC                         Ascend910B3\n"));
  EXPECT_THAT(r.out, HasSubstr("matrix product              pass"));
  EXPECT_THAT(r.out, HasSubstr("event round trip            pass"));
  EXPECT_THAT(r.out, HasSubstr("pass                        emulated machine: modelled, no hardware\n"));
  EXPECT_THAT(r.out, Not(HasSubstr("missing")));
  EXPECT_EQ(r.err, "") << "nothing leaks";
  EXPECT_EQ(doctor({"--emulator", "--device", "1"}).code, 0);
}

TEST(npu_doctor, no_version_of_cann_refuses_a_kernel) {
  for (const auto& [asked, shown] :
       {std::pair{"8.1", "8.1.RC1"}, {"8.3", "8.3.RC1"}, {"8.5", "8.5.0"}, {"9.1", "9.1.RC1"}}) {
    const auto r = doctor({"--emulator", "--cann", asked});
    EXPECT_EQ(r.code, 0) << asked << "\n" << r.out << r.err;
    EXPECT_THAT(r.out, HasSubstr("CANN                        " + std::string(shown) + "\n"));
    EXPECT_THAT(r.out, Not(HasSubstr("FAIL")));
  }
  const auto r = doctor({"--emulator", "--cann", "8.0"});
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.err, HasSubstr("8.1"));
  for (const std::vector<std::string>& ignored :
       {std::vector<std::string>{"--cann", "8.5"}, {"--emulator", "--report", "r.tar", "--cann", "8.5"}}) {
    const auto refused = doctor(ignored);
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, HasSubstr("--cann is the version"));
  }
}

/// Every kernel that training and generation call, on one device.
const char* const kernels[] = {"linear_forward",
                               "linear_backward_input",
                               "linear_backward_weight",
                               "sum_rows",
                               "rms_norm_forward",
                               "add_rms_norm_forward",
                               "rms_norm_backward",
                               "rms_norm_backward_weight",
                               "rope",
                               "attention_forward",
                               "attention_forward, pages",
                               "attention_backward",
                               "swiglu_forward",
                               "swiglu_backward",
                               "gather_rows",
                               "scatter_add_rows",
                               "copy_rows",
                               "scale_rows",
                               "dot_rows",
                               "add",
                               "log_prob_forward",
                               "log_prob_finish",
                               "log_prob_backward",
                               "sample, most likely",
                               "sample, drawn",
                               "sum_of_squares",
                               "adamw"};
std::string row(std::string label, const std::string& value) {
  label.resize(std::max<std::size_t>(label.size(), 26), ' ');
  return "\n  " + label + "  " + value;
}

TEST(npu_doctor, every_layer_is_compared_with_the_processor) {
  const scratch::folder place;
  const std::string file = (place / "doctor.json").string();
  for (const std::string& environment : {std::string(), pretended("required")}) {  // fused operators and compositions
    const std::vector<std::string> more{"--timings", "--json", file, environment.empty() ? "--emulator" : "--timings"};
    const auto r = doctor(more, environment);
    EXPECT_EQ(r.code, 0) << r.out << r.err;
    for (const char* kernel : kernels)
      EXPECT_THAT(r.out, HasSubstr(row(kernel, "pass, largest difference "))) << kernel;
    EXPECT_THAT(r.out, HasSubstr(row("store_keys_values", "pass, compared where it is read\n")));
    const auto json = nlohmann::json::parse(scratch::read(file));
    EXPECT_EQ(json["has_device"], true);
    EXPECT_EQ(json["emulated"], environment.empty());
    EXPECT_EQ(json["layers"].size(), std::size(kernels) + 3);
    bool rounds = false;
    for (const auto& layer : json["layers"]) {
      EXPECT_GT(layer["calls"], 0);
      if (layer.contains("difference")) {
        EXPECT_LE(layer["difference"], layer["bound"]) << layer;
      }
      rounds = rounds || layer.value("difference", 0.0) > 1e-3;
    }
    EXPECT_TRUE(rounds) << "results of bfloat16 products that differ nowhere were not compared";
    EXPECT_GT(json["timings"].size(), 15u);
    for (const auto& timing : json["timings"]) EXPECT_GT(timing["milliseconds"], 0) << timing;
  }
}

TEST(npu_doctor, layers_that_are_wrong_or_refused_are_told_and_the_others_still_tried) {
  const auto r = doctor({}, pretended("faulty"));
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.out, HasSubstr(row("log_prob_forward", "FAIL, largest difference 0.")));
  EXPECT_THAT(r.out, HasSubstr(row("problem", "log_prob_forward: element 0,0 is ")));
  EXPECT_THAT(r.out, HasSubstr(row("rms_norm_backward", "FAIL, largest difference inf")));
  EXPECT_THAT(r.out,
              HasSubstr(row("problem", "rms_norm_backward: npu: aclnnRmsNormGradGetWorkspaceSize returned 561003")));
  for (const char* good : {"adamw", "attention_backward", "linear_forward", "sample, drawn", "dot_rows"})
    EXPECT_THAT(r.out, HasSubstr(row(good, "pass, "))) << good;
  EXPECT_THAT(r.out, HasSubstr("\n  fail "));
}

TEST(npu_doctor, libraries_of_a_machine_that_works) {
  const std::string place = std::string("RLCORE_CANN_LIB_DIR='") + RLCORE_CANN_EMULATED_DIR;
  const auto whole = doctor({"--device", "1"}, pretended("whole"));
  EXPECT_EQ(whole.code, 0) << whole.out << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("matrix product              pass"));
  EXPECT_THAT(whole.out, HasSubstr("pass                        trainer.device=npu is ready\n"));
  EXPECT_THAT(whole.out, Not(HasSubstr("missing")));
  if (!std::filesystem::exists("/usr/local/Ascend/driver")) {
    EXPECT_THAT(whole.out, HasSubstr("the device works, though no Ascend driver: "));
  }
  const auto required = doctor({}, place + "/required'");
  EXPECT_EQ(required.code, 0) << required.out << required.err;
  EXPECT_THAT(required.out, HasSubstr("aclnnAddRmsNorm                        missing, composed of Add and RmsNorm\n"));
  EXPECT_THAT(required.out, HasSubstr("ASCEND_OPP_PATH is not set"));
}

TEST(npu_doctor, no_such_device) {
  const auto r = doctor({"--emulator", "--device", "2"});
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.out, HasSubstr("there is no device 2, the last is 1"));
}

TEST(npu_doctor, no_cann) {
  const auto r = doctor({}, "RLCORE_CANN_LIB_DIR=/nowhere");
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.out, HasSubstr("RLCORE_CANN_LIB_DIR         /nowhere\n"));
  EXPECT_THAT(r.out, HasSubstr("no CANN: neither libacl_rt.so nor libascendcl.so is in /nowhere, where "
                               "RLCORE_CANN_LIB_DIR points\n"));
  EXPECT_THAT(r.out, HasSubstr("trainer.device=npu_emulator"));
}

TEST(npu_doctor, functions_are_missing) {
  const auto r = with_libraries("few");
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.out, HasSubstr("aclnnSwiGlu                            missing, composed of Silu and Mul\n"));
  EXPECT_THAT(r.out, HasSubstr("aclnnMul                               missing, needed by every run\n"));
  EXPECT_THAT(r.out, HasSubstr("/few/libascendcl.so lacks aclnnMatmul, "));
}

TEST(npu_doctor, a_feature_does_without_its_functions) {
  const auto r = with_libraries("least");
  EXPECT_THAT(r.out, HasSubstr("aclnnSort                              missing, needed by generation\n"));
  EXPECT_THAT(r.out, Not(HasSubstr("aclnnTopk")));
  EXPECT_THAT(r.out, HasSubstr("note                        this CANN lacks aclnnNeg, "));
  EXPECT_THAT(r.out, Not(HasSubstr("every run needs")));
}

TEST(npu_doctor, a_chip_of_another_family) {
  const auto r = with_libraries("310p");
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.out,
              HasSubstr("problem                     Ascend310P3 does not have the kernels of rlcore's operators"));
  EXPECT_THAT(with_libraries("least").out, HasSubstr("whether the SoC unknown is an Atlas A2 or A3 is not known"));
}

TEST(npu_doctor, the_driver_is_missing) {
  const auto r = with_libraries("driver");
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.out, HasSubstr("cannot be loaded (libascend_hal.so: cannot open shared object file"));
  EXPECT_THAT(r.out, HasSubstr("install Ascend's driver"));
}

TEST(npu_doctor, a_stub) {
  const auto r = with_libraries("devlib");
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.out, HasSubstr("/devlib/libascendcl.so is a stub that only serves linking\n"));
}

TEST(npu_doctor, libraries_are_fine_and_there_is_no_device) {
  const auto r = with_libraries("split");
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.out, HasSubstr("/split/libopapi_nn.so\n                              "));
  EXPECT_THAT(r.out, HasSubstr("the runtime sees no device"));
  EXPECT_THAT(r.out, HasSubstr("ASCEND_OPP_PATH is not set"));
  EXPECT_THAT(r.out,
              HasSubstr("6 functions of HCCL are missing: one device works, several exchange data through the host"));
}

TEST(npu_doctor, what_it_does_not_know_it_refuses) {
  const auto r = doctor({"--emulater"});
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err, "npu_doctor: unknown flag '--emulater' (did you mean '--emulator'?); see --help\n");
  EXPECT_EQ(doctor({"--device"}).err, "npu_doctor: --device needs a value\n");
  EXPECT_EQ(doctor({"--device", "x1"}).code, 1);
  EXPECT_EQ(doctor({"--help"}).code, 0);
  EXPECT_NE(doctor({"--rules"}).out.find("## aclnnMatmul"), std::string::npos);
  EXPECT_EQ(doctor({"--json"}).err, "npu_doctor: --json needs a value\n");
  const auto nowhere = doctor({"--emulator", "--json", "/nowhere/doctor.json"});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_EQ(nowhere.err, "npu_doctor: cannot write /nowhere/doctor.json\n");
}

/// --report, with a place of its own for what is not there any more in the end.
class npu_report : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(place / "tmp"); }
  program::result report(std::vector<std::string> arguments, const std::string& environment = "") {
    arguments.insert(arguments.begin(), "--report");
    return doctor(arguments, "TMPDIR='" + (place / "tmp").string() + "' " + environment);
  }
  void expect_nothing_left(std::size_t files) const {
    EXPECT_TRUE(std::filesystem::is_empty(place / "tmp"));
    std::size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(place.path())) found += entry.is_regular_file();
    EXPECT_EQ(found, files);
  }
  /// What is in the archive, unpacked by the system's tar.
  std::filesystem::path unpacked(const std::string& file) const {
    EXPECT_EQ(std::system(("tar -xf '" + file + "' -C '" + place.path().string() + "'").c_str()), 0);
    return place / "npu-report";
  }
  static nlohmann::json json(const std::filesystem::path& file) { return nlohmann::json::parse(scratch::read(file)); }
  const scratch::folder place;
};

TEST_F(npu_report, holds_what_the_owner_of_a_machine_sends_back) {
  const std::string file = (place / "report.tar.gz").string();
  const auto r = report({file, "--emulator"});
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(r.err, "");
  EXPECT_THAT(r.out, HasSubstr(file + ": "));
  EXPECT_THAT(r.out, HasSubstr("of the emulated machine: modelled, no hardware\n"));
  expect_nothing_left(1);
  const auto folder = unpacked(file);
  const auto about = json(folder / "about.json");
  EXPECT_EQ(about["emulated"], true);
  EXPECT_EQ(about["parts"].size(), 5u);
  for (const auto& part : about["parts"]) EXPECT_EQ(part["ended"], "exit code 0") << part;
  const auto doctor = json(folder / "doctor.json");
  EXPECT_EQ(doctor["layers"].size(), std::size(kernels) + 3);
  EXPECT_GT(doctor["timings"].size(), 15u);
  EXPECT_THAT(doctor["sections"]["machine"].dump(), HasSubstr("Ascend910B3"));
  EXPECT_THAT(scratch::read(folder / "doctor.txt"), HasSubstr("linear_forward"));
  const auto verdicts = json(folder / "golden" / "report.json");
  EXPECT_GT(verdicts["passed"], 100);
  EXPECT_EQ(verdicts["failed"], 0);
  const std::string calls = scratch::read(folder / "grpo_calls.txt");
  for (const char* call : {"aclnnMatmul(", "aclnnFlashAttentionUnpaddingScoreGrad(", "aclnnApplyAdamWV2("})
    EXPECT_THAT(calls, HasSubstr(call));
  std::istringstream steps(scratch::read(folder / "grpo" / "metrics.jsonl"));
  int n = 0;
  double reward = 0;
  for (std::string line; std::getline(steps, line); ++n) {
    const auto step = nlohmann::json::parse(line);
    EXPECT_GT(step["actor/grad_norm"], 0) << line;
    reward += step["critic/rewards/mean"].get<double>();
  }
  EXPECT_EQ(n, 3);
  EXPECT_GT(reward, 0) << "a task without rewards teaches nothing";
  // As a maintainer replays it.
  const auto replayed = program::run("npu_golden", {"replay", (folder / "golden").string(), "--provider", "emulator"});
  EXPECT_EQ(replayed.code, 0) << replayed.out << replayed.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "grpo" / "rollouts" / "3.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(folder / "runs" / "quickstart" / "model" / "model.safetensors"));
}

TEST_F(npu_report, of_a_machine_with_faults_has_what_could_be_found_out) {
  const std::string file = (place / "report.tar").string();
  const auto r = report({file}, pretended("faulty"));
  EXPECT_EQ(r.code, 1) << r.out;
  EXPECT_THAT(r.out, HasSubstr("doctor                   exit code 1"));
  EXPECT_THAT(r.out, HasSubstr("grpo                     exit code 1, "));
  EXPECT_THAT(r.out, HasSubstr(" parts did not end well: that, too, is worth sending\n"));
  expect_nothing_left(1);
  const auto folder = unpacked(file);
  EXPECT_EQ(json(folder / "about.json")["emulated"], false);
  EXPECT_THAT(json(folder / "doctor.json")["problems"].dump(), HasSubstr("aclnnRmsNormGrad"));
  const std::string cases = scratch::read(folder / "golden" / "cases.jsonl");
  EXPECT_THAT(cases, HasSubstr("\"failure\":{\"verdict\":\"error\",\"why\":\"npu: aclnnRmsNormGrad"));
  const auto verdicts = json(folder / "golden" / "report.json");
  EXPECT_GT(verdicts["passed"], 100);
  for (const auto& output : verdicts["outputs"]) {  // both types of both faults, and nothing else
    const std::string op = output["operator"], verdict = output["verdict"];
    if (op == "aclnnExp") {
      EXPECT_EQ(verdict, "fail");
    }
    if (op == "aclnnRmsNormGrad") {
      EXPECT_EQ(verdict, "error");
    }
    if (verdict == "fail" || verdict == "error") {
      EXPECT_TRUE(op == "aclnnExp" || op == "aclnnRmsNormGrad") << op;
    }
  }
}

TEST_F(npu_report, what_cannot_be_written_is_one_line_before_any_work) {
  const auto refused = [&](const std::string& file, const std::string& why) {
    const auto r = report({file, "--emulator"});
    EXPECT_EQ(r.code, 1);
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(r.err, "npu_doctor: " + why + "\n");
    expect_nothing_left(0);
  };
  refused("/nowhere/report.tar.gz", "cannot write /nowhere/report.tar.gz: No such file or directory");
  refused((place / "report.zip").string(), "--report expects the name of a .tar.gz or .tar file, not 'report.zip'");
  std::filesystem::create_directory(place / "folder.tar");
  refused((place / "folder.tar").string(), "cannot write " + (place / "folder.tar").string() + ": it is a folder");
  EXPECT_EQ(doctor({"--report"}).err, "npu_doctor: --report needs a value\n");
  EXPECT_EQ(doctor({"--report", "x.tar", "--timings"}).err,
            "npu_doctor: --report has timings and the JSON in its archive: leave out --timings and --json\n");
}

TEST_F(npu_report, without_a_device_there_is_none) {
  const auto r = report({(place / "report.tar.gz").string()}, "RLCORE_CANN_LIB_DIR=/nowhere");
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.out, HasSubstr("no CANN: neither libacl_rt.so nor libascendcl.so is in /nowhere"));
  EXPECT_EQ(r.err, "npu_doctor: --report: no device to report on, nothing was written\n");
  expect_nothing_left(0);
}

/// A full disk: the archive fails at its last step, and neither it nor a part of it stays.
TEST_F(npu_report, an_archive_that_fails_leaves_nothing) {
  scratch::write(place / "tar", "#!/bin/sh\nprintf half > \"$2\"\necho 'tar: no space left' >&2\nexit 2\n");
  std::filesystem::permissions(place / "tar", std::filesystem::perms::owner_all);
  const std::string file = (place / "report.tar.gz").string();
  const auto r = report({file, "--emulator"}, "PATH='" + place.path().string() + "':\"$PATH\"");
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.err, "npu_doctor: cannot write " + file + ": tar: tar: no space left\n");
  expect_nothing_left(1);  // the tar above
}

TEST_F(npu_report, a_program_that_is_not_there_is_named) {
  const auto bin = place / "bin";
  std::filesystem::create_directory(bin);
  std::filesystem::copy_file(program::path_of("npu_doctor"), bin / "npu_doctor");
  const int status = std::system(("'" + (bin / "npu_doctor").string() + "' --emulator --report '" +
                                  (place / "report.tar").string() + "' 2> '" + (bin / "err").string() + "'")
                                     .c_str());
  EXPECT_NE(status, 0);
  EXPECT_EQ(scratch::read(bin / "err"), "npu_doctor: --report needs " + (bin / "npu_golden").string() +
                                            ", which is not there; build it with cmake --build build --target "
                                            "npu_golden\n");
  expect_nothing_left(0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
