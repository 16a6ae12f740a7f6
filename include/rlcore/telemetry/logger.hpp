// Metrics logger: the console, one JSON object per step in metrics.jsonl, TensorBoard event files.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/step_table.hpp"
#include "rlcore/telemetry/tensorboard.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/text_file.hpp"

RLCORE_BEGIN
namespace train {

/// One line of metrics.jsonl: {"step": N, name: number, ...}; a number that is not finite is null.
std::string json_line(std::int64_t step, const metrics& m);

/// The most names of metrics in a file: comparisons and charts read all rows for each name.
inline constexpr std::size_t most_metric_names = std::size_t{1} << 14;

/// Reads metrics.jsonl, also verl's, which has the numbers in "data"; null is NaN. Drops a last line that a write left
/// incomplete; any other damage throws format_error with the line. A file that does not exist has no rows.
std::vector<metric_row> read_metric_rows(const std::filesystem::path& path);

/// Writes the metrics of each step to the console, to metrics.jsonl and to event files.
class logger {
 public:
  /// `names` as in trainer.logger: "console" prints, "tensorboard" writes event files (see tensorboard_folder()).
  /// Without "console", "file" and "tensorboard" everything goes to the console. folder/metrics.jsonl is always
  /// written, because the report needs it; an empty `folder` means no files. A run that continues after `resumed_step`
  /// keeps the rows up to that step; a fresh run (negative) starts anew. Dropped rows stay in earlier(). A non-empty
  /// `events_folder` also asks for event files. Throws file_error.
  logger(const std::vector<std::string>& names, const std::filesystem::path& folder, std::int64_t resumed_step = -1,
         const std::string& events_folder = {}, console_style style = console_style::automatic);
  logger(const logger&) = delete;
  logger& operator=(const logger&) = delete;
  ~logger() {
    if (file_ != nullptr) std::fclose(file_);
  }

  /// Writes the metrics of a step so far to the files only; write() replaces the row. A step calls this before it saves
  /// a checkpoint: if the run is killed then, the row is not lost. Throws file_error.
  void announce(std::int64_t step, const metrics& m);
  /// Prints the step, appends it to the files and flushes them. A step that is written again (a validation of a resumed
  /// run) adds to its row. `pace` is for the console. Throws file_error.
  void write(std::int64_t step, const metrics& m, const run_pace& pace = {});

  /// All rows of the run, including those before a resume.
  const std::vector<metric_row>& rows() const noexcept { return rows_; }
  const std::filesystem::path& path() const noexcept { return path_; }
  /// The folder of the event files; empty if there are none.
  std::filesystem::path events() const { return tensorboard_ ? tensorboard_->folder() : std::filesystem::path(); }
  /// The file with rows moved out of metrics.jsonl: those of an earlier run, or of steps after the resumed one.
  /// metrics.1.jsonl, or the next free number; empty if no rows were moved.
  const std::filesystem::path& earlier() const noexcept { return earlier_; }
  /// The folder of an earlier run's event files; empty if it had none.
  std::filesystem::path earlier_events() const {
    return tensorboard_ ? tensorboard_->earlier() : std::filesystem::path();
  }
  /// The file of the console's full lines, if the console itself has short ones; else empty.
  std::filesystem::path console_log() const { return console_ ? console_->path() : std::filesystem::path(); }

 private:
  std::filesystem::path free_name() const;
  void set_all_aside();
  void take_rows(std::int64_t last_step);
  [[noreturn]] void fail(const char* action) const {
    throw file_error(path_.string() + ": cannot " + action + ": " + std::strerror(errno));
  }
  void open(const std::filesystem::path& path, const char* mode) {
    file_ = std::fopen(path.c_str(), mode);
    if (file_ == nullptr) fail("open the file");
  }
  void append(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0) fail("write");
  }
  /// Rewrites the file with all rows.
  void write_all();
  /// Overwrites the announced row in one call, so the file holds one of the two rows at every moment.
  void replace(std::string line);
  void close() {
    if (std::fclose(std::exchange(file_, nullptr)) != 0) fail("write");
  }

  std::optional<step_console> console_;
  std::size_t announced_ = 0;  // length of the announced row at the end of the file; 0: there is none
  std::filesystem::path path_, earlier_;
  std::FILE* file_ = nullptr;
  std::optional<tensorboard> tensorboard_;
  metrics early_;  // the metrics of announce()
  std::vector<metric_row> rows_;
};

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::string json_line(std::int64_t step, const metrics& m) {
  nlohmann::ordered_json row;
  row["step"] = step;
  for (const auto& [name, x] : m) {
    if (const double* real = std::get_if<double>(&x)) {
      row[name] = *real;
    } else {
      row[name] = std::get<std::int64_t>(x);
    }
  }
  return text::json_text(row);
}

RLCORE_INLINE std::vector<metric_row> read_metric_rows(const std::filesystem::path& path) {
  text::check_input_kind(path);
  std::vector<metric_row> rows;
  std::set<std::string> names;
  std::ifstream file(path);
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    const bool cut_off = file.eof();  // no line end
    const auto json = text::try_parse_json<nlohmann::ordered_json>(line);
    const auto beyond = [](const auto& x) {  // an integer that 64 bits with a sign do not hold
      return x.is_number_unsigned() && !std::in_range<std::int64_t>(x.template get<std::uint64_t>());
    };
    const bool good =
        json.is_object() && json.contains("step") && json["step"].is_number_integer() && !beyond(json["step"]);
    if (!good && cut_off) break;
    if (!good)
      throw format_error(path.string() + ": line " + std::to_string(number) +
                         " is no JSON object with an integer \"step\"");
    metric_row row{json["step"].get<std::int64_t>(), {}};
    const bool nested = json.contains("data") && json["data"].is_object();
    for (const auto& [name, x] : (nested ? json["data"] : json).items()) {
      if (name == "step") continue;
      if (names.insert(name).second && names.size() > most_metric_names)
        throw format_error(path.string() + ": line " + std::to_string(number) + ": more than " +
                           std::to_string(most_metric_names) + " different metrics");
      if (x.is_number_integer() && !beyond(x))
        row.values.set(name, x.template get<std::int64_t>());
      else if (x.is_number())
        row.values.set(name, x.template get<double>());
      else if (x.is_null())
        row.values.set(name, std::numeric_limits<double>::quiet_NaN());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

RLCORE_INLINE logger::logger(const std::vector<std::string>& names, const std::filesystem::path& folder,
                             std::int64_t resumed_step, const std::string& events_folder, console_style style) {
  const auto named = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  const bool prints = named("console") || !(named("file") || named("tensorboard"));
  if (folder.empty()) {
    if (prints) console_.emplace(style, folder, rows_);
    return;
  }
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw file_error(folder.string() + ": cannot create the folder: " + failure.message());
  path_ = folder / "metrics.jsonl";
  resumed_step < 0 ? set_all_aside() : take_rows(resumed_step);
  write_all();
  if (prints) console_.emplace(style, folder, rows_);
  if (named("tensorboard") || !events_folder.empty()) {
    const std::filesystem::path events = tensorboard_folder(folder, events_folder);
    tensorboard_.emplace(events, resumed_step, events == folder / "tensorboard", rows_);
  }
}

RLCORE_INLINE void logger::announce(std::int64_t step, const metrics& m) {
  if (file_ == nullptr || announced_ > 0) return;
  const std::string line = json_line(step, m) + "\n";
  append(line);
  announced_ = line.size();
  if (tensorboard_) tensorboard_->write(step, m);
  early_ = m;
}

RLCORE_INLINE void logger::write(std::int64_t step, const metrics& m, const run_pace& pace) {
  if (console_) console_->write(step, m, pace);
  const bool again = !rows_.empty() && rows_.back().step == step;
  if (tensorboard_) {
    metrics fresh;  // one point per metric and step
    for (const auto& [name, x] : m)
      if (!early_.contains(name) && !(again && rows_.back().values.contains(name))) fresh.set(name, x);
    tensorboard_->write(step, fresh);
  }
  early_ = {};
  if (again) {
    rows_.back().values.merge(m);
    announced_ = 0;
    if (file_ != nullptr) write_all();
    return;
  }
  rows_.push_back({step, m});
  if (file_ != nullptr) announced_ > 0 ? replace(json_line(step, m)) : append(json_line(step, m) + "\n");
}

RLCORE_INLINE std::filesystem::path logger::free_name() const {
  std::filesystem::path name;
  for (int n = 1; name.empty() || std::filesystem::exists(name); ++n)
    name = path_.parent_path() / ("metrics." + std::to_string(n) + ".jsonl");
  return name;
}

RLCORE_INLINE void logger::set_all_aside() {
  std::error_code failure;
  if (const auto bytes = std::filesystem::file_size(path_, failure); failure || bytes == 0) return;
  earlier_ = free_name();
  std::filesystem::rename(path_, earlier_, failure);
  const std::filesystem::path lines = path_.parent_path() / "console.log";
  const std::string number = earlier_.stem().extension().string();
  if (!failure && std::filesystem::exists(lines))
    std::filesystem::rename(lines, path_.parent_path() / ("console" + number + ".log"), failure);
  if (failure) throw file_error(path_.string() + ": cannot rename the file: " + failure.message());
}

RLCORE_INLINE void logger::take_rows(std::int64_t last_step) {
  std::string later;
  for (metric_row& row : read_metric_rows(path_)) {
    if (row.step > last_step)
      later += json_line(row.step, row.values) + "\n";
    else
      rows_.push_back(std::move(row));
  }
  if (later.empty()) return;
  earlier_ = free_name();
  checkpoint::write_file_atomically(earlier_, later);
}

RLCORE_INLINE void logger::write_all() {
  if (file_ != nullptr) close();
  const std::filesystem::path fresh = path_.string() + ".new";
  open(fresh, "w");
  for (const metric_row& row : rows_) append(json_line(row.step, row.values) + "\n");
  close();
  std::error_code failure;
  std::filesystem::rename(fresh, path_, failure);
  if (failure) throw file_error(path_.string() + ": cannot replace the file: " + failure.message());
  open(path_, "a");
}

RLCORE_INLINE void logger::replace(std::string line) {
  line.resize(std::max(line.size(), announced_ - 1), ' ');
  line += '\n';
  const int file = ::open(path_.c_str(), O_WRONLY);  // the stream's own descriptor can only append
  const off_t end = file < 0 ? -1 : lseek(file, 0, SEEK_END);
  const bool good = end >= 0 && pwrite(file, line.data(), line.size(), end - static_cast<off_t>(announced_)) ==
                                    static_cast<ssize_t>(line.size());
  const int reason = errno;
  if (file >= 0) ::close(file);
  errno = reason;
  if (!good) fail("write");
  announced_ = 0;
}

}  // namespace train
RLCORE_END
#endif
