// The supervised loop: rows, gradient, step, evaluation, checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/telemetry/logger.hpp"
#include "rlcore/telemetry/process_memory.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/telemetry/stages.hpp"
#include "rlcore/trainer/supervised/plan.hpp"
#include "rlcore/trainer/supervised/settings.hpp"
#include "rlcore/trainer/supervised/state.hpp"
#include "rlcore/trainer/supervised/task.hpp"

RLCORE_BEGIN
namespace trainer {

/// Everything a run is made of, opened and checked.
template <class Device, class Task>
struct supervised_run {
  const supervised_settings& settings;
  const supervised_plan& plan;
  trainable_model<Device>& model;
  Task& task;
  std::filesystem::path tokenizer_folder;  ///< whose files go into every checkpoint
  std::filesystem::path root;
  int ranks = 1;
};

/// One run of a task from `start` to its last step.
template <class Device, class Task>
requires supervised_task<Task, Device>
class supervised_loop {
 public:
  /// What `run` refers to, `log` and `bar` have to outlive the loop.
  supervised_loop(supervised_run<Device, Task> run, const supervised_state& start, logger& log, progress& bar)
      : run_(std::move(run)),
        rows_(run_.plan, run_.settings.seed, run_.settings.shuffle),
        log_(log),
        bar_(bar),
        state_(start) {
    if constexpr (requires { run_.task.watch(bar); }) run_.task.watch(bar);
  }

  /// Runs to the last step, which is always saved and, if there is something to evaluate, evaluated.
  void run() {
    const supervised_settings& s = run_.settings;
    if (s.test_before && state_.step == 0 && run_.plan.eval_rows > 0) {
      metrics m;
      stages time;
      test(m, time);
      log_.write(0, m);
    }
    bar_.start(state_.step, run_.plan.total_steps);
    while (state_.step < run_.plan.total_steps) {
      ++state_.step;
      metrics m;
      stages time;
      time("step", [&] { step(m, time); });
      for (const auto& [name, seconds] : time.entries()) m.set("timing_s/" + name, seconds);
      if (m.contains("perf/total_num_tokens"))
        m.set("perf/throughput", throughput(m.get("perf/total_num_tokens"), time.seconds("step"), run_.ranks));
      m.set("perf/cpu_memory_used_gb", resident_memory_gib());
      count(m);
      log_.write(state_.step, m);
      bar_.step_done(state_.step);
    }
    bar_.finish();
  }

  const supervised_state& state() const noexcept { return state_; }

 private:
  bool last() const noexcept { return state_.step == run_.plan.total_steps; }
  bool due(std::int64_t every) const noexcept { return last() || (every > 0 && state_.step % every == 0); }

  void count(metrics& m) const {
    m.set("training/global_step", state_.step);
    m.set("training/epoch", rows_.epoch_of(state_.step));
  }

  void test(metrics& m, stages& time) {
    bar_.phase("evaluation", 0, 0);
    time("testing", [&] { run_.task.evaluate(run_.model, m); });
  }

  void step(metrics& m, stages& time) {
    const supervised_settings& s = run_.settings;
    const double lr = s.lr * s.schedule.factor(state_.step - 1);
    time("update", [&] {
      bar_.phase("update", 0, 0);
      const std::vector<std::uint32_t> rows = rows_(state_.step);
      run_.model.begin_update();
      run_.task.update(run_.model, std::span<const std::uint32_t>(rows), m);
      const step_outcome outcome = run_.model.apply(lr, s.grad_clip);
      m.set("train/grad_norm", outcome.gradient_norm);
      if (outcome.skipped) {
        ++state_.skipped_updates;
        m.set("train/skipped_updates", 1);
      }
    });
    if (s.style == metric_style::verl) {
      m.set("train/lr(1e-3)", lr * 1e3);
      m.set("train/time(s)", time.seconds("update"));
    } else {
      m.set("train/lr", lr);
    }
    if (run_.plan.eval_rows > 0 && (due(s.test_freq) || (s.test_each_epoch && rows_.ends_epoch(state_.step))))
      test(m, time);
    if (due(s.save_freq)) {
      metrics so_far = m;
      count(so_far);
      log_.announce(state_.step, so_far);
      time("save_checkpoint", [&] {
        bar_.phase("checkpoint", 0, 0);
        save_supervised(run_.root, run_.model, run_.task, run_.tokenizer_folder, state_, s.keep);
      });
    }
  }

  supervised_run<Device, Task> run_;
  step_rows rows_;
  logger& log_;
  progress& bar_;
  supervised_state state_;
};

}  // namespace trainer
RLCORE_END
