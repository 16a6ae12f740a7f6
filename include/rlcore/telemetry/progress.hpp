// Progress line on the terminal: step, phase, time left. Prints nothing if stderr is not a terminal.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "rlcore/telemetry/step_table.hpp"

RLCORE_BEGIN
namespace train {

/// 75 -> "1:15", 3675 -> "1:01:15"; 1e15 seconds at most.
std::string duration_text(double seconds);

/// "step 12/58  rollout 34/640  1:15 left"; parts that are not known (0, negative) are left out.
std::string progress_line(std::int64_t step, std::int64_t total, std::string_view phase, std::size_t done,
                          std::size_t of, double seconds_left);

/// The progress line, drawn at most every 100 ms within a phase.
class progress {
 public:
  /// Draws on `out`; by default only if it is a terminal.
  explicit progress(std::FILE* out = stderr) : progress(out, isatty(fileno(out)) != 0) {}
  /// Draws on `out` if `live`, else nowhere.
  progress(std::FILE* out, bool live) : out_(out), live_(live) {}
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress() { finish(); }

  /// `step` steps of `total` are done; the time left is estimated from the steps that follow.
  void start(std::int64_t step, std::int64_t total) {
    first_ = step_ = step;
    total_ = total;
    started_ = clock::now();
  }
  /// Sets the phase of the current step; `of` = 0 if it cannot be counted.
  void phase(std::string_view name, std::size_t done, std::size_t of);
  /// Step `step` is done: the time left follows from the mean time of the steps since start().
  void step_done(std::int64_t step);
  /// Progress of the run as shown by the line.
  run_pace pace() const { return {total_, step_ > first_ ? std::max(0.0, seconds_left(clock::now())) : -1}; }
  /// Wipes the line.
  void finish();

 private:
  using clock = std::chrono::steady_clock;

  double seconds_left(clock::time_point now) const;
  void draw(std::string line);

  std::FILE* out_;
  bool live_, shown_ = false;
  std::int64_t first_ = 0, step_ = 0, total_ = 0;
  std::string phase_;
  clock::time_point started_ = clock::now(), drawn_{};
  double seconds_per_step_ = 0;
};

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::min(std::max(0.0, seconds), 1e15) + 0.5);
  char text[48];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld", whole / 60, whole % 60);
  }
  return text;
}

RLCORE_INLINE std::string progress_line(std::int64_t step, std::int64_t total, std::string_view phase, std::size_t done,
                                        std::size_t of, double seconds_left) {
  std::string line;
  if (total > 0) line = "step " + std::to_string(step) + "/" + std::to_string(total);
  if (!phase.empty()) line += (line.empty() ? "" : "  ") + std::string(phase);
  if (of > 0) line += " " + std::to_string(done) + "/" + std::to_string(of);
  if (seconds_left >= 0) line += "  " + duration_text(seconds_left) + " left";
  return line;
}

RLCORE_INLINE void progress::phase(std::string_view name, std::size_t done, std::size_t of) {
  if (!live_) return;
  const clock::time_point now = clock::now();
  const bool same = name == phase_;
  if (same && done != of && now - drawn_ < std::chrono::milliseconds(100)) return;  // fast enough for a display
  phase_ = name;
  draw(progress_line(std::min(step_ + 1, total_), total_, phase_, done, of, seconds_left(now)));
  drawn_ = now;
}

RLCORE_INLINE void progress::step_done(std::int64_t step) {
  step_ = step;
  seconds_per_step_ =
      std::chrono::duration<double>(clock::now() - started_).count() / static_cast<double>(step_ - first_);
  phase_.clear();
}

RLCORE_INLINE void progress::finish() {
  if (live_ && shown_) {
    std::fputs("\r\033[2K", out_);
    std::fflush(out_);
  }
  shown_ = false;
}

RLCORE_INLINE double progress::seconds_left(clock::time_point now) const {
  if (step_ <= first_) return -1;
  const double in_step =
      std::chrono::duration<double>(now - started_).count() - seconds_per_step_ * static_cast<double>(step_ - first_);
  return seconds_per_step_ * static_cast<double>(total_ - step_) - std::min(in_step, seconds_per_step_);
}

RLCORE_INLINE void progress::draw(std::string line) {
  winsize size{};
  if (ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && line.size() >= size.ws_col)
    line.resize(size.ws_col - 1u);
  // The cursor goes back to the start of the line, so that whatever is printed next replaces it.
  std::fprintf(out_, "\r\033[2K%s\r", line.c_str());
  std::fflush(out_);
  shown_ = true;
}

}  // namespace train
RLCORE_END
#endif
