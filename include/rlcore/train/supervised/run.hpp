// Supervised run: state between steps, evaluation, logging, checkpoints.
#pragma once

#include <fmt/format.h>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/telemetry/logger.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/telemetry/report/report.hpp"
#include "rlcore/telemetry/stages.hpp"
#include "rlcore/train/preference/run.hpp"
#include "rlcore/train/preference/settings.hpp"
#include "rlcore/train/supervised/base_model.hpp"
#include "rlcore/train/supervised/open.hpp"
#include "rlcore/train/supervised/plan.hpp"
#include "rlcore/train/supervised/sft_work.hpp"
#include "rlcore/train/supervised/state.hpp"
#include "rlcore/train/supervised/task.hpp"
#include "rlcore/train/files/run_settings.hpp"
#include "rlcore/train/run/interrupt.hpp"
#include "rlcore/train/run/open_log.hpp"
#include "rlcore/train/model/parameters_text.hpp"
#include "rlcore/train/ranks/team.hpp"
#include "rlcore/train/model/scored_groups.hpp"

RLCORE_BEGIN
namespace train {

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

  void count(metrics& m) const {
    m.set("training/global_step", state_.step);
    m.set("training/epoch", rows_.epoch_of(state_.step));
  }
  std::string data_text() const {
    if constexpr (requires { task_.data_text(); }) return task_.data_text();
    return {};
  }
  void evaluate() {
    bar_.phase("evaluation", 0, 0);
    time_("testing", [&] { task_.evaluate(model, numbers); });
  }
  /// Prints models, devices and the batch plan.
  void describe(Device& device, const training_settings& training);
  /// Continues from the run's last checkpoint if the settings say so.
  void resume(const training_settings& training);
  /// Saves the last complete step and prints how to resume. Returns false.
  bool stop_for_signal();
  /// Writes the report of the steps so far, for monitoring long runs.
  void write_current_report();

  const options& opt_;
  supervised_settings settings_;
  const base_model& base_;
  Task& task_;
  const team& ranks_;
  std::filesystem::path root_;
  checkpoint::folder_lock lock_;
  supervised_plan plan_;
  step_rows rows_;
  checkpoint::resume_point from_;
  supervised_state state_;
  progress bar_;
  std::optional<logger> log_;
  std::string model_text_, device_text_;  ///< of the report
  stages time_;
  std::string stopped_;  ///< reason for stopping
  std::chrono::steady_clock::time_point begin_, reported_;
  bool started_ = false;
  stop_signals signals_;
};

template <class Device, class Task>
  requires supervised_task<Task, Device>
supervised_run<Device, Task>::supervised_run(Device& device, const options& opt, const supervised_settings& settings,
                                             const training_settings& training, const base_model& base, Task& task,
                                             const team& ranks)
    : model(device, base.config, training, &ranks.world()),
      opt_(opt),
      settings_(settings),
      base_(base),
      task_(task),
      ranks_(ranks),
      root_(checkpoint::expand_home(settings.root)),
      lock_(lock_run(root_, opt, ranks.first())),
      plan_(make_supervised_plan(settings_, task.train_size(), task.eval_size())),
      rows_(plan_, settings_.seed, settings_.shuffle),
      bar_(stderr, ranks.first() && isatty(fileno(stderr)) != 0) {
  for (const std::string& note : opt.notes()) say("note: %s\n", note.c_str());
  describe(device, training);
  resume(training);
  if constexpr (requires { task.prepare(model); }) task.prepare(model);
  open_log(log_, opt, {settings_.loggers, settings_.tensorboard_dir, settings_.console}, root_, from_ ? from_.step : -1,
           ranks.first());
  if (!from_ && ranks.first()) write_run_settings(root_, opt, data_text());
  if constexpr (requires { task.watch(bar_); }) task.watch(bar_);
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
supervised_run<Device, Task>::~supervised_run() = default;

template <class Device, class Task>
  requires supervised_task<Task, Device>
void supervised_run<Device, Task>::describe(Device& device, const training_settings& training) {
  const nn::config& c = base_.config;
  model_text_ = fmt::format("{}: {}, {} layers, hidden {}, {}", base_.folder.string(), nn::name_of(c.model),
                            c.num_hidden_layers, c.hidden_size, parameters_text(model));
  if (training.lora)
    model_text_ += fmt::format("; LoRA of rank {}, alpha {:g}: {:.3g} M are trained", training.lora->rank,
                               training.lora->alpha, static_cast<double>(model.trained_size()) * 1e-6);
  device_text_ = rlcore::describe(device) + ranks_.describe();
  say("model  %s\ndevice %s\n\n%s\n", model_text_.c_str(), device_text_.c_str(), plan_.table().text().c_str());
  std::fflush(stdout);
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
void supervised_run<Device, Task>::resume(const training_settings& training) {
  from_ =
      checkpoint::find_resume(settings_.resume_mode, checkpoint::expand_home(settings_.resume_path).string(), root_);
  ranks_.agree(from_.step, "checkpoint", root_);
  if (from_) check_run_settings(root_, opt_, data_text());
  if (!from_.notice.empty()) say("note: %s\n", from_.notice.c_str());
  state_ = {.train_rows = plan_.train_rows, .rows_per_step = plan_.rows_per_step, .seed = settings_.seed};
  if (!from_ || training.lora) model.load(base_.folder);  // LoRA checkpoints need their base
  if (!from_) return;
  state_ = load_supervised(from_.folder, model, task_, state_);
  say("%s", resumed_text(opt_, state_.step, plan_.total_steps, from_.folder.string()).c_str());
  if (!model.notice().empty()) say("note: %s\n", model.notice().c_str());
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
bool supervised_run<Device, Task>::next_step() {
  if (!started_) {
    if (settings_.test_before && state_.step == 0 && plan_.eval_rows > 0) {
      numbers = {}, time_ = {};
      evaluate();
      log_->write(0, numbers);
    }
    bar_.start(state_.step, plan_.total_steps);
    started_ = true;
  }
  if (state_.step >= plan_.total_steps) return false;
  if (ranks_.least(asked_to_stop() == 0) == 0) return stop_for_signal();
  ++state_.step;
  numbers = {}, time_ = {};
  begin_ = std::chrono::steady_clock::now();
  return true;
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
void supervised_run<Device, Task>::update() {
  const double lr = settings_.lr * settings_.schedule.factor(state_.step - 1);
  time_("update", [&] {
    bar_.phase("update", 0, 0);
    const std::vector<std::uint32_t> rows = rows_(state_.step);
    model.begin_update();
    task_.update(model, std::span<const std::uint32_t>(rows), numbers);
    const step_outcome outcome = model.apply({.lr = lr, .grad_clip = settings_.grad_clip});
    numbers.set("train/grad_norm", outcome.gradient_norm);
    if (outcome.skipped) {
      ++state_.skipped_updates;
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
  if (plan_.eval_rows > 0 && (due(s.test_freq) || (s.test_each_epoch && rows_.ends_epoch(state_.step)))) evaluate();
  if (due(s.save_freq)) {
    metrics so_far = numbers;
    count(so_far);
    log_->announce(state_.step, so_far);
    time_("save_checkpoint", [&] {
      bar_.phase("checkpoint", 0, 0);
      save_supervised(root_, model, task_, base_.folder, state_, s.keep);
    });
  }
  time_.add("step", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
  for (const auto& [name, seconds] : time_.entries()) numbers.set("timing_s/" + name, seconds);
  if (numbers.contains("perf/total_num_tokens"))
    numbers.set("perf/throughput",
                throughput(numbers.get("perf/total_num_tokens"), time_.seconds("step"), ranks_.size()));
  numbers.set("perf/cpu_memory_used_gb", resident_memory_gib());
  count(numbers);
  bar_.step_done(state_.step);
  log_->write(state_.step, numbers, bar_.pace());
  if (due(s.save_freq) || std::chrono::steady_clock::now() - reported_ > std::chrono::minutes(1))
    write_current_report();
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
void supervised_run<Device, Task>::finish(std::span<const std::string> shown) {
  bar_.finish();
  if (!stopped_.empty()) say("stopped     %s\n", stopped_.c_str());
  if (!ranks_.first()) return;
  write_current_report();
  if (settings_.report) say("report      %s\n", (root_ / "report.html").c_str());
  say("metrics     %s\n", log_->path().c_str());
  print_ends(log_->rows(), shown);
  if (const auto step = checkpoint::read_tracker(root_))
    say("checkpoint  %s\n", (checkpoint::step_folder(root_, *step) / "huggingface").c_str());
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
bool supervised_run<Device, Task>::stop_for_signal() {
  stopped_ = std::string(name_of_stop()) + " after step " + std::to_string(state_.step);
  if (state_.step == 0) return false;
  stopped_ += "; " + resuming_text(opt_, settings_.resume_mode == "disable") + " to go on to the same bits";
  const bool there = std::filesystem::exists(checkpoint::step_folder(root_, state_.step));
  if (!from_first(ranks_.world(), there)) save_supervised(root_, model, task_, base_.folder, state_, settings_.keep);
  return false;
}

template <class Device, class Task>
  requires supervised_task<Task, Device>
void supervised_run<Device, Task>::write_current_report() {
  reported_ = std::chrono::steady_clock::now();
  if (settings_.report && ranks_.first()) {
    run_info info{settings_.name, model_text_, device_text_, {}, {}};
    for (const std::string& line : opt_.overrides()) {
      const std::size_t equal = line.find('=');
      info.settings.emplace_back(line.substr(0, equal), line.substr(equal + 1));
    }
    for (const auto& line : plan_.table().lines) info.derived.emplace_back(line.name, line.number);
    write_report(root_ / "report.html", info, log_->rows());
  }
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
