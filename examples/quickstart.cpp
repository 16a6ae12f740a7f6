// End-to-end example: word problems, tokenizer, tiny Qwen2, supervised warm start and GRPO in minutes on a CPU.
//   build/bin/quickstart [key=value ...]        settings of grpo_trainer, e.g. rlcore.seed=2
//   build/bin/quickstart --pictures             the same with images: a tiny Qwen2.5-VL reads digits
//   build/bin/quickstart --task_only            only data/ and model/, for any other trainer (docs/policy_trainers.md)
// Leaves runs/quickstart/{data,model,global_step_N,metrics.jsonl,report.html,tensorboard}, with images in
// runs/vision.
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

/// Differences between the two tasks.
struct task {
  std::filesystem::path root;
  const char *experiment, *steps;
};
const task words{"runs/quickstart", "word_problems", "50"}, pictures{"runs/vision", "drawn_digits", "140"};

std::vector<std::string> settings(bool shows_pictures) {
  const task& t = shows_pictures ? pictures : words;
  std::vector<std::string> all =
      shows_pictures ? embedded_task::picture_settings(t.root) : embedded_task::settings(t.root);
  for (const char* more :
       {"algorithm.adv_estimator=grpo", "actor_rollout_ref.actor.use_kl_loss=True",
        "actor_rollout_ref.actor.kl_loss_coef=0.001", "trainer.project_name=quickstart", "trainer.resume_mode=disable"})
    all.emplace_back(more);
  all.push_back("trainer.experiment_name=" + std::string(t.experiment));
  all.push_back("trainer.total_training_steps=" + std::string(t.steps));
  if (shows_pictures) all.emplace_back("quickstart.warm_start_steps=1500");
  all.push_back("trainer.save_freq=" + std::string(shows_pictures ? "70" : "25"));
  all.push_back("trainer.default_local_dir=" + t.root.string());
  return all;
}

train::registry known() {
  using namespace train::keys;
  constexpr train::key own[] = {
      {"quickstart.task_only", boolean, "False", honoured, "write data/ and model/ and stop (also --task_only)"},
      {"quickstart.pictures", boolean, "False", honoured,
       "images of digits are read instead of word problems (also --pictures)"},
      {"quickstart.warm_start_steps", integer, "480", honoured,
       "supervised steps before, with images at most; fewer leave a worse model", between(1, 100'000)}};
  constexpr train::flag flags[] = {{"task_only", "quickstart.task_only", train::flag::switch_only},
                                   {"pictures", "quickstart.pictures", train::flag::switch_only}};
  train::registry all = train::main_ppo_registry();
  all.program = "quickstart";
  all.add(own).add_flags(flags);
  return all;
}

void run(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  const auto parse = [&](bool with_pictures) {
    std::vector<std::string> arguments = settings(with_pictures);
    arguments.insert(arguments.end(), given.begin(), given.end());
    return train::options::parse(arguments, known());
  };
  const auto usual = parse(false);
  if (usual.answer()) {
    std::fputs(usual.answer()->c_str(), stdout);
    return;
  }
  const bool shows_pictures = usual.get<bool>("quickstart.pictures");
  const auto options = parse(shows_pictures);
  const bool task_only = options.get<bool>("quickstart.task_only");
  if (task_only)  // otherwise the trainer prints them
    for (const std::string& note : options.notes()) std::printf("note: %s\n", note.c_str());
  train::on_ranks(options, [&](any_device& device, parallel::any_communicator& all) {
    const auto seed = static_cast<std::uint64_t>(options.get<std::int64_t>("rlcore.seed"));
    const auto steps = static_cast<std::uint32_t>(options.get<std::int64_t>("quickstart.warm_start_steps"));
    if (all.rank() == 0) {
      if (shows_pictures)
        embedded_task::make_pictures(device, pictures.root, seed, steps);
      else
        embedded_task::make(device, words.root, seed, steps);
    }
    all.barrier();
    if (!task_only) train::train_policy(device, options, &all);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::train::run_program("quickstart", [&] { run(argc, argv); });
}
