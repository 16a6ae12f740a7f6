// Runs build/bin/plan as a user would.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/program.hpp"

namespace RLCORE_TEST_ID {
namespace {

class plan_program : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(program::path_of("plan"))) GTEST_SKIP() << "the program is not built";
  }
  static void refuses(const std::vector<std::string>& words, const std::string& part) {
    const auto r = program::run("plan", words);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_EQ(r.out, "");
  }
};

TEST_F(plan_program, says_what_a_step_needs) {
  const auto r = program::run("plan", {"model=Qwen2.5-7B", "devices=64", "cluster=H100"});
  ASSERT_EQ(r.code, 0) << r.err;
  for (const char* part : {"7,615,616,512", "quotes, not measured", "best: zero2", "all_gather", "together", "rollout",
                           "layouts that fit", "too large", "tensor=8 does not divide the key and value heads 4"})
    EXPECT_NE(r.out.find(part), std::string::npos) << part << "\n" << r.out;
  const auto fixed = program::run("plan", {"model=Qwen2.5-0.5B", "devices=8", "zero=0", "tensor=1", "context=1",
                                           "rollout_tensor=1", "cluster=A100"});
  ASSERT_EQ(fixed.code, 0) << fixed.err;
  EXPECT_NE(fixed.out.find("best: zero0 data 8;"), std::string::npos) << fixed.out;
  EXPECT_EQ(fixed.out.find("layouts that fit"), std::string::npos) << fixed.out;
}

TEST_F(plan_program, of_several_models_is_a_table) {
  const auto r = program::run("plan", {"model=[Qwen2.5-7B,Qwen2.5-72B]", "devices=[8,256]", "markdown=True"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 6) << r.out;
  EXPECT_NE(r.out.find("| Qwen2.5-72B | 8 | does not fit"), std::string::npos) << r.out;
}

TEST_F(plan_program, plans_for_the_machine_it_measured) {
  const scratch::folder place;
  const std::string file = (place / "cluster.json").string();
  const auto r = program::run("plan", {"calibrate", "out=" + file, "ranks=2", "seconds=0.0001", "check=False"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, "wrote " + file + "\n");
  const auto plan = program::run("plan", {"model=Qwen2.5-0.5B", "devices=2", "cluster=" + file, "prompts=1"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_NE(plan.out.find("measured by plan calibrate"), std::string::npos) << plan.out;
  EXPECT_NE(program::run("plan", {"calibrate", "--help"}).out.find("ranks that work at the same time"),
            std::string::npos);
}

TEST_F(plan_program, refuses_in_one_line) {
  refuses({}, "model=... is missing");
  refuses({"model=Qwen2.5-7"}, "did you mean 'Qwen2.5-7B'");
  refuses({"model=Qwen2.5-7B", "cluster=B200"}, "neither a file nor a known cluster");
  refuses({"model=Qwen2.5-7B", "device=8"}, "did you mean 'devices'?");
  refuses({"model=Qwen2.5-7B", "devices=many"}, "expected a number");
  refuses({"model=Qwen2.5-7B", "devices=64", "tensor=3"}, "tensor=3 does not divide the key and value heads 4");
  refuses({"model=Qwen2.5-7B", "devices=64", "data=3"}, "are 3 devices, not 64");
  refuses({"model=Qwen2.5-7B", "updates=7"}, "does not divide the 1024 sequences");
  refuses({"model=Qwen2.5-7B", "sampling=False", "old_log_probs=True"}, "there is no rollout");
  refuses({"model=Qwen2.5-7B", "sampling=False", "rollout_tensor=2"}, "there is no rollout");
  refuses({"calibrate", "rank=2"}, "did you mean 'ranks'?");
  EXPECT_NE(program::run("plan", {"--help"}).out.find("micro_tokens"), std::string::npos);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
