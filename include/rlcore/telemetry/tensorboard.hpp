// TensorBoard's event files: one scalar per metric and step, written without TensorFlow.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "rlcore/core/error.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/set_aside.hpp"
#include "rlcore/telemetry/tensorboard/event.hpp"

RLCORE_BEGIN
namespace trainer {

/// Appends to <folder>/events.out.tfevents.<seconds>.<host>.<process>. A resumed run starts a new file, whose first
/// record revokes the later steps of earlier files. Every step is one record in one write, so a reader always sees
/// whole steps, however the run ends.
class tensorboard {
 public:
  static constexpr std::string_view prefix = "events.out.tfevents.";

  /// `resumed_step` < 0 means a fresh run; with `own_folder` the files of earlier runs go to earlier(). `kept` holds
  /// the rows of earlier steps; they are written again if the folder has no event file. Throws file_error.
  tensorboard(const std::filesystem::path& folder, std::int64_t resumed_step, bool own_folder,
              std::span<const metric_row> kept = {});
  tensorboard(const tensorboard&) = delete;
  tensorboard& operator=(const tensorboard&) = delete;
  ~tensorboard() {
    if (file_ >= 0) ::close(file_);
  }

  /// Throws file_error; the file then ends with the step before.
  void write(std::int64_t step, const metrics& m) {
    if (!m.empty()) append(event_record(scalars_event(wall_time(), step, m)));
  }
  const std::filesystem::path& path() const noexcept { return path_; }
  /// Where the files of earlier runs are now; empty if none was moved.
  const std::filesystem::path& earlier() const noexcept { return earlier_; }
  std::filesystem::path folder() const { return path_.parent_path(); }

 private:
  static std::chrono::system_clock::time_point now() { return std::chrono::system_clock::now(); }
  static double wall_time() { return std::chrono::duration<double>(now().time_since_epoch()).count(); }
  [[noreturn]] void fail(const char* action) const {
    throw file_error(path_.string() + ": cannot " + action + ": " + std::strerror(errno));
  }
  void append(std::string_view bytes);

  std::filesystem::path path_, earlier_;
  int file_ = -1;
};

/// The folder of a run's event files: `asked` if set, else $TENSORBOARD_DIR, else <folder>/tensorboard.
inline std::filesystem::path tensorboard_folder(const std::filesystem::path& folder, const std::string& asked) {
  if (!asked.empty()) return asked;
  const char* environment = std::getenv("TENSORBOARD_DIR");
  return environment != nullptr && *environment != '\0' ? std::filesystem::path(environment) : folder / "tensorboard";
}

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE tensorboard::tensorboard(const std::filesystem::path& folder, std::int64_t resumed_step, bool own_folder,
                                       std::span<const metric_row> kept) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw file_error(folder.string() + ": cannot create the folder: " + failure.message());
  if (own_folder && resumed_step < 0)
    earlier_ = set_aside(folder, [](const std::string& name) { return name.starts_with(prefix); });
  std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now().time_since_epoch()).count();
  bool earlier = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    earlier = true;
    std::int64_t other = 0;  // readers take the files in the order of their names
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), other);
    seconds = std::max(seconds, other + 1);
  }
  char host[256] = "host";
  if (gethostname(host, sizeof host) != 0) host[0] = '\0';
  host[sizeof host - 1] = '\0';
  path_ = folder / (std::string(prefix) + std::to_string(seconds) + "." + host + "." + std::to_string(::getpid()));
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) fail("create the file");
  std::string first = event_record(version_event(wall_time()));
  // Twice: one of TensorBoard's loaders takes the first such record of a folder for the start of the folder.
  for (int i = 0; earlier && i < 2; ++i)
    first += event_record(start_event(wall_time(), std::max<std::int64_t>(resumed_step + 1, 0)));
  append(first);
  if (!earlier)
    for (const metric_row& row : kept) write(row.step, row.values);
}

RLCORE_INLINE void tensorboard::append(std::string_view bytes) {
  const off_t before = ::lseek(file_, 0, SEEK_END);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t put = ::write(file_, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int reason = errno;
      if (before >= 0 && ::ftruncate(file_, before) != 0) {
        // The torn record stays: readers wait for its rest and show the records before it.
      }
      errno = reason;
      fail("write");
    }
    done += static_cast<std::size_t>(put);
  }
}

}  // namespace trainer
RLCORE_END
#endif
