// A whole supervised run: say what will happen, load or resume, train, report.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/telemetry/logger.hpp"
#include "rlcore/telemetry/report/report.hpp"
#include "rlcore/trainer/supervised/base_model.hpp"
#include "rlcore/trainer/supervised/loop.hpp"
#include "rlcore/training/earlier_run.hpp"
#include "rlcore/training/parameters_text.hpp"
#include "rlcore/training/ranks/team.hpp"

RLCORE_BEGIN
namespace trainer {

/// "train/loss  5.21 -> 1.07": the first and the last of each number that a run was about.
inline void print_ends(std::span<const metric_row> rows, std::span<const std::string> names) {
  for (const std::string& name : names) {
    const metrics *first = nullptr, *last = nullptr;
    for (const metric_row& row : rows)
      if (row.values.contains(name)) (first == nullptr ? first : last) = &row.values;
    if (first == nullptr) continue;
    say("%-11s %.4f", name.c_str(), first->get(name));
    if (last != nullptr) say(" -> %.4f", last->get(name));
    say("\n");
  }
}

/// Trains `task` from `base`, or from the run's last checkpoint, as `settings` and `training` say. `opt` gives the
/// notes to print and the command line for the report. `shown` names the metrics whose first and last values are
/// printed at the end. `quiet` suppresses everything printed except the steps. `ranks` share the work. Throws
/// rlcore::error before the first step for everything that can be known by then.
template <class Device, class Task>
void train_supervised(Device& device, const options& opt, supervised_settings settings,
                      const training_settings& training, const base_model& base, Task& task,
                      std::span<const std::string> shown, const team& ranks, bool quiet = false) {
  const silence others(quiet || !ranks.first());
  const auto say = [](const std::string& line) { trainer::say("%s\n", line.c_str()); };
  for (const std::string& note : opt.notes()) say("note: " + note);
  const supervised_plan plan = make_supervised_plan(settings, task.train_size(), task.eval_size());

  trainable_model<Device> model(device, base.config, training, &ranks.world());
  std::string model_text =
      fmt::format("{}: {}, {} layers, hidden {}, {}", base.folder.string(), nn::name_of(base.config.model),
                  base.config.num_hidden_layers, base.config.hidden_size, parameters_text(model));
  if (training.lora)
    model_text += fmt::format("; LoRA of rank {}, alpha {:g}: {:.3g} M are trained", training.lora->rank,
                              training.lora->alpha, static_cast<double>(model.trained_size()) * 1e-6);
  const std::string device_text = describe(device) + ranks.describe();
  say("model  " + model_text + "\ndevice " + device_text + "\n\n" + plan.table().text());
  std::fflush(stdout);

  const std::filesystem::path root = checkpoint::expand_home(settings.root);
  const checkpoint::resume_point from =
      checkpoint::find_resume(settings.resume_mode, checkpoint::expand_home(settings.resume_path).string(), root);
  ranks.agree(from.step, "checkpoint", root);
  if (!from.notice.empty()) say("note: " + from.notice);
  supervised_state state{.train_rows = plan.train_rows, .rows_per_step = plan.rows_per_step, .seed = settings.seed};
  if (!from || training.lora) model.load(base.folder);  // with LoRA a checkpoint goes on from its base
  if (from) {
    state = load_supervised(from.folder, model, task, state);
    say("resumed after step " + std::to_string(state.step) + " from " + from.folder.string());
    if (!model.notice().empty()) say("note: " + model.notice());
  }
  if constexpr (requires { task.prepare(model); }) task.prepare(model);

  logger log = ranks.first() ? logger(settings.loggers, root, from ? from.step : -1,
                                      checkpoint::expand_home(settings.tensorboard_dir).string())
                             : logger({"file"}, {});  // keeps the rows and writes nothing
  if (const std::string note = earlier_run_note(opt, log, root); !note.empty()) say(note);
  progress bar(stderr, ranks.first() && isatty(fileno(stderr)) != 0);
  supervised_loop<Device, Task> loop({settings, plan, model, task, base.folder, root, ranks.size()}, state, log, bar);
  loop.run();
  if (!ranks.first()) return;

  if (settings.report) {
    run_info info{settings.name, model_text, device_text, {}, {}};
    for (const std::string& line : opt.overrides()) {
      const std::size_t equal = line.find('=');
      info.settings.emplace_back(line.substr(0, equal), line.substr(equal + 1));
    }
    for (const auto& line : plan.table().lines) info.derived.emplace_back(line.name, line.number);
    write_report(root / "report.html", info, log.rows());
    say("report      " + (root / "report.html").string());
  }
  say("metrics     " + log.path().string());
  print_ends(log.rows(), shown);
  if (const auto step = checkpoint::read_tracker(root))
    say("checkpoint  " + (checkpoint::step_folder(root, *step) / "huggingface").string());
}

}  // namespace trainer
RLCORE_END
