// What surrounds the steps of every run: lock, resume, log, signals, progress, report.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/checkpoint/step_manifest.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/timeline.hpp"
#include "rlcore/device/arguments.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/telemetry/logger.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/telemetry/report/report.hpp"
#include "rlcore/train/files/run_settings.hpp"
#include "rlcore/train/files/save_checkpoint.hpp"
#include "rlcore/train/ranks/team.hpp"
#include "rlcore/train/run/interrupt.hpp"
#include "rlcore/train/run/open_log.hpp"

RLCORE_BEGIN
namespace train {

/// Where a run is, how it resumes, and what it writes besides checkpoints.
struct frame_settings {
  std::filesystem::path root;
  std::string resume_mode, resume_path;  ///< as of checkpoint::find_resume()
  log_settings log;
  bool report = true;  ///< whether report.html is written
};

/// A run has its models, its state and its steps; this is the rest, the same for all runs:
///
///   resume(data); open();
///   while (next(step, total, save)) { ...; if (due) this->save(step, epoch, save); end_step(step, epoch, due); }
///   finish();
///
/// `save` writes the checkpoint of the last step. All ranks make the same calls.
class run_frame {
 public:
  using action = std::function<void()>;

  progress bar;
  run_info info;  ///< of the report; its settings are those on the command line

  /// Locks the folder. `numbers` and `time` are those of the step. Everything must outlive this object. Throws
  /// config_error if another run has the folder.
  run_frame(const options& opt, frame_settings settings, const team& ranks, metrics& numbers, stages& time);
  ~run_frame();
  run_frame(const run_frame&) = delete;
  run_frame& operator=(const run_frame&) = delete;

  /// Finds the checkpoint to resume from, and checks its files; `data` describes the training rows. Throws config_error
  /// if that run had other settings or data, format_error if the checkpoint is damaged.
  const checkpoint::resume_point& resume(std::string data);
  const checkpoint::resume_point& from() const noexcept { return from_; }
  /// Prints that the run goes on after `step` of `total`, and the `notice` of what restored its model.
  void say_resumed(std::int64_t step, std::int64_t total, const std::string& notice) const;
  /// Opens the log, and writes the settings of a fresh run. `memory` is that of the device.
  void open(std::function<std::optional<memory_peaks>()> memory);
  logger& log() { return *log_; }

  /// Whether next() has been called.
  bool begun() const noexcept { return begun_; }
  /// Begins the step after `step` and counts it. False after the last of `total`, after stop(), and after a signal to
  /// any rank: then the last step is saved.
  bool next(std::int64_t& step, std::int64_t total, const action& save);
  /// The run ends early, for this reason.
  void stop(std::string why) { stopped_ = std::move(why); }
  /// Ends the run after `step` since a signal asked for it: saves it and says how to go on.
  void stop_for_signal(std::int64_t step, const action& save);
  /// The reason why the run ended before its last step; empty otherwise.
  const std::string& stopped() const noexcept { return stopped_; }

  /// Saves `step`, and logs its numbers before that: they are not lost with a run that ends while it saves.
  void save(std::int64_t step, std::int64_t epoch, const action& save);
  /// The same unless `step` has been saved, or is 0.
  void save_if_missing(std::int64_t step, const action& save) const;
  /// Sets timing_s/step. Comes before metrics that divide by it, and before end_step().
  void stop_clock();
  /// Logs the step. Writes the report if `report_now`, and at least every minute.
  void end_step(std::int64_t step, std::int64_t epoch, bool report_now);

  /// Writes the report, and prints why the run ended early and where the files are. Returns whether this rank writes
  /// files: then the caller prints more about them.
  bool finish();

 private:
  void write_current_report();
  /// Ends the file of rlcore.trace, after rlcore.trace_steps steps of this process or with the run.
  void end_trace();
  void count(metrics& m, std::int64_t step, std::int64_t epoch) const {
    m.set("training/global_step", step);
    m.set("training/epoch", epoch);
  }

  const options& opt_;
  frame_settings settings_;
  const team& ranks_;
  metrics& numbers_;
  stages& time_;
  checkpoint::folder_lock lock_;
  checkpoint::resume_point from_;
  std::string data_;
  std::optional<logger> log_;
  std::string stopped_;
  std::filesystem::path trace_;  ///< rlcore.trace, while it is recorded
  std::int64_t traced_ = 0;      ///< steps in it
  std::function<std::optional<memory_peaks>()> memory_;
  bool begun_ = false;
  std::chrono::steady_clock::time_point begin_, reported_;
  stop_signals signals_;
};

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_RUN)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE run_frame::run_frame(const options& opt, frame_settings settings, const team& ranks, metrics& numbers,
                                   stages& time)
    : bar(stderr, ranks.first() && isatty(fileno(stderr)) != 0),
      opt_(opt),
      settings_(std::move(settings)),
      ranks_(ranks),
      numbers_(numbers),
      time_(time),
      lock_(lock_run(settings_.root, opt, ranks.first())) {
  for (const std::string& line : opt.overrides()) {
    const std::size_t equal = line.find('=');
    info.settings.emplace_back(line.substr(0, equal), line.substr(equal + 1));
  }
}

RLCORE_INLINE const checkpoint::resume_point& run_frame::resume(std::string data) {
  data_ = std::move(data);
  from_ = checkpoint::find_resume(settings_.resume_mode, checkpoint::expand_home(settings_.resume_path).string(),
                                  settings_.root);
  ranks_.agree(from_.step, "checkpoint", settings_.root);
  if (from_) check_run_settings(settings_.root, opt_, data_);
  if (from_ && ranks_.first())
    if (const std::string note = checkpoint::check_step_manifest(from_.folder, from_.step); !note.empty())
      say("note: %s\n", note.c_str());
  if (!from_.notice.empty()) say("note: %s\n", from_.notice.c_str());
  return from_;
}

RLCORE_INLINE void run_frame::say_resumed(std::int64_t step, std::int64_t total, const std::string& notice) const {
  say("%s", resumed_text(opt_, step, total, from_.folder.string()).c_str());
  if (!notice.empty()) say("note: %s\n", notice.c_str());
}

RLCORE_INLINE void run_frame::open(std::function<std::optional<memory_peaks>()> memory) {
  memory_ = std::move(memory);
  if (const auto file = opt_.find<std::string>("rlcore.trace")) {
    const std::filesystem::path trace = checkpoint::expand_home(*file);
    if (ranks_.first()) timeline::create(trace);
    ranks_.least(1);  // every rank appends to it
    timeline::record_to(trace_ = trace);
  }
  open_log(log_, opt_, settings_.log, settings_.root, from_ ? from_.step : -1, ranks_.first());
  if (!from_ && ranks_.first()) write_run_settings(settings_.root, opt_, data_);
}

RLCORE_INLINE run_frame::~run_frame() {
  if (trace_.empty()) return;
  timeline::flush();
  timeline::stop();
}

RLCORE_INLINE void run_frame::end_trace() {
  if (trace_.empty()) return;
  bool good = ranks_.least(timeline::flush()) == 1;  // every rank has flushed
  timeline::stop();
  if (ranks_.first()) good = timeline::end(trace_) && good;
  say("%s", good ? ("trace       " + trace_.string() + " (ui.perfetto.dev shows it)\n").c_str()
                 : ("note: " + trace_.string() + ": not all of the trace could be written\n").c_str());
  trace_.clear();
}

RLCORE_INLINE bool run_frame::next(std::int64_t& step, std::int64_t total, const action& save) {
  if (!std::exchange(begun_, true)) bar.start(step, total);
  if (!stopped_.empty() || step >= total) return false;
  if (ranks_.least(asked_to_stop() == 0) == 0) {
    stop_for_signal(step, save);
    return false;
  }
  ++step;
  numbers_ = {}, time_ = {};
  begin_ = std::chrono::steady_clock::now();
  return true;
}

RLCORE_INLINE void run_frame::stop_for_signal(std::int64_t step, const action& save) {
  stopped_ = std::string(name_of_stop()) + " after step " + std::to_string(step);
  if (step > 0)
    stopped_ += "; " + resuming_text(opt_, settings_.resume_mode == "disable") + " to go on to the same bits";
  save_if_missing(step, save);
}

RLCORE_INLINE void run_frame::save_if_missing(std::int64_t step, const action& save) const {
  if (step == 0) return;
  const bool there = std::filesystem::exists(checkpoint::step_folder(settings_.root, step));
  if (!from_first(ranks_.world(), there)) save();
}

RLCORE_INLINE void run_frame::save(std::int64_t step, std::int64_t epoch, const action& save) {
  metrics so_far = numbers_;
  count(so_far, step, epoch);
  log_->announce(step, so_far);
  time_("save_checkpoint", [&] {
    bar.phase("checkpoint", 0, 0);
    save();
  });
}

RLCORE_INLINE void run_frame::stop_clock() {
  time_.add("step", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
}

RLCORE_INLINE void run_frame::end_step(std::int64_t step, std::int64_t epoch, bool report_now) {
  numbers_.set("perf/cpu_memory_used_gb", resident_memory_gib());
  if (const auto memory = memory_()) {
    numbers_.set("perf/max_memory_allocated_gb", static_cast<double>(ranks_.most(memory->allocated)) * 0x1p-30);
    numbers_.set("perf/max_memory_reserved_gb", static_cast<double>(ranks_.most(memory->reserved)) * 0x1p-30);
  }
  count(numbers_, step, epoch);
  bar.step_done(step);
  log_->write(step, numbers_, bar.pace());
  if (!trace_.empty() && ++traced_ >= opt_.get<std::int64_t>("rlcore.trace_steps"))
    end_trace();
  else if (!trace_.empty())
    timeline::flush();
  if (report_now || std::chrono::steady_clock::now() - reported_ > std::chrono::minutes(1)) write_current_report();
}

RLCORE_INLINE void run_frame::write_current_report() {
  reported_ = std::chrono::steady_clock::now();
  if (settings_.report && ranks_.first()) write_report(settings_.root / "report.html", info, log_->rows());
}

RLCORE_INLINE bool run_frame::finish() {
  bar.finish();
  end_trace();
  if (!stopped_.empty()) say("stopped     %s\n", stopped_.c_str());
  if (!ranks_.first()) return false;
  write_current_report();
  if (settings_.report) say("report      %s\n", (settings_.root / "report.html").c_str());
  say("metrics     %s\n", log_->path().c_str());
  return true;
}

}  // namespace train
RLCORE_END
#endif
