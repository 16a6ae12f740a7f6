// Metrics of a step, as a table and as a line of the console.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "rlcore/core/error.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/telemetry/metrics.hpp"

RLCORE_BEGIN
namespace train {

/// Progress of a run: its steps, and the seconds left (negative: not known yet).
struct run_pace {
  std::int64_t total_steps = 0;
  double seconds_left = -1;
};

/// A real number in at most `width` letters: `decimals` digits behind the point, fewer if there is no room, and powers
/// of ten for values that would show as 0.
std::string column_number(double x, int decimals, int width);

/// Seconds in at most six letters: "0.42s", "12.3s", "5m07s", "3h20m", "5d03h", "120d".
std::string column_seconds(double seconds);

/// A count in at most six letters: "987", "1.23k", "45.6k", "1.23M"; "-" if it is not a count.
std::string column_count(double x);

/// Prints headings above the first line, after every 20 lines, and when a column is added or changes.
class step_table {
 public:
  /// The line of a step with its line end, followed by its validation lines. A row without a step (a validation before
  /// the first) has only the latter. Empty for a row with neither.
  std::string lines(std::int64_t step, const metrics& m, const run_pace& pace) {
    return (m.contains("timing_s/step") ? step_lines(step, m, pace) : std::string()) + validation_lines(m);
  }

 private:
  enum class unit { real, count };
  /// Candidates of a column: the first of these metrics that a row has is shown.
  struct source {
    std::string_view heading, metric;
  };
  struct column {
    int width, decimals;
    unit kind;
    std::array<source, 4> sources;
  };
  static constexpr column columns[] = {
      {7, 3, unit::real, {{{"reward", "critic/rewards/mean"}}}},
      {6, 0, unit::count, {{{"length", "response_length/mean"}}}},
      {8,
       4,
       unit::real,
       {{{"loss", "actor/pg_loss"}, {"loss", "train/loss"}, {"loss", "train/kto_loss"}, {"loss", "train/prm_loss"}}}},
      {6, 3, unit::real, {{{"acc", "train/acc"}}}},
      {8,
       5,
       unit::real,
       {{{"KL", "actor/kl_loss"}, {"KL", "actor/reward_kl_penalty"}, {"KL", "train/kl"}, {"old KL", "actor/ppo_kl"}}}},
      {7, 3, unit::real, {{{"entropy", "actor/entropy"}}}},
      {7, 3, unit::real, {{{"grad", "actor/grad_norm"}, {"grad", "train/grad_norm"}}}},
  };
  static constexpr std::size_t count_of_columns = std::size(columns);
  static constexpr int lines_per_heading = 20;

  /// `text` with its end in column `width`, behind a blank.
  static std::string cell(std::string_view text, std::size_t width) {
    return std::string(1 + (width > text.size() ? width - text.size() : 0), ' ') + std::string(text);
  }

  /// Selects the columns present in the row; true if one is new or shows a different metric than before.
  bool find_columns(const metrics& m);

  std::string step_lines(std::int64_t step, const metrics& m, const run_pace& pace);

  std::string headings() const;

  /// val-core/*, val/loss and eval/* in lines of less than 80 columns.
  static std::string validation_lines(const metrics& m);

  std::array<const source*, count_of_columns> shown_{};
  int lines_ = 0;
};

/// How steps are printed.
enum class console_style {
  automatic,  ///< brief on a terminal, else verl
  brief,      ///< a table with one short line per step; verl's lines go to console.log in the folder of the run
  verl        ///< one line with all metrics
};

/// The style named by rlcore.console; automatic for any other word.
inline console_style named_console_style(std::string_view word) noexcept {
  return word == "short" ? console_style::brief : word == "verl" ? console_style::verl : console_style::automatic;
}

/// Prints the steps of one run to stdout.
class step_console {
 public:
  /// With the brief style verl's lines go to folder/console.log, which begins with those of `earlier` rows; not if
  /// `folder` is empty. Throws file_error.
  step_console(console_style style, const std::filesystem::path& folder, std::span<const metric_row> earlier)
      : terminal_(isatty(STDOUT_FILENO) != 0 && isatty(STDERR_FILENO) != 0), brief_(style == console_style::brief) {
    // mpirun gives its ranks a terminal for stdout wherever its own output goes, but none for stderr.
    if (style == console_style::automatic)
      brief_ = terminal_ || (isatty(STDOUT_FILENO) != 0 && parallel::ranks_of_environment() == 1);
    if (!brief_ || folder.empty()) return;
    path_ = folder / "console.log";
    file_.open(path_, std::ios::trunc);
    for (const metric_row& row : earlier) file_ << console_line(row.step, row.values) << '\n';
    flush();
  }

  /// Prints a step, and appends it to console.log where there is one. Throws file_error.
  void write(std::int64_t step, const metrics& m, const run_pace& pace) {
    const std::string full = console_line(step, m) + "\n";
    // A progress line may stand on the terminal: clear it first.
    std::fprintf(stdout, "%s%s", terminal_ ? "\r\033[2K" : "", (brief_ ? table_.lines(step, m, pace) : full).c_str());
    std::fflush(stdout);
    if (path_.empty()) return;
    file_ << full;
    flush();
  }

  /// The file of verl's lines; empty if there is none.
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void flush() {
    if (!file_.flush()) throw file_error(path_.string() + ": cannot write: " + std::strerror(errno));
  }

  bool terminal_, brief_;
  std::filesystem::path path_;
  std::ofstream file_;
  step_table table_;
};

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::string column_number(double x, int decimals, int width) {
  char text[64];
  double smallest = 0.5;
  for (int d = 0; d < decimals; ++d) smallest /= 10;
  int length = width + 1;
  if (x == 0 || !std::isfinite(x) || std::abs(x) >= smallest)
    for (int d = decimals; d >= 0 && length > width; --d)
      length = std::snprintf(text, sizeof text, "%.*f", std::isfinite(x) ? d : 0, x);
  if (length > width) length = std::snprintf(text, sizeof text, "%.1e", x);
  if (length > width) std::snprintf(text, sizeof text, "%.0e", x);
  return text;
}

RLCORE_INLINE std::string column_seconds(double seconds) {
  char text[64];
  if (!(seconds >= 0)) return "-";
  const auto whole = static_cast<long long>(std::min(seconds, 1e12) + 0.5);
  if (seconds < 9.995) {
    std::snprintf(text, sizeof text, "%.2fs", seconds);
  } else if (seconds < 59.95) {
    std::snprintf(text, sizeof text, "%.1fs", seconds);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof text, "%lldm%02llds", whole / 60, whole % 60);
  } else if (whole < 100 * 3600) {
    std::snprintf(text, sizeof text, "%lldh%02lldm", whole / 3600, whole / 60 % 60);
  } else if (whole < 100 * 86400) {
    std::snprintf(text, sizeof text, "%lldd%02lldh", whole / 86400, whole / 3600 % 24);
  } else {
    std::snprintf(text, sizeof text, "%lldd", std::min(whole / 86400, 99999LL));
  }
  return text;
}

RLCORE_INLINE std::string column_count(double x) {
  if (!(x >= 0 && x < 1e15)) return "-";
  constexpr const char* units[] = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  for (; x >= 999.5 && unit + 1 < std::size(units); ++unit) x /= 1000;
  char text[64];
  const int decimals = unit == 0 || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f%s", decimals, x, units[unit]);
  return text;
}

RLCORE_INLINE bool step_table::find_columns(const metrics& m) {
  bool changed = false;
  for (std::size_t i = 0; i < count_of_columns; ++i)
    for (const source& s : columns[i].sources)
      if (!s.metric.empty() && m.contains(s.metric)) {
        changed = changed || shown_[i] != &s;
        shown_[i] = &s;
        break;
      }
  return changed;
}

RLCORE_INLINE std::string step_table::step_lines(std::int64_t step, const metrics& m, const run_pace& pace) {
  std::string out;
  if (find_columns(m) || lines_ % lines_per_heading == 0) out = headings(), lines_ = 0;
  ++lines_;
  const std::string of = pace.total_steps > 0 ? "/" + std::to_string(pace.total_steps) : "";
  const std::string place = std::to_string(step) + of;
  out += cell(place.size() <= 7 ? place : std::to_string(step), 7).substr(1);
  for (std::size_t i = 0; i < count_of_columns; ++i) {
    if (shown_[i] == nullptr) continue;
    const column& c = columns[i];
    const double x = m.get(shown_[i]->metric);
    const std::string number = !m.contains(shown_[i]->metric) ? "-"
                               : c.kind == unit::count        ? column_count(x)
                                                              : column_number(x, c.decimals, c.width);
    out += cell(number, static_cast<std::size_t>(c.width));
  }
  const double seconds = m.get("timing_s/step");
  return out + cell(column_seconds(seconds), 6) + cell(column_count(m.get("perf/total_num_tokens") / seconds), 6) +
         cell(column_seconds(pace.seconds_left), 6) + "\n";
}

RLCORE_INLINE std::string step_table::headings() const {
  std::string out = "   step";
  for (std::size_t i = 0; i < count_of_columns; ++i)
    if (shown_[i] != nullptr) out += cell(shown_[i]->heading, static_cast<std::size_t>(columns[i].width));
  return out + cell("time", 6) + cell("tok/s", 6) + cell("left", 6) + "\n";
}

RLCORE_INLINE std::string step_table::validation_lines(const metrics& m) {
  constexpr std::string_view begin = "        validation:";
  std::string out, line;
  for (const auto& [name, x] : m) {
    if (!name.starts_with("val-core/") && !name.starts_with("val/") && !name.starts_with("eval/")) continue;
    const std::string part = name.substr(name.find('/') + 1) + " " + column_number(m.get(name), 4, 9);
    if (!line.empty() && line.size() + 2 + part.size() > 79) out += line + "\n", line.clear();
    line += line.empty() ? std::string(begin) + " " + part : ", " + part;
  }
  return line.empty() ? out : out + line + "\n";
}

}  // namespace train
RLCORE_END
#endif
