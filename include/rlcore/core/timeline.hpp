// Time line of a run: spans of its parts by rank and thread, as trace events of Chrome and Perfetto.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace timeline {

using clock = std::chrono::steady_clock;

namespace detail {
/// What this process has recorded and not yet written.
struct recorder {
  std::mutex mutex;
  std::string events;
  std::filesystem::path file;
  int threads = 0, files = 0;
  bool failed = false;  ///< has something not been written?
};
inline recorder state;
inline std::atomic<bool> recording{false};

/// Of this thread: a process of the time line, and its name there; its number in the file number `file`.
struct place {
  int rank = 0;
  const char* name = "main";
  int number = 0, file = 0;
};
inline thread_local place here;

/// Appends `text` by one write, so that processes may share the file; `mode` is that of std::fopen.
inline bool append(const std::filesystem::path& file, const std::string& text, const char* mode = "ab") {
  std::FILE* const to = std::fopen(file.c_str(), mode);
  if (to == nullptr) return false;
  std::setvbuf(to, nullptr, _IONBF, 0);
  const bool good = std::fwrite(text.data(), 1, text.size(), to) == text.size();
  return (std::fclose(to) == 0) && good;
}
/// The number of this thread in the file. Its first call adds its names. The mutex is held.
inline int number_here() {
  if (std::exchange(here.file, state.files) == state.files) return here.number;
  here.number = state.threads++;
  const std::string place = R"(","ph":"M","pid":)" + std::to_string(here.rank) + R"(,"tid":)" +
                            std::to_string(here.number) + R"(,"args":{"name":")";
  state.events += R"({"name":"process_name)" + place + "rank " + std::to_string(here.rank) + "\"}},\n" +
                  R"({"name":"thread_name)" + place + here.name + "\"}},\n";
  return here.number;
}
}  // namespace detail

/// Is a time line being recorded?
inline bool on() noexcept { return detail::recording.load(std::memory_order_relaxed); }

/// Begins an empty file; afterwards each process that takes part calls record_to(). Throws file_error.
inline void create(const std::filesystem::path& file) {
  if (!detail::append(file, "[\n", "wb")) throw file_error(file.string() + ": cannot write");
}
/// Records from now on; flush() appends to `file`.
inline void record_to(const std::filesystem::path& file) {
  const std::lock_guard lock(detail::state.mutex);
  if (on()) return;
  detail::state.file = file, detail::state.events.clear(), ++detail::state.files, detail::state.threads = 0;
  detail::state.failed = false;
  detail::recording.store(true, std::memory_order_relaxed);
}
/// Writes what has been recorded. Returns whether all of the file could be written so far.
inline bool flush() {
  std::string events;
  std::filesystem::path file;
  {
    const std::lock_guard lock(detail::state.mutex);
    events.swap(detail::state.events), file = detail::state.file;
  }
  const bool good = events.empty() || detail::append(file, events);
  const std::lock_guard lock(detail::state.mutex);
  return !(detail::state.failed = detail::state.failed || !good);
}
/// Records no longer, and forgets what is not written.
inline void stop() noexcept { detail::recording.store(false, std::memory_order_relaxed); }
/// Ends a file after every process has flushed, so that it is valid JSON; without it readers of traces take it, too.
inline bool end(const std::filesystem::path& file) {
  return detail::append(file, R"({"name":"end of the trace","ph":"M","pid":0})"
                              "\n]\n");
}

/// The rank whose work this thread does, and the name of the thread beside others of that rank; `name` must outlive it.
inline void name_thread(int rank, const char* name) noexcept { detail::here.rank = rank, detail::here.name = name; }
/// That rank.
inline int rank_here() noexcept { return detail::here.rank; }

/// Adds a span of this thread, with a number such as "bytes".
inline void record(const char* name, clock::time_point begin, clock::time_point end, const char* key,
                   std::int64_t value) {
  const auto micros = [](auto t) { return std::chrono::duration<double, std::micro>(t).count(); };
  const std::lock_guard lock(detail::state.mutex);
  if (!on()) return;
  const int thread = detail::number_here();
  char text[256];
  const int n = std::snprintf(text, sizeof text,
                              R"({"name":"%s","ph":"X","pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f,"args":{"%s":%lld}},)"
                              "\n",
                              name, detail::here.rank, thread, micros(begin.time_since_epoch()), micros(end - begin),
                              key, static_cast<long long>(value));
  if (n > 0 && n < static_cast<int>(sizeof text)) detail::state.events.append(text, static_cast<std::size_t>(n));
}

/// Records its lifetime, if a time line is recorded. The name and the key must outlive it and need no escape in JSON.
class span {
 public:
  explicit span(const char* name, const char* key = "n", std::int64_t value = 1)
      : name_(on() ? name : nullptr), key_(key), value_(value) {
    if (name_) begin_ = clock::now();
  }
  span(const span&) = delete;
  span& operator=(const span&) = delete;
  ~span() {
    if (name_) record(name_, begin_, clock::now(), key_, value_);
  }

 private:
  const char *name_, *key_;
  std::int64_t value_;
  clock::time_point begin_;
};

}  // namespace timeline
RLCORE_END
