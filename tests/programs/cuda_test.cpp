// trainer.device=cuda and cuda_emulator in programs: the bits of the CPU, on whichever device a run goes on.
#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "grpo_trainer.hpp"
#include "rlcore/device/cuda/provider.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

class cuda_runs : public trainer_test {
 protected:
  const arguments emulated{"trainer.device=cuda_emulator", "trainer.logger=[console,file]"},
      on_cpu{"trainer.logger=[console,file]"};
};

TEST_F(cuda_runs, the_emulator_has_the_bits_of_the_cpu) {
  train("cpu", on_cpu);
  const program::result r = train("cuda", emulated + arguments{"rlcore.cuda_emulator.seed=5"});
  EXPECT_NE(r.out.find("\ndevice cuda 0 (emulated GPU by emulator), float32\n"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("the kernels of trainer.device=cuda run on the CPU, for tests; slow"), std::string::npos);
  expect_same("cpu", "cuda");
  EXPECT_NE(scratch::read(root("cuda") / "report.html").find("emulated GPU"), std::string::npos);
}

TEST_F(cuda_runs, so_have_a_critic_and_cut_distributions) {
  const arguments more{"trainer.total_training_steps=2",
                       "algorithm.adv_estimator=gae",
                       "critic.model.path=" + files.model.string(),
                       "critic.ppo_micro_batch_size_per_gpu=3",
                       "critic.optim.lr=1e-3",
                       "actor_rollout_ref.rollout.top_k=20",
                       "actor_rollout_ref.rollout.top_p=0.9"};
  train("cpu", on_cpu + more);
  train("cuda", emulated + more);
  expect_same("cpu", "cuda", 2);
}

/// On tensor cores too, what sampling records token by token is what a pass over whole rows computes.
TEST_F(cuda_runs, in_bfloat16_recorded_log_probs_are_those_of_training) {
  const arguments more{"rlcore.compute=bfloat16", "trainer.total_training_steps=2"};
  const program::result r = train("recorded", emulated + more);
  EXPECT_NE(r.out.find("\ndevice cuda 0 (emulated GPU by emulator), bfloat16\n"), std::string::npos) << r.out;
  train("again", emulated + more +
                     arguments{"rlcore.recompute_old_log_prob=True",
                               "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=5"});
  expect_same("recorded", "again", 2);
  std::istringstream lines(scratch::read(root("again") / "metrics.jsonl"));
  int steps = 0;
  for (std::string line; std::getline(lines, line); ++steps)
    EXPECT_EQ(nlohmann::json::parse(line).at("training/rollout_probs_diff_max").get<double>(), 0) << line;
  EXPECT_EQ(steps, 2);
  train("float32", emulated + arguments{"trainer.total_training_steps=2"});
  EXPECT_FALSE(weights(root("float32"), 2) == weights(root("recorded"), 2));
}

TEST_F(cuda_runs, a_run_of_the_cpu_goes_on_there) {
  train("whole", on_cpu);
  train("parts", on_cpu + arguments{"trainer.total_training_steps=2"});
  train("parts", emulated);
  expect_same("whole", "parts");
}

TEST_F(cuda_runs, two_ranks_have_a_gpu_each) {
  const arguments two{"trainer.n_gpus_per_node=2"};
  train("one", on_cpu);
  train("cpu", on_cpu + two);
  train("cuda", emulated + two);
  expect_same("cpu", "cuda");
  EXPECT_TRUE(weights(root("one"), 4) == weights(root("cuda"), 4));
}

TEST_F(cuda_runs, without_a_gpu_cuda_is_the_cpu_unless_it_is_required) {
  if (rlcore::nvidia::installed_devices() > 0) GTEST_SKIP() << "this machine has a GPU";
  train("cpu", on_cpu);
  const program::result r = train("cuda", on_cpu + arguments{"trainer.device=cuda"});
  EXPECT_NE(r.out.find("trainer.device=" + rlcore::nvidia::why_not_installed() + "; the run uses the CPU"),
            std::string::npos)
      << r.out;
  expect_same("cpu", "cuda");
  const program::result refused =
      program::run("grpo_trainer",
                   settings(files, root("required")) + arguments{"trainer.device=cuda", "rlcore.cuda.required=True"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  EXPECT_NE(refused.err.find(rlcore::nvidia::why_not_installed() + " (rlcore.cuda.required=True)"), std::string::npos);
  EXPECT_FALSE(fs::exists(root("required")));
}

TEST_F(cuda_runs, the_doctor_compares_every_kernel) {
  const program::result r = program::run("cuda_doctor", {"--emulator"});
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(r.err, "");
  EXPECT_NE(r.out.find("\ndevice     cuda 0 (emulated GPU by emulator), float32, opened with its kernels in "),
            std::string::npos)
      << r.out;
  EXPECT_NE(r.out.find(" operations have the bits of cpu ("), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("\nbfloat16   products of 1, 16 and 60 rows have the bits of the same rows among 256\n"),
            std::string::npos)
      << r.out;
  for (const char* what : {"slopes of DAPO", "advantages of GAE"})
    EXPECT_NE(r.out.find(std::string("\nlosses     1608 of 1608 ") + what + " are the host's\n"), std::string::npos)
        << r.out;
  EXPECT_EQ(r.out.find("WRONG"), std::string::npos);
  EXPECT_NE(program::run("cuda_doctor", {"--emulater"}).err.find("did you mean '--emulator'"), std::string::npos);
  if (rlcore::nvidia::installed_devices() > 0) return;
  const program::result here = program::run("cuda_doctor", {});
  EXPECT_EQ(here.code, 1);
  EXPECT_NE(here.out.find("cuda       cannot be used: "), std::string::npos) << here.out;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
