// The whole road in a few minutes on a CPU: word problems, tokenizer, tiny Qwen2, a brief supervised warm start, GRPO.
//   build/bin/quickstart [key=value ...]        settings of grpo_trainer, e.g. rlcore.seed=2
//   build/bin/quickstart --task_only            only data/ and model/, for any other trainer (docs/policy_trainers.md)
// Leaves runs/quickstart/{data,model,global_step_N,metrics.jsonl,report.html,tensorboard}.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "embedded_task.hpp"
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/trainer/program.hpp"
#include "rlcore/trainer/trainers.hpp"
#include "rlcore/training/ranks/ranks.hpp"

namespace {

using namespace rlcore;

const std::filesystem::path root = "runs/quickstart";

std::vector<std::string> settings() {
  std::vector<std::string> all = embedded_task::settings(root);
  for (const char* more : {"algorithm.adv_estimator=grpo", "actor_rollout_ref.actor.use_kl_loss=True",
                           "actor_rollout_ref.actor.kl_loss_coef=0.001", "trainer.project_name=quickstart",
                           "trainer.experiment_name=word_problems", "trainer.resume_mode=disable",
                           "trainer.total_training_steps=50", "trainer.save_freq=25"})
    all.emplace_back(more);
  all.push_back("trainer.default_local_dir=" + root.string());
  return all;
}

trainer::registry known() {
  using namespace trainer::keys;
  constexpr trainer::key own[] = {
      {"quickstart.task_only", boolean, "False", honoured, "write data/ and model/ and stop (also --task_only)"},
      {"quickstart.warm_start_steps", integer, "480", honoured, "supervised steps before; fewer leave a worse model",
       between(1, 100'000)}};
  constexpr trainer::flag flags[] = {{"task_only", "quickstart.task_only", trainer::flag::switch_only}};
  trainer::registry all = trainer::main_ppo_registry();
  all.program = "quickstart";
  all.add(own).add_flags(flags);
  return all;
}

void run(int argc, char** argv) {
  std::vector<std::string> arguments = settings();
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  const auto options = trainer::options::parse(arguments, known());
  if (options.answer()) {
    std::fputs(options.answer()->c_str(), stdout);
    return;
  }
  const bool task_only = options.get<bool>("quickstart.task_only");
  if (task_only)  // otherwise the trainer prints them
    for (const std::string& note : options.notes()) std::printf("note: %s\n", note.c_str());
  trainer::on_ranks(options, [&](any_device& device, parallel::any_communicator& all) {
    const auto seed = static_cast<std::uint64_t>(options.get<std::int64_t>("rlcore.seed"));
    const auto steps = static_cast<std::uint32_t>(options.get<std::int64_t>("quickstart.warm_start_steps"));
    if (all.rank() == 0) embedded_task::make(device, root, seed, options, steps);
    all.barrier();
    if (!task_only) trainer::train_policy(device, options, &all);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::trainer::run_program("quickstart", [&] { run(argc, argv); });
}
