// End-to-end example: word problems, tokenizer, tiny Qwen2, supervised warm start and GRPO in minutes on a CPU.
//   build/bin/quickstart [key=value ...]        settings of grpo_trainer, e.g. rlcore.seed=2
//   build/bin/quickstart --images             the same with images: a tiny Qwen2.5-VL reads digits
//   build/bin/quickstart --tools                the same with a tool: a tiny model learns to call a calculator
//   build/bin/quickstart --task_only            only data/ and model/, for any other trainer (docs/policy_trainers.md)
// Leaves runs/quickstart/{data,model,global_step_N,metrics.jsonl,report.html,tensorboard}, with images in
// runs/vision, with a tool in runs/tools.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "embedded_task.hpp"
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/train/ranks/ranks.hpp"
#include "rlcore/train/run/program.hpp"
#include "rlcore/train/run/trainers.hpp"

namespace {

using namespace rlcore;

/// Differences between the tasks.
struct task {
  std::filesystem::path root;
  const char *experiment, *steps, *warm_start_steps, *save_freq;
  std::vector<std::string> (*settings)(const std::filesystem::path&);
  void (*make)(any_device&, const std::filesystem::path&, std::uint64_t seed, std::uint32_t steps);
};
const task words{"runs/quickstart", "word_problems", "50", "480", "25", embedded_task::settings, embedded_task::make};
const task images{
    "runs/vision", "drawn_digits", "140", "1500", "70", embedded_task::image_settings, embedded_task::make_images};
const task tools{
    "runs/tools", "calculator", "20", "400", "10", embedded_task::tool_settings, embedded_task::make_tools};

std::vector<std::string> settings(const task& t) {
  std::vector<std::string> all = t.settings(t.root);
  for (const char* more :
       {"algorithm.adv_estimator=grpo", "actor_rollout_ref.actor.use_kl_loss=True",
        "actor_rollout_ref.actor.kl_loss_coef=0.001", "trainer.project_name=quickstart", "trainer.resume_mode=disable"})
    all.emplace_back(more);
  all.push_back("trainer.experiment_name=" + std::string(t.experiment));
  all.push_back("trainer.total_training_steps=" + std::string(t.steps));
  all.push_back("quickstart.warm_start_steps=" + std::string(t.warm_start_steps));
  all.push_back("trainer.save_freq=" + std::string(t.save_freq));
  all.push_back("trainer.default_local_dir=" + t.root.string());
  return all;
}

train::registry known() {
  using namespace train::keys;
  constexpr train::key own[] = {
      {"quickstart.task_only", boolean, "False", honoured, "write data/ and model/ and stop (also --task_only)"},
      {"quickstart.images", boolean, "False", honoured,
       "images of digits are read instead of word problems (also --images)"},
      {"quickstart.tools", boolean, "False", honoured,
       "a calculator is called instead of word problems solved (also --tools)"},
      {"quickstart.warm_start_steps", integer, "480", honoured,
       "supervised steps before, with images at most; fewer leave a worse model", between(1, 100'000)}};
  constexpr train::flag flags[] = {{"task_only", "quickstart.task_only", train::flag::switch_only},
                                   {"images", "quickstart.images", train::flag::switch_only},
                                   {"tools", "quickstart.tools", train::flag::switch_only}};
  train::registry all = train::main_ppo_registry();
  all.program = "quickstart";
  all.add(own).add_flags(flags);
  return all;
}

void run(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  const auto parse = [&](const task& t) {
    std::vector<std::string> arguments = settings(t);
    arguments.insert(arguments.end(), given.begin(), given.end());
    return train::options::parse(arguments, known());
  };
  const auto usual = parse(words);
  if (usual.answer()) {
    std::fputs(usual.answer()->c_str(), stdout);
    return;
  }
  const bool shows_images = usual.get<bool>("quickstart.images"), calls_tools = usual.get<bool>("quickstart.tools");
  if (shows_images && calls_tools) throw config_error("--images and --tools are two tasks: choose one");
  const task& chosen = shows_images ? images : calls_tools ? tools : words;
  const auto options = parse(chosen);
  const bool task_only = options.get<bool>("quickstart.task_only");
  if (task_only)  // otherwise the trainer prints them
    for (const std::string& note : options.notes()) std::printf("note: %s\n", note.c_str());
  train::on_ranks(options, [&](any_device& device, parallel::any_communicator& all) {
    const auto seed = static_cast<std::uint64_t>(options.get<std::int64_t>("rlcore.seed"));
    const auto steps = static_cast<std::uint32_t>(options.get<std::int64_t>("quickstart.warm_start_steps"));
    if (all.rank() == 0) chosen.make(device, chosen.root, seed, steps);
    all.barrier();
    if (!task_only) train::train_policy(device, options, &all);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::train::run_program("quickstart", [&] { run(argc, argv); });
}
