#include "rlcore/device/npu/provider.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using ascend::dynamic_provider;
using ascend::installation;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string sample(const std::string& name) { return std::string(RLCORE_CANN_SAMPLES_DIR) + "/" + name; }
installation in(const std::string& name) { return installation({false, {sample(name)}}); }

std::vector<std::string> names(const std::vector<ascend::missing_symbol>& missing, ascend::feature need) {
  std::vector<std::string> found;
  for (const auto& m : missing)
    if (m.need == need) found.push_back(m.name);
  return found;
}

/// A variable of the environment for the time of a scope.
class variable {
 public:
  variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~variable() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(const char* value) {
    if (value != nullptr)
      setenv(name_, value, 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};

TEST(dynamic_provider_test, a_whole_installation_fills_the_table) {
  const dynamic_provider p(std::vector<std::string>{sample("whole")});
  EXPECT_EQ(p.name(), "CANN, Ascend910B3");
  int absent = 0;
#define RLCORE_NPU_CALL(name, need, result, parameters) absent += p.calls().rt.name == nullptr;
#include "rlcore/device/npu/abi/runtime.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_CALL(name, need, result, parameters) absent += p.calls().nn.name == nullptr;
#include "rlcore/device/npu/abi/meta.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_OPERATOR(name, need, ...) absent += !p.calls().op.name;
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
#define RLCORE_NPU_CALL(name, need, result, parameters) absent += p.calls().comm.name == nullptr;
#include "rlcore/device/npu/abi/collectives.inc"
#undef RLCORE_NPU_CALL
  EXPECT_EQ(absent, 0);
  EXPECT_THAT(p.installation().symbols().missing(), IsEmpty());
  const dynamic_provider again(std::vector<std::string>{sample("whole")});
  EXPECT_EQ(&again.calls(), &p.calls()) << "libraries are loaded once";
}

TEST(dynamic_provider_test, functions_may_lie_in_any_library_of_their_group) {
  const installation i = in("split");
  EXPECT_EQ(i.problem(), "");
  EXPECT_TRUE(i.table().op.aclnnMatmul);
  EXPECT_TRUE(i.table().op.aclnnSoftmax);
  EXPECT_NE(dlsym(i.groups()[2]->libraries[1].handle, "aclnnSoftmax"), nullptr);
  EXPECT_EQ(dlsym(i.groups()[2]->libraries[1].handle, "aclnnMatmul"), nullptr);
  EXPECT_EQ(i.table().comm.HcclAllReduce, nullptr) << "a single device needs no collectives";
  EXPECT_THAT(i.symbols().missing_collectives(), Not(IsEmpty()));
}

TEST(dynamic_provider_test, functions_of_every_run_that_are_missing_are_one_error) {
  const installation i = in("few");
  EXPECT_THAT(i.problem(), testing::StartsWith("npu: the CANN of " + sample("few") +
                                               "/libascendcl.so lacks "
                                               "aclnnMatmul, aclnnSub, aclnnMul, "));
  EXPECT_THAT(i.problem(), HasSubstr(" more, which every run needs; CANN 8.1 to 9.1 have them"));
  EXPECT_THAT(i.problem(), Not(HasSubstr("\n")));
  EXPECT_TRUE(i.table().op.aclnnAdd);
  EXPECT_FALSE(i.table().op.aclnnMatmul) << "its first phase is missing";
  EXPECT_EQ(i.table().op.aclnnMatmul.run, nullptr) << "half an operator is none";
  EXPECT_THAT(names(i.symbols().missing(), ascend::feature::fused), testing::Contains("aclnnSwiGlu"));
  EXPECT_THAT(names(i.symbols().missing(), ascend::feature::every_run), Not(testing::Contains("aclnnSort")));
  EXPECT_THROW(dynamic_provider(std::vector<std::string>{sample("few")}), device_error);
}

TEST(dynamic_provider_test, what_no_run_needs_may_be_missing) {
  const installation i = in("least");
  EXPECT_EQ(i.problem(), "");
  EXPECT_EQ(i.table().rt.aclrtMemset, nullptr) << "nothing calls it";
  EXPECT_EQ(i.table().nn.aclnnInit, nullptr);
  EXPECT_FALSE(i.table().op.aclnnSort);
  EXPECT_TRUE(i.table().op.aclnnMatmul);
  EXPECT_THAT(names(i.symbols().missing(), ascend::feature::generation), testing::Contains("aclnnSort"));
  EXPECT_THAT(names(i.symbols().missing(), ascend::feature::every_run), IsEmpty());
  EXPECT_NO_THROW(dynamic_provider(std::vector<std::string>{sample("least")}));
}

TEST(dynamic_provider_test, a_chip_of_another_family_is_refused_when_its_cann_is_loaded) {
  const installation i = in("310p");
  EXPECT_EQ(i.problem(), ascend::soc_problem("Ascend310P3"));
  EXPECT_THAT(i.problem(), testing::StartsWith("npu: Ascend310P3 "));
  EXPECT_THROW(dynamic_provider(std::vector<std::string>{sample("310p")}), device_error);
}

TEST(dynamic_provider_test, what_is_wrong_is_said_in_one_line) {
  EXPECT_EQ(in("nowhere").problem(), "npu: no CANN: neither libacl_rt.so nor libascendcl.so is in " +
                                         sample("nowhere") + ", where RLCORE_CANN_LIB_DIR points");
  EXPECT_EQ(in("partial").problem(), "npu: libnnopbase.so is missing beside " + sample("partial") +
                                         "/libascendcl.so: install the whole toolkit, or point RLCORE_CANN_LIB_DIR at "
                                         "its lib64");
  EXPECT_EQ(in("devlib").problem(), "npu: " + sample("devlib") + "/libascendcl.so is a stub that only serves linking");
  const std::string driver = in("driver").problem();
  EXPECT_THAT(driver, HasSubstr("/libascendcl.so cannot be loaded (libascend_hal.so: cannot open shared object file"));
  EXPECT_THAT(driver, HasSubstr("install Ascend's driver, and have /usr/local/Ascend/driver/lib64"));
}

TEST(dynamic_provider_test, stubs_do_not_hide_what_is_behind_them) {
  const installation i({false, {sample("devlib"), sample("whole")}});
  EXPECT_EQ(i.problem(), "");
  EXPECT_EQ(i.groups()[0]->libraries[1].folder, sample("whole"));
}

TEST(dynamic_provider_test, a_stub_in_the_path_of_the_dynamic_linker_is_an_error) {
  const variable path("LD_LIBRARY_PATH", sample("devlib").c_str());
  const ascend::library l = ascend::open_library("libonly_a_stub.so", {true, {sample("nowhere")}}, RTLD_NOW);
  EXPECT_EQ(l.handle, nullptr);
  EXPECT_EQ(l.path() + " " + l.problem, sample("devlib") +
                                            "/libonly_a_stub.so is a stub that only serves linking: take " +
                                            sample("devlib") + " out of LD_LIBRARY_PATH");
}

TEST(dynamic_provider_test, what_the_process_has_loaded_comes_first) {
  const installation loaded = in("whole");
  const installation i({true, {sample("few")}});  // two versions of CANN in one process do not work
  EXPECT_EQ(i.problem(), "");
  EXPECT_EQ(i.groups()[0]->libraries[1].handle, loaded.groups()[0]->libraries[1].handle);
  EXPECT_EQ(i.groups()[0]->libraries[1].folder, sample("whole"));
  EXPECT_TRUE(i.table().op.aclnnSoftmax);
}

TEST(dynamic_provider_test, where_it_looks) {
  {
    const variable chosen("RLCORE_CANN_LIB_DIR", "/a:/b");
    const ascend::search_path where = ascend::default_search_path();
    EXPECT_FALSE(where.process);
    EXPECT_THAT(where.folders, testing::ElementsAre("/a", "/b"));
  }
  const variable chosen("RLCORE_CANN_LIB_DIR", nullptr), home("ASCEND_HOME_PATH", "/home"),
      toolkit("ASCEND_TOOLKIT_HOME", "/toolkit");
  const ascend::search_path where = ascend::default_search_path();
  EXPECT_TRUE(where.process);
  EXPECT_THAT(where.folders, testing::ElementsAre("/home/lib64", "/toolkit/lib64", "/usr/local/Ascend/cann/lib64",
                                                  "/usr/local/Ascend/ascend-toolkit/latest/lib64"));
  EXPECT_TRUE(ascend::is_stub_folder("/usr/local/Ascend/ascend-toolkit/latest/devlib/linux/x86_64"));
  EXPECT_TRUE(ascend::is_stub_folder("/x/stub"));
  EXPECT_FALSE(ascend::is_stub_folder("/x/stubborn/lib64"));
}

TEST(dynamic_provider_test, this_machine_is_asked_once_and_answers_without_throwing) {
  const bool here = dynamic_provider::available();
  if (!here) {
    EXPECT_THAT(dynamic_provider::why_not(), testing::StartsWith("npu: "));
    EXPECT_THROW(dynamic_provider(), device_error);
  }
  EXPECT_EQ(&dynamic_provider::installed(), &dynamic_provider::installed());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
