// build/bin/compare_runs: exit codes, and a run beside its replay with other kernels.
#include "grpo_trainer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

class compare_runs : public trainer_test {
 protected:
  void SetUp() override {
    if (!fs::exists(program::path_of("compare_runs"))) GTEST_SKIP() << "no " << program::path_of("compare_runs");
    trainer_test::SetUp();
  }
  fs::path log(const std::string& name, const std::vector<double>& rewards) const {
    std::string text = "some words first\n";
    for (std::size_t i = 0; i < rewards.size(); ++i)
      text += "step:" + std::to_string(i + 1) + " - critic/rewards/mean:" + std::to_string(rewards[i]) +
              " - perf/throughput:" + std::to_string(100 * (i + 1)) + "\n";
    scratch::write(place / name, text);
    return place / name;
  }
  static void refuses(const arguments& words, const std::string& part) {
    const auto r = program::run("compare_runs", words);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_EQ(r.out, "");
  }
};

TEST_F(compare_runs, exit_codes) {
  const std::string a = log("a.log", {0.5, 0.6, 0.7, 0.8, 0.9}).string(),
                    b = log("b.log", {0.5, 0.7, 0.7, 0.8, 0.9}).string();  // mean error 2 %
  const auto within = program::run("compare_runs", {a, b});
  EXPECT_EQ(within.code, 0) << within.err;
  EXPECT_NE(within.out.find(
                "critic/rewards/mean      5         2 %   2.857 %         10 % at 2            2        4 %  within"),
            std::string::npos)
      << within.out;
  EXPECT_NE(within.out.find("throughput A / B  1  (250 / 250 tokens/s, mean of the first 4 steps)"), std::string::npos)
      << within.out;
  EXPECT_EQ(program::run("compare_runs", {a, b, "--threshold", "0.01"}).code, 2);
  EXPECT_EQ(program::run("compare_runs", {a, b, "--threshold=0.025", "--relative"}).code, 2);
  EXPECT_EQ(program::run("compare_runs", {a, b, "--threshold", "0", "--steps", "1"}).code, 0);
  const std::string page = (place / "page.html").string();
  EXPECT_EQ(program::run("compare_runs", {a, b, "--key", "*", "--out", page}).code, 0);
  EXPECT_NE(scratch::read(page).find("Within the thresholds"), std::string::npos);
  const std::string zero = log("zero.log", {0, 0, 0}).string();
  const auto silent = program::run("compare_runs", {zero, zero, "--out", page});
  EXPECT_EQ(silent.code, 2);
  EXPECT_NE(silent.out.find("no signal\n"), std::string::npos) << silent.out;
  EXPECT_NE(silent.out.find("critic/rewards/mean: 0 in every step of both runs"), std::string::npos) << silent.out;
  EXPECT_NE(scratch::read(page).find("No signal"), std::string::npos);
  EXPECT_EQ(program::run("compare_runs", {zero, zero, "--key", "*"}).code, 2);
  EXPECT_EQ(program::run("compare_runs", {a, zero}).code, 2);
  const auto help = program::run("compare_runs", {"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("--threshold "), std::string::npos);

  refuses({a}, "expected RUN_B (the reference run");
  refuses({a, b, "--keys", "x"}, "unknown flag '--keys' (did you mean '--key'?)");
  refuses({a, b, "--key", "critic/reward/mean"}, "did you mean 'critic/rewards/mean'?");
  refuses({a, b, "--steps", "0"}, "--steps=0: expected an integer >= 1");
  refuses({a, (place / "nosuch").string()}, "nosuch: cannot open");
  refuses({a, files.train.string()}, "is no JSON object with an integer \"step\"");
  refuses({a, b, "--out", (place / "nosuch" / "x.html").string()}, "x.html: cannot create: No such file or directory");
}

/// Two instruction sets on the same responses: equal.
TEST_F(compare_runs, a_replay_with_other_kernels) {
  train("run", {"trainer.rollout_data_dir=" + (place / "rollouts").string()});
  train("replay", {"--replay", (place / "rollouts").string(), "rlcore.instruction_set=portable"});
  const auto r =
      program::run("compare_runs", {root("replay").string(), root("run").string(), "--key", "*", "--threshold", "0"});
  EXPECT_EQ(r.code, 0) << r.out << r.err;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
