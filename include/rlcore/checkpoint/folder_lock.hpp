// Folder lock: only one run at a time writes into a folder.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

namespace detail {

inline std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

/// The process that wrote a run.lock.
struct lock_owner {
  std::string host, since;
  std::int64_t process = 0;

  std::string text() const {
    return "process " + std::to_string(process) + " on " + host + (since.empty() ? "" : " since " + since);
  }
};

/// The content of the file; no host if it is empty or damaged.
lock_owner read_owner(int file);

/// Seconds since the last touch of the file, by the clock of its file system: another host's clock may be wrong.
std::int64_t seconds_untouched(int file, const std::filesystem::path& folder);

}  // namespace detail

/// Holds `<folder>/run.lock` while it lives; the file names host and process. The kernel releases the lock of a killed
/// run. On file systems whose locks do not reach other hosts, or that have none, the holder touches the file every 10
/// s: a file untouched for a minute belongs to a dead run.
class folder_lock {
 public:
  static constexpr const char* name = "run.lock";

  /// Holds nothing: of a rank that writes no files.
  folder_lock() = default;

  /// Creates the folder, locks it and removes the remains of killed writers in it. Throws config_error, with `way_out`,
  /// if another run holds it; file_error.
  folder_lock(const std::filesystem::path& folder, std::string_view way_out);

 private:
  struct held {
    std::filesystem::path folder;
    bool created = false;
    data::descriptor file;
    std::mutex mutex;
    std::condition_variable wake;
    bool done = false;
    std::thread touches;

    void touch() {
      std::unique_lock<std::mutex> guard(mutex);
      while (!wake.wait_for(guard, std::chrono::seconds(10), [this] { return done; }))
        ::futimens(file.number(), nullptr);
    }

    ~held();
  };

  void lock(std::string_view way_out);

  /// Is the run that wrote the file still alive? On this host, holding the lock proves that it is not.
  bool lives(const detail::lock_owner& other, int file, bool locked) const {
    if (other.host == detail::host_name())
      return !locked && ::kill(static_cast<pid_t>(other.process), 0) == 0 && other.process != ::getpid();
    return detail::seconds_untouched(file, held_->folder) < 60;
  }

  void sign(int file) const;

  std::unique_ptr<held> held_;
};

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint::detail {

RLCORE_INLINE lock_owner read_owner(int file) {
  char text[1024];
  const ssize_t size = ::pread(file, text, sizeof text, 0);
  const auto json = text::try_parse_json(std::string_view(text, size < 0 ? 0 : static_cast<std::size_t>(size)));
  if (!json.is_object()) return {};
  const auto text_of = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? data::printable(found->template get<std::string>()) : "";
  };
  lock_owner owner{text_of("host"), text_of("since"), 0};
  if (const auto found = json.find("process"); found != json.end() && found->is_number_integer())
    owner.process = found->template get<std::int64_t>();
  return owner;
}

RLCORE_INLINE std::int64_t seconds_untouched(int file, const std::filesystem::path& folder) {
  const std::filesystem::path probe = temporary_sibling(folder / "run.lock");
  struct stat then{}, now{};
  ::unlink(probe.c_str());
  const data::descriptor fresh(probe, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, "create");
  const bool known = ::fstat(file, &then) == 0 && ::fstat(fresh.number(), &now) == 0;
  ::unlink(probe.c_str());
  return known ? static_cast<std::int64_t>(now.st_mtime) - static_cast<std::int64_t>(then.st_mtime) : 0;
}

}  // namespace checkpoint::detail

namespace checkpoint {

RLCORE_INLINE folder_lock::folder_lock(const std::filesystem::path& folder, std::string_view way_out)
    : held_(std::make_unique<held>()) {
  held_->folder = folder;
  std::error_code failure;
  held_->created = std::filesystem::create_directories(folder, failure);
  if (failure) throw file_error(folder.string() + ": cannot create the folder: " + failure.message());
  lock(way_out);
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure))
    if (is_abandoned_temporary(entry.path())) std::filesystem::remove_all(entry.path(), failure);
  held_->touches = std::thread([&h = *held_] { h.touch(); });
}

RLCORE_INLINE folder_lock::held::~held() {
  if (touches.joinable()) {
    {
      const std::lock_guard<std::mutex> guard(mutex);
      done = true;
    }
    wake.notify_all();
    touches.join();
    ::unlink((folder / name).c_str());  // before the lock goes with the descriptor
  }
  std::error_code ignored;
  if (created) std::filesystem::remove(folder, ignored);  // only if nothing was written: a run that was refused
}

RLCORE_INLINE void folder_lock::lock(std::string_view way_out) {
  const std::filesystem::path path = held_->folder / name;
  for (;;) {
    data::descriptor file(path, O_RDWR | O_CREAT | O_NOFOLLOW, "lock");
    const bool locked = ::flock(file.number(), LOCK_EX | LOCK_NB) == 0;
    const bool in_use = !locked && errno == EWOULDBLOCK;
    const detail::lock_owner other = detail::read_owner(file.number());
    if (in_use || (!other.host.empty() && lives(other, file.number(), locked)))
      throw config_error(held_->folder.string() + ": another run works in this folder" +
                         (other.host.empty() ? std::string() : ": " + other.text()) + " (" + name +
                         "); wait for its end, or " + std::string(way_out));
    struct stat ours{}, named{};
    if (::fstat(file.number(), &ours) != 0 || ::stat(path.c_str(), &named) != 0 || ours.st_ino != named.st_ino)
      continue;  // the holder has just removed it
    sign(file.number());
    held_->file = std::move(file);
    return;
  }
}

RLCORE_INLINE void folder_lock::sign(int file) const {
  char since[32] = {};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (::localtime_r(&now, &parts) != nullptr) std::strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", &parts);
  const std::string text =
      text::json_text(nlohmann::json{{"host", detail::host_name()}, {"process", ::getpid()}, {"since", since}}) + "\n";
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    data::throw_file_error(held_->folder / name, "write");
}

}  // namespace checkpoint
RLCORE_END
#endif
