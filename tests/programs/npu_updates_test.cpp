// Runs whose losses are computed on the emulated NPU, against the processor's on the same responses.
#include <cmath>

#include "grpo_trainer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

class npu_updates : public trainer_test {
 protected:
  const arguments six{"trainer.total_training_steps=6", "trainer.logger=file", "trainer.val_before_train=True",
                      "trainer.test_freq=1", "actor_rollout_ref.actor.use_kl_loss=True"};
  const arguments emulated{"trainer.device=npu_emulator", "rlcore.compute=float32"};

  /// The metrics of a run that must succeed.
  std::vector<nlohmann::json> run(const std::string& trainer, const std::string& name, const arguments& more) {
    arguments all = settings(files, root(name));
    if (trainer != "grpo_trainer") std::erase(all, "algorithm.adv_estimator=grpo");
    const program::result r = program::run(trainer, all + six + more);
    EXPECT_EQ(r.code, 0) << r.err;
    std::vector<nlohmann::json> steps;
    for (const std::string& row : rows(root(name))) steps.push_back(nlohmann::json::parse(row));
    return steps;
  }
};

TEST_F(npu_updates, have_the_metrics_and_the_validation_curve_of_the_processor) {
  bool moved = false;
  for (const std::string trainer : {"grpo_trainer", "ppo_trainer", "reinforce_plus_plus_trainer"}) {
    SCOPED_TRACE(trainer);
    if (!fs::exists(program::path_of(trainer))) continue;
    const std::string responses = (place / ("responses_of_" + trainer)).string();
    const auto cpu = run(trainer, "cpu_" + trainer, {"trainer.rollout_data_dir=" + responses});
    const auto npu = run(trainer, "npu_" + trainer, emulated + arguments{"rlcore.replay=" + responses});
    ASSERT_EQ(cpu.size(), 7u);
    ASSERT_EQ(npu.size(), cpu.size());
    for (std::size_t step = 0; step < cpu.size(); ++step) {
      std::size_t curves = 0, losses = 0;
      for (const auto& [name, number] : cpu[step].items()) {
        if (name.starts_with("val-")) {
          EXPECT_EQ(npu[step].at(name), number) << name << " of step " << step;
          moved = moved || number != cpu[0].at(name);
          ++curves;
        }
        const bool loss = name.starts_with("actor/pg_") || name == "actor/kl_loss" || name == "actor/ppo_kl" ||
                          name == "critic/vf_loss" || name == "critic/vf_clipfrac" || name == "critic/vpred_mean";
        const double right = number.is_number() ? number.get<double>() : 0;
        if (loss || name.ends_with("/grad_norm")) {
          EXPECT_NEAR(npu[step].at(name).get<double>(), right, 1e-4 * (loss ? 1 : std::abs(right)))
              << name << " of step " << step;
          ++losses;
        }
      }
      EXPECT_GT(curves, 0u);
      EXPECT_GE(losses, step == 0 ? 0u : 6u);
    }
  }
  EXPECT_TRUE(moved) << "a curve that is flat shows nothing";
}

TEST_F(npu_updates, run_by_the_rules_of_every_cann) {
  std::vector<double> numbers;
  for (const std::string version : {"8.1", "8.5", "9.1"}) {
    const auto steps = run("grpo_trainer", "cann_" + version,
                           emulated + arguments{"rlcore.npu_emulator.cann_version=" + version, "trainer.test_freq=-1",
                                                "trainer.val_before_train=False", "trainer.total_training_steps=1"});
    ASSERT_EQ(steps.size(), 1u);
    numbers.push_back(steps[0].at("actor/grad_norm").get<double>());
  }
  for (const double x : numbers) EXPECT_NEAR(x, numbers[0], 1e-4 * numbers[0]);
  EXPECT_GT(numbers.at(0), 0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
