// What npu_doctor tells on machines in different states; none of them has an NPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/program.hpp"

namespace {

using testing::HasSubstr;
using testing::Not;

program::result doctor(const std::vector<std::string>& arguments, const std::string& environment = "") {
  return program::run("npu_doctor", arguments, "env -u ASCEND_HOME_PATH -u ASCEND_OPP_PATH " + environment);
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

TEST(npu_doctor, libraries_of_a_machine_that_works) {
  const std::string place = std::string("RLCORE_CANN_LIB_DIR='") + RLCORE_CANN_EMULATED_DIR;
  const auto whole = doctor({"--device", "1"}, place + "/whole' ASCEND_OPP_PATH=/opp");
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
  EXPECT_THAT(r.out, HasSubstr("9 functions of HCCL are missing: one device works"));
}

TEST(npu_doctor, what_it_does_not_know_it_refuses) {
  const auto r = doctor({"--emulater"});
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err,
            "npu_doctor: unknown argument '--emulater' (did you mean '--emulator'?); expected --emulator, --device "
            "N or --help\n");
  EXPECT_EQ(doctor({"--device"}).err, "npu_doctor: --device expects the number of a device\n");
  EXPECT_EQ(doctor({"--device", "x1"}).code, 1);
  EXPECT_EQ(doctor({"--help"}).code, 0);
}

}  // namespace
