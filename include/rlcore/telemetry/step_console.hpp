// Console output of a step: a compact table on a terminal, verl's lines otherwise.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "rlcore/core/error.hpp"
#include "rlcore/parallel/environment.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/step_table.hpp"

RLCORE_BEGIN
namespace trainer {

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

}  // namespace trainer
RLCORE_END
