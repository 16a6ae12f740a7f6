// Several NPUs: each rank, thread or process, has one of its machine; they exchange their memory by HCCL, or through
// the host's.
#include "first_steps.hpp"
#include "grpo_trainer.hpp"
#include "support/mpirun.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

class npu_ranks : public trainer_test {
 protected:
  const arguments emulated{"trainer.device=npu_emulator", "trainer.logger=[console,file]", "trainer.test_freq=-1",
                           "actor_rollout_ref.actor.use_kl_loss=True"},
      two{"trainer.n_gpus_per_node=2"};

  void expect_same_run(const std::string& a, const std::string& b) {
    EXPECT_FALSE(weights(root(a), 4).empty());
    EXPECT_TRUE(weights(root(a), 4) == weights(root(b), 4)) << a << " and " << b << ": other weights";
    EXPECT_EQ(rows(root(a)), rows(root(b)));
  }
};

TEST_F(npu_ranks, on_the_emulator_have_the_bits_of_one) {
  const auto alone = train("one", emulated);
  EXPECT_EQ(alone.out.find("NPUs"), std::string::npos) << alone.out;
  const auto threads = train("threads", emulated + two);
  EXPECT_NE(threads.out.find("\ndevice npu 0 (emulator of Ascend910B3"), std::string::npos) << threads.out;
  EXPECT_NE(threads.out.find("2 ranks (threads) on NPUs 0 to 1 with HCCL: 2 data"), std::string::npos) << threads.out;
  EXPECT_NE(scratch::read(root("threads") / "report.html").find("on NPUs 0 to 1"), std::string::npos);
  expect_same_run("one", "threads");
  train("others", emulated + arguments{"trainer.n_gpus_per_node=3", "rlcore.npu.device=1", "rlcore.zero_stage=1"});
  expect_same_run("one", "others");
  const auto host = train("host", emulated + two + arguments{"rlcore.npu.hccl=False"});
  EXPECT_NE(host.out.find("2 ranks (threads) on NPUs 0 to 1: 2 data"), std::string::npos) << host.out;
  expect_same_run("one", "host");
  if (program::mpirun(2).empty()) return;
  const program::result r = program::run("grpo_trainer", settings(files, root("mpi")) + emulated, program::mpirun(2));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("2 ranks (mpi) on NPUs 0 to 1: 2 data"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("note: emulated NPUs of several processes exchange data through the host"), std::string::npos)
      << r.out;
  expect_same_run("one", "mpi");
}

/// Tensor parallel ranks, stages of a pipeline, and groups that sample together. Products of halves round otherwise
/// than whole ones, so runs with as many tensor parallel ranks have the same bits.
TEST_F(npu_ranks, of_every_axis_have_the_bits_of_one) {
  const arguments chunks{"rlcore.row_chunks=2", "trainer.total_training_steps=2"}, four{"trainer.n_gpus_per_node=4"},
      eight{"trainer.n_gpus_per_node=8"}, tensor{"rlcore.tensor_parallel_size=2"},
      stages{"rlcore.pipeline_parallel_size=2", "rlcore.zero_stage=1"},
      pairs{"actor_rollout_ref.rollout.tensor_model_parallel_size=2"};
  const auto start = [&](const std::string& name, const arguments& layout, const std::string& says) {
    const auto r = train(name, emulated + chunks + layout);
    EXPECT_NE(r.out.find(says), std::string::npos) << r.out;
    EXPECT_FALSE(weights(root(name), 2).empty());
  };
  const auto same = [&](const std::string& a, const std::string& b) {
    EXPECT_TRUE(weights(root(a), 2) == weights(root(b), 2)) << a << " and " << b << ": other weights";
  };
  start("one", {}, "device npu");
  start("groups", four + pairs, "rollout 2 groups of 2 ranks");
  same("one", "groups");
  start("stages", two + stages, "2 pipeline");
  same("one", "stages");
  start("tensor", two + tensor, "2 tensor x 1 data");
  start("sharded", four + tensor, "2 tensor x 2 data, ZeRO stage 3");
  same("tensor", "sharded");
  start("host", four + tensor + arguments{"rlcore.npu.hccl=False"}, "on NPUs 0 to 3: 2 tensor x 2 data");
  same("tensor", "host");
  start("all", eight + stages + tensor, "2 pipeline x 2 tensor x 2 data");
  same("tensor", "all");
  const auto first = [&](const std::string& name) { return nlohmann::json::parse(rows(root(name)).front()); };
  for (const char* metric : {"actor/entropy", "critic/score/mean", "response_length/mean"})
    EXPECT_EQ(first("one").at(metric), first("tensor").at(metric)) << metric;
  const double ratio =
      first("one").at("actor/grad_norm").get<double>() / first("tensor").at("actor/grad_norm").get<double>();
  EXPECT_NEAR(ratio, 1, 0.01);
}

TEST(npu_ranks_of_sft, on_the_emulator_have_the_bits_of_one) {
  if (!fs::exists(program::path_of("sft_trainer"))) GTEST_SKIP() << "no " << program::path_of("sft_trainer");
  const scratch::folder one, other;
  for (const scratch::folder* place : {&one, &other}) {
    arguments more = first_steps::arguments("sft", place->path()) + arguments{"trainer.device=npu_emulator"};
    if (place == &other) more = more + arguments{"trainer.n_gpus_per_node=2"};
    const program::result r = program::run("sft_trainer", more);
    ASSERT_EQ(r.code, 0) << r.err;
  }
  const auto model = [](const scratch::folder& place) {
    std::string bytes;
    for (const auto& entry : fs::recursive_directory_iterator(place / "out"))
      if (entry.path().filename() == "model.safetensors") bytes += scratch::read(entry.path());
    return bytes;
  };
  EXPECT_FALSE(model(one).empty());
  EXPECT_TRUE(model(one) == model(other));
}

/// Through dlopen, as with CANN: a machine with two devices is asked for two, then for three.
TEST_F(npu_ranks, more_than_the_machine_has_end_with_one_line) {
  const std::string libraries =
      "RLCORE_CANN_LIB_DIR='" + std::string(RLCORE_CANN_EMULATED_DIR) + "/whole' ASCEND_OPP_PATH=/opp";
  const arguments npu = emulated + arguments{"trainer.device=npu"};
  train("one", npu, libraries);
  EXPECT_NE(train("two", npu + two, libraries).out.find("on NPUs 0 to 1"), std::string::npos);
  expect_same_run("one", "two");
  const program::result r = program::run(
      "grpo_trainer", settings(files, root("three")) + npu + arguments{"trainer.n_gpus_per_node=3"}, libraries);
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_NE(r.err.find("(2), the machine has 2 devices"), std::string::npos) << r.err;
}

/// Each process logs its own calls.
TEST_F(npu_ranks, of_mpirun_log_into_files_of_their_own) {
  if (program::mpirun(2).empty()) GTEST_SKIP() << "no MPI";
  const fs::path log = place / "calls.txt";
  const arguments one{"trainer.total_training_steps=1", "trainer.save_freq=-1", "rlcore.npu.trace=" + log.string()};
  const program::result r =
      program::run("grpo_trainer", settings(files, root("run")) + emulated + one, program::mpirun(2));
  EXPECT_EQ(r.code, 0) << r.err;
  for (const char* rank : {".0", ".1"}) EXPECT_NE(scratch::read(log.string() + rank).find("aclnn"), std::string::npos);
  EXPECT_FALSE(fs::exists(log));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
