// trainer.device=npu and npu_emulator in every program: never one for the other, and runs that can be repeated.
#include <cmath>

#include "grpo_trainer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

class npu_runs : public trainer_test {
 protected:
  /// Programs that run a model, each with what its command line cannot do without; the rest is never reached.
  std::vector<std::pair<std::string, arguments>> programs() const {
    const std::string model = files.model.string(), rows = files.train.string();
    const arguments flags{"--pretrain", model, "--dataset", rows},
        policy{"data.train_files=" + rows, "data.val_files=" + rows, "actor_rollout_ref.model.path=" + model};
    return {{"grpo_trainer", policy},
            {"ppo_trainer", policy},
            {"reinforce_plus_plus_trainer", policy},
            {"dapo_trainer", policy},
            {"sft_trainer", {"data.train_files=" + rows, "model.partial_pretrain=" + model}},
            {"sft_trainer", flags + arguments{"--output_key", "answer"}},
            {"dpo_trainer", flags},
            {"kto_trainer", flags},
            {"rm_trainer", flags},
            {"prm_trainer", flags},
            {"evaluate", {"data.files=" + rows, "model.path=" + model}},
            {"quickstart", {}}};
  }
  const arguments emulated{"trainer.device=npu_emulator", "trainer.logger=[console,file]"};
};

TEST_F(npu_runs, without_cann_every_program_says_why_and_names_the_emulator) {
  for (const auto& [name, needed] : programs()) {
    SCOPED_TRACE(name);
    if (!fs::exists(program::path_of(name))) continue;
    const program::result r = program::run(name, needed + arguments{"trainer.device=npu"},
                                           "cd '" + place.path().string() + "' && RLCORE_CANN_LIB_DIR=/nowhere");
    EXPECT_EQ(r.code, 1);
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_TRUE(r.err.starts_with(name + ": trainer.device=npu: ")) << r.err;
    EXPECT_NE(r.err.find("trainer.device=npu_emulator"), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("trainer.device=cpu"), std::string::npos) << r.err;
    EXPECT_EQ(r.out.find("step:"), std::string::npos);
  }
}

TEST_F(npu_runs, the_emulator_says_what_it_is_and_repeats_itself) {
  const program::result r = train("one", emulated);
  const std::string note = "its numbers are modelled, no hardware";
  EXPECT_NE(r.out.find(note), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find(note), r.out.rfind(note));
  EXPECT_NE(r.out.find("\ndevice npu 0 (emulator of Ascend910B3"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("bfloat16"), std::string::npos);
  EXPECT_NE(scratch::read(root("one") / "report.html").find("emulator of Ascend910B3"), std::string::npos);
  train("again", emulated);
  expect_same("one", "again");
}

/// What a machine with CANN would run, down to dlopen: the libraries here are the emulator's, so the bits are the same.
TEST_F(npu_runs, through_cann_s_libraries_a_run_has_the_same_bits) {
  train("emulator", emulated);
  for (const std::string layout : {"whole", "split"}) {
    const std::string libraries = std::string(RLCORE_CANN_EMULATED_DIR) + "/" + layout;
    const program::result r = train(layout, {"trainer.device=npu", "trainer.logger=[console,file]"},
                                    "RLCORE_CANN_LIB_DIR='" + libraries + "' ASCEND_OPP_PATH=/opp");
    EXPECT_EQ(r.out.find("modelled"), std::string::npos) << "these might be an NPU's numbers";
    EXPECT_NE(r.out.find("\ndevice npu 0 (CANN "), std::string::npos) << r.out;
    expect_same("emulator", layout);
  }
}

TEST_F(npu_runs, the_emulator_goes_on_from_a_checkpoint_to_the_bit) {
  train("whole", emulated);
  train("parts", emulated + arguments{"trainer.total_training_steps=2"});
  train("parts", emulated);
  expect_same("whole", "parts");
}

/// Where sums of the old log-probs and of training have another order, the ratio of an on-policy update is near 1.
TEST_F(npu_runs, old_log_probs_are_computed_again) {
  train("run", emulated + arguments{"actor_rollout_ref.actor.ppo_mini_batch_size=4"});
  for (const std::string& row : rows(root("run"))) {
    const auto json = nlohmann::json::parse(row);
    if (!json.contains("actor/ppo_kl")) continue;
    EXPECT_LT(std::abs(json["actor/ppo_kl"].get<double>()), 1e-2) << row;
    EXPECT_EQ(json["actor/pg_clipfrac"].get<double>(), 0) << row;
  }
  EXPECT_NE(scratch::read(root("run") / "metrics.jsonl").find("training/rollout_probs_diff_mean"), std::string::npos);
}

/// On the processor's own responses, rounding is all that is left of the difference.
TEST_F(npu_runs, the_same_responses_give_nearly_the_same_numbers) {
  const arguments one{"trainer.total_training_steps=1", "trainer.logger=file"};
  train("cpu", one + arguments{"trainer.rollout_data_dir=" + (place / "rollouts").string()});
  const auto step = [&](const std::string& name, const std::string& type) {
    train(name, emulated + one + arguments{"rlcore.compute=" + type, "rlcore.replay=" + (place / "rollouts").string()});
    return nlohmann::json::parse(rows(root(name)).back());
  };
  const auto cpu = nlohmann::json::parse(rows(root("cpu")).back());
  const auto exact = step("exact", "float32"), hf32 = step("hf32", "hf32"), half = step("half", "bfloat16");
  for (const char* name : {"actor/entropy", "actor/grad_norm"}) {
    const double right = cpu[name].get<double>();
    EXPECT_NEAR(exact[name].get<double>(), right, 1e-4 * right) << name;
    EXPECT_NEAR(hf32[name].get<double>(), right, 4e-3 * right) << name;  // unit roundoff 2^-12
    EXPECT_NEAR(half[name].get<double>(), right, 6e-2 * right) << name;  // 2^-9
    EXPECT_NE(half[name].get<double>(), exact[name].get<double>()) << name;
  }
  EXPECT_EQ(exact["critic/rewards/mean"], cpu["critic/rewards/mean"]);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
