// Supervised run: state between steps, evaluation, logging, checkpoints.
//
//   global_step_N/huggingface/    full weights (LoRA merged), config, tokenizer: loads in transformers
//   global_step_N/...             the other files of train/files/trained_files.hpp: optimizer state, adapter
//   global_step_N/data.json       position in the data
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/model_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/files/save_checkpoint.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/parameters_text.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/preference/run.hpp"
#include "rlcore/train/preference/settings.hpp"
#include "rlcore/train/ranks/team.hpp"
#include "rlcore/train/run/frame.hpp"
#include "rlcore/train/supervised/base_model.hpp"
#include "rlcore/train/supervised/open.hpp"
#include "rlcore/train/supervised/plan.hpp"
#include "rlcore/train/supervised/sft_work.hpp"
#include "rlcore/train/supervised/task.hpp"

RLCORE_BEGIN
namespace train {

/// State of a resumed run besides the trained model. The order of the rows is a function of these and the step.
struct supervised_state {
  std::int64_t step = 0, skipped_updates = 0, train_rows = 0, rows_per_step = 0;
  std::uint64_t seed = 0;
  std::string notice = {};  ///< a line to print after a resume, or empty
};

/// Writes global_step_{state.step} below `root`, then the tracker, then deletes all but the newest `keep` checkpoints
/// (0: keeps all). Older checkpoints stay intact on failure. Collective over all ranks of the model.
template <class Device, class Task>
void save_supervised(const std::filesystem::path& root, trainable_model<Device>& model, const Task& task,
                     const model_source& from, const supervised_state& state, std::int64_t keep) {
  save_step_together(root, state.step, keep, model.world(), [&](const std::filesystem::path& folder) {
    save_checkpoint(model, folder, from);
    if (model.world() != nullptr && !model.world()->first()) return;
    if constexpr (requires { task.save(folder); }) task.save(folder);
    const nlohmann::ordered_json data{{"rlcore_version", RLCORE_VERSION_STRING},
                                      {"step", state.step},
                                      {"seed", state.seed},
                                      {"train_rows", state.train_rows},
                                      {"rows_per_step", state.rows_per_step},
                                      {"skipped_updates", state.skipped_updates}};
    checkpoint::write_file_atomically(folder / "data.json", text::json_text(data, 2) + "\n");
  });
}

/// Loads `folder` into `model` and `task`. `now` describes this run. Throws config_error if its seed, data set or batch
/// size differs from the saved run's, because the steps would then get other rows.
template <class Device, class Task>
supervised_state load_supervised(const std::filesystem::path& folder, trainable_model<Device>& model, Task& task,
                                 const supervised_state& now) {
  const checkpoint::json_file data(folder / "data.json");
  supervised_state state;
  state.step = data.integer("step");
  if (const auto step = checkpoint::step_of(folder); step && *step != state.step)
    throw format_error(folder.string() + ": data.json is that of step " + std::to_string(state.step));
  state.seed = static_cast<std::uint64_t>(data.integer("seed"));
  state.train_rows = data.integer("train_rows"), state.rows_per_step = data.integer("rows_per_step");
  state.skipped_updates = data.integer("skipped_updates", 0);
  const auto same = [&](const char* name, auto then, auto here) {
    if (then != here)
      throw config_error(folder.string() + " was saved by a run with " + name + " " + std::to_string(then) +
                         ", this run has " + std::to_string(here) +
                         ": take the same, or start anew (trainer.resume_mode=disable)");
  };
  same("seed", state.seed, now.seed);
  same("a training set of so many rows:", state.train_rows, now.train_rows);
  same("train_batch_size", state.rows_per_step, now.rows_per_step);
  state.notice = restore_checkpoint(model, folder).notice;
  if constexpr (requires { task.restore(folder); }) task.restore(folder);
  return state;
}

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

/// A recipe calls update() and finish_step() between next_step() and finish(). The task knows its rows, the loss of
/// some of them, and what to measure; see supervised_task. All ranks make the same calls.
template <class Device, class Task>
  requires supervised_task<Task, Device>
class supervised_run {
 public:
  trainable_model<Device> model;
  metrics numbers;  ///< of the step, to be logged

  /// Makes the model, prints the plan, and loads `base`, or the run's last checkpoint if `settings` say so. `opt`
  /// gives the notes to print and the command line for the report. Everything must outlive the run. Throws
  /// rlcore::error for everything that can be known by then.
  supervised_run(Device& device, const options& opt, const supervised_settings& settings,
                 const training_settings& training, const base_model& base, Task& task, const team& ranks);
  supervised_run(const supervised_run&) = delete;
  supervised_run& operator=(const supervised_run&) = delete;
  ~supervised_run();

  /// Begins the next step; false after the last, and after a signal: then the last step is saved. Before the first,
  /// evaluates if that is to be done.
  bool next_step();
  /// The task's gradient over the rows of the step, and one optimizer step.
  void update();
  /// Evaluates and saves when it is time, the last step always, and logs the step.
  void finish_step();
  /// Whether the last step is done: a signal may have ended the run before it.
  bool complete() const noexcept { return last(); }
  /// Writes the report, and says where everything is; the first and last values of the metrics `shown`.
  void finish(std::span<const std::string> shown);

 private:
  bool last() const noexcept { return state_.step == plan_.total_steps; }
  bool due(std::int64_t every) const noexcept { return last() || (every > 0 && state_.step % every == 0); }

  std::string data_text() const {
    if constexpr (requires { task_.data_text(); }) return task_.data_text();
    return {};
  }
  void evaluate() {
    frame_.bar.phase("evaluation", 0, 0);
    time_("testing", [&] { task_.evaluate(model, numbers); });
  }
  /// Prints models, devices and the batch plan.
  void describe(Device& device, const training_settings& training);
  /// Continues from the run's last checkpoint if the settings say so.
  void resume(const training_settings& training);
  void save() { save_supervised(root_, model, task_, saved_as_, state_, settings_.keep); }

  supervised_settings settings_;
  const base_model& base_;
  model_source saved_as_;
  Task& task_;
  const team& ranks_;
  std::filesystem::path root_;
  stages time_;
  run_frame frame_;
  supervised_plan plan_;
  step_rows rows_;
  supervised_state state_;
};

namespace detail {

/// The config of the model in training. A mark that the task teaches as the end of a turn is an EOS of the saved model.
template <class Task>
nn::config trained_config(const base_model& base, const Task& task) {
  nn::config c = base.config;
  if constexpr (requires { task.turn_end(base.tokenizer); })
    if (const auto end = task.turn_end(base.tokenizer);
        end && std::find(c.eos_token_ids.begin(), c.eos_token_ids.end(), *end) == c.eos_token_ids.end()) {
      say("note: answers end with %s, which is no EOS in config.json: the saved model names it there and in "
          "generation_config.json\n",
          base.tokenizer.token_of(*end).c_str());
      c.eos_token_ids.push_back(*end);
    }
  return c;
}

/// The chat template that the command line names, as Jinja; empty: the folder's.
inline std::string named_chat_template(const options& opt, const std::filesystem::path& folder) {
  const char* flag = "tokenizer_chat_template";
  const bool flags = opt.known().find(flag) != nullptr;
  const std::string setting = flags ? opt.find<std::string>(flag).value_or("") : chat_template_setting(opt);
  if (setting.empty()) return {};
  return text::chat_template::chosen(setting, folder, flags ? "--tokenizer_chat_template" : "rlcore.chat_template")
      .source();
}

}  // namespace detail

template <class Device, class Task>
  requires supervised_task<Task, Device>
supervised_run<Device, Task>::supervised_run(Device& device, const options& opt, const supervised_settings& settings,
                                             const training_settings& training, const base_model& base, Task& task,
                                             const team& ranks)
    : model(device, detail::trained_config(base, task), training, &ranks.world()),
      settings_(settings),
      base_(base),
      saved_as_(base.folder, detail::named_chat_template(opt, base.folder)),
      task_(task),
      ranks_(ranks),
      root_(checkpoint::expand_home(settings.root)),
      frame_(opt,
             {root_,
              settings.resume_mode,
              settings.resume_path,
              {settings.loggers, settings.tensorboard_dir, settings.console},
              settings.report},
             ranks, numbers, time_),
      plan_(make_supervised_plan(settings_, task.train_size(), task.eval_size())),
      rows_(plan_, settings_.seed, settings_.shuffle) {
  for (const std::string& note : opt.notes()) say("note: %s\n", note.c_str());
  describe(device, training);
  resume(training);
  if constexpr (requires { task.prepare(model); }) task.prepare(model);
  frame_.open([this] { return most_memory_of(model.model.device()); });
  if constexpr (requires { task.watch(frame_.bar); }) task.watch(frame_.bar);
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
supervised_run<Device, Task>::~supervised_run() = default;

template <class Device, class Task>
  requires supervised_task<Task, Device>
void supervised_run<Device, Task>::describe(Device& device, const training_settings& training) {
  const nn::config& c = base_.config;
  run_info& info = frame_.info;
  info.name = settings_.name;
  info.model = fmt::format("{}: {}, {} layers, hidden {}, {}", base_.folder.string(), nn::name_of(c.model),
                           c.num_hidden_layers, c.hidden_size, parameters_text(model));
  if (training.lora)
    info.model += fmt::format("; LoRA of rank {}, alpha {:g}: {:.3g} M are trained", training.lora->rank,
                              training.lora->alpha, static_cast<double>(whole_trained_size(model)) * 1e-6);
  info.device = rlcore::describe(device) + ranks_.describe();
  for (const auto& line : plan_.table().lines) info.derived.emplace_back(line.name, line.number);
  say("model  %s\ndevice %s\n%s\n%s\n", info.model.c_str(), info.device.c_str(), ranks_.idle_note().c_str(),
      plan_.table().text().c_str());
  std::fflush(stdout);
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
void supervised_run<Device, Task>::resume(const training_settings& training) {
  const checkpoint::resume_point& from = frame_.resume(data_text());
  state_ = {.train_rows = plan_.train_rows, .rows_per_step = plan_.rows_per_step, .seed = settings_.seed};
  if (!from || training.lora) load_weights(model, base_.folder);  // LoRA checkpoints need their base
  if (!from) return;
  state_ = load_supervised(from.folder, model, task_, state_);
  frame_.say_resumed(state_.step, plan_.total_steps, state_.notice);
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
bool supervised_run<Device, Task>::next_step() {
  if (!frame_.begun() && settings_.test_before && state_.step == 0 && plan_.eval_rows > 0) {
    evaluate();
    frame_.log().write(0, numbers);
  }
  return frame_.next(state_.step, plan_.total_steps, [&] { save(); });
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
void supervised_run<Device, Task>::update() {
  const double lr = settings_.lr * settings_.schedule.factor(state_.step - 1);
  time_("update", [&] {
    frame_.bar.phase("update", 0, 0);
    const std::vector<std::uint32_t> rows = rows_(state_.step);
    model.begin_update();
    task_.update(model, std::span<const std::uint32_t>(rows), numbers);
    const step_outcome outcome = model.apply({.lr = lr, .grad_clip = settings_.grad_clip});
    numbers.set("train/grad_norm", outcome.gradient_norm);
    if (outcome.skipped) {
      if (state_.skipped_updates++ == 0)
        say("note: step %lld: the gradient is not finite: the update with the learning rate %g is left out "
            "(train/skipped_updates)\n",
            static_cast<long long>(state_.step), lr);
      numbers.set("train/skipped_updates", 1);
    }
  });
  if (settings_.style == metric_style::verl) {
    numbers.set("train/lr(1e-3)", lr * 1e3);
    numbers.set("train/time(s)", time_.seconds("update"));
  } else {
    numbers.set("train/lr", lr);
  }
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
void supervised_run<Device, Task>::finish_step() {
  const supervised_settings& s = settings_;
  const bool evaluates =
      plan_.eval_rows > 0 && (due(s.test_freq) || (s.test_each_epoch && rows_.ends_epoch(state_.step)));
  const bool saves = due(s.save_freq);
  if (evaluates || saves) model.release_gradients();
  if (evaluates) evaluate();
  if (saves) frame_.save(state_.step, rows_.epoch_of(state_.step), [&] { save(); });
  frame_.stop_clock();
  for (const auto& [name, seconds] : time_.entries()) numbers.set("timing_s/" + name, seconds);
  if (numbers.contains("perf/total_num_tokens"))
    numbers.set("perf/throughput",
                throughput(numbers.get("perf/total_num_tokens"), time_.seconds("update"), ranks_.size()));
  frame_.end_step(state_.step, rows_.epoch_of(state_.step), saves);
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
void supervised_run<Device, Task>::finish(std::span<const std::string> shown) {
  if (!frame_.finish()) return;
  print_ends(frame_.log().rows(), shown);
  if (const auto step = checkpoint::read_tracker(root_))
    say("checkpoint  %s\n", (checkpoint::step_folder(root_, *step) / "huggingface").c_str());
}

template <class Device, class Task>
void train_supervised(Device& device, const options& opt, const base_model& base, Task& task, const team& ranks,
                      const std::vector<std::string>& shown) {
  const bool openrlhf = speaks_openrlhf(opt);
  const auto [settings, training] = [&]() -> std::pair<supervised_settings, training_settings> {
    if (openrlhf) return {read_openrlhf_run(opt), read_openrlhf_training(opt)};
    sft_run_settings verl = read_sft_settings(opt);
    return {std::move(verl.run), std::move(verl.training)};
  }();
  supervised_run run(device, opt, settings, training, base, task, ranks);
  while (run.next_step()) {
    run.update();
    run.finish_step();
  }
  run.finish(shown);
  if (openrlhf && ranks.first() && run.complete()) export_model(opt);
}

}  // namespace train

RLCORE_END
