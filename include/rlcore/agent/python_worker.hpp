// A process that runs tools or environments written in Python, and the thread that talks to it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/agent/line_process.hpp"
#include "rlcore/agent/tool.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace agent {

/// How python_host runs its processes.
struct python_host_settings {
  double timeout_s = 60;       ///< of a call
  std::int64_t processes = 1;  ///< at least 1
  double grace_s = 5;          ///< a process that does not answer that long after the timeout is killed
};

namespace detail {

/// Atomic host_counts.
struct shared_counts {
  std::atomic<std::int64_t> calls{0}, errors{0}, timeouts{0}, restarts{0};
};

/// One process with the tools or environments, and the thread that starts it, talks to it and starts it again.
class python_worker {
 public:
  /// Starts the thread. `load`: the first line for a process; for messages: `file`, and `noun` for what it runs.
  python_worker(std::string file, std::string load, std::string noun, const python_host_settings& settings,
                shared_counts& counts);
  python_worker(const python_worker&) = delete;
  python_worker& operator=(const python_worker&) = delete;
  ~python_worker();

  /// Makes the thread end the process, once what post() has sent is done or the grace is over. No call is open.
  void stop();

  /// Waits until the classes are loaded. Their schemas. Throws config_error.
  nlohmann::ordered_json schemas();

  /// The process's answer to a JSON object, which has no "id" yet. Throws as python_host::call().
  nlohmann::ordered_json call(const nlohmann::ordered_json& request);

  /// A call whose answer is of no interest; none if no process is there.
  void post(const nlohmann::ordered_json& request);

 private:
  using clock = std::chrono::steady_clock;
  static clock::duration duration_of(double seconds) {
    return std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
  }
  enum class outcome { none, reply, tool_error, broken, fault };
  struct open_call {
    std::string line;                                       // empty: has been sent
    clock::time_point deadline = clock::time_point::max();  // once sent
    outcome how = outcome::none;
    nlohmann::ordered_json answer;
    std::string text;  // of an error
    std::condition_variable ended;
  };

  /// Puts a call into the queue; mutex_ is held.
  std::shared_ptr<open_call> enqueue(const std::string& members);
  void run();
  /// True if the thread is to end; mutex_ is held.
  bool is_over() const { return stopping_ && (open_.empty() || process_ == nullptr || clock::now() >= stop_by_); }
  /// Starts a process and loads the classes; where that fails, ends the open calls.
  void start();
  /// Waits until the classes are loaded. Why they cannot be; empty if they are or the process has ended once more.
  std::string load();
  /// Sends the calls that wait for it. The seconds until the first deadline.
  double send();
  void take(const std::string& line);
  /// Ends a call; mutex_ is held.
  void end(open_call& call, outcome how, std::string text);
  void end_all(outcome how, const std::string& text);
  /// Ends all calls if one of them is overdue, and the process with them.
  void stop_if_late();
  void died(const std::string& how);

  const std::string file_, load_, noun_;
  const python_host_settings settings_;
  shared_counts& counts_;
  wake_pipe wake_;

  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<open_call>> open_;  // the oldest first: its deadline is the next
  std::uint64_t next_id_ = 0;
  bool stopping_ = false, loaded_ = false, alive_ = false;  // alive_: process_ is there and has loaded
  clock::time_point stop_by_;
  std::string load_failure_;
  nlohmann::ordered_json schemas_;
  std::condition_variable changed_;  // loaded_, open_ or stopping_

  std::unique_ptr<line_process> process_;  // these three belong to the thread
  int deaths_ = 0;                         // since the last answer
  std::uint64_t unsent_ = 0;               // the id of the first call that has not been sent
  std::thread thread_;
};

}  // namespace detail

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <algorithm>
#include <charconv>

#include "rlcore/agent/python_host_script.hpp"
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace agent {
namespace detail {

/// For importing the modules of tools and environments.
inline constexpr std::chrono::seconds python_load_time{300};

/// The longest answer of a process.
inline constexpr std::size_t python_longest_line = std::size_t{64} << 20;

/// A duration as Python prints it without a trailing ".0".
RLCORE_INLINE std::string seconds_text(double seconds) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, seconds).ptr};
}

RLCORE_INLINE python_worker::python_worker(std::string file, std::string load, std::string noun,
                                           const python_host_settings& settings, shared_counts& counts)
    : file_(std::move(file)), load_(std::move(load)), noun_(std::move(noun)), settings_(settings), counts_(counts) {
  thread_ = std::thread([this] { run(); });  // it starts the processes: they die with the thread that does
}

RLCORE_INLINE python_worker::~python_worker() {
  stop();
  thread_.join();
}

RLCORE_INLINE void python_worker::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) stop_by_ = clock::now() + duration_of(std::min(settings_.grace_s, 1e9));
    stopping_ = true;
  }
  changed_.notify_all();
  wake_.ring();
}

RLCORE_INLINE nlohmann::ordered_json python_worker::schemas() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return loaded_; });
  if (!load_failure_.empty()) throw config_error(load_failure_);
  return schemas_;
}

RLCORE_INLINE auto python_worker::enqueue(const std::string& members) -> std::shared_ptr<open_call> {
  const std::uint64_t id = next_id_++;
  auto made = std::make_shared<open_call>();
  made->line = "{\"id\":" + std::to_string(id) + "," + members;
  open_.emplace(id, made);
  changed_.notify_all();
  wake_.ring();
  return made;
}

RLCORE_INLINE nlohmann::ordered_json python_worker::call(const nlohmann::ordered_json& request) {
  const std::string members = text::exact_dump(request).substr(1) + "\n";
  std::unique_lock lock(mutex_);
  const std::shared_ptr<open_call> mine = enqueue(members);
  mine->ended.wait(lock, [&] { return mine->how != outcome::none; });
  if (mine->how == outcome::reply) return std::move(mine->answer);
  if (mine->how == outcome::tool_error) throw tool_error(mine->text);
  if (mine->how == outcome::broken) throw tool_broken(mine->text);
  throw error(mine->text);
}

RLCORE_INLINE void python_worker::post(const nlohmann::ordered_json& request) {
  const std::string members = text::exact_dump(request).substr(1) + "\n";
  const std::lock_guard lock(mutex_);
  if (alive_) enqueue(members);
}

RLCORE_INLINE void python_worker::run() {
  start();
  {
    const std::lock_guard lock(mutex_);
    loaded_ = true;
  }
  changed_.notify_all();
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (process_ == nullptr) changed_.wait(lock, [&] { return stopping_ || !open_.empty(); });
      if (is_over()) break;
    }
    if (process_ == nullptr) {
      ++counts_.restarts;
      start();
      continue;
    }
    std::string line;
    switch (process_->read_line(line, send(), wake_.descriptor())) {
      case line_process::status::line:
        take(line);
        break;
      case line_process::status::woken:
        wake_.clear();
        break;
      case line_process::status::timeout:
        break;
      case line_process::status::end:
        died(process_->ending());
        break;
      case line_process::status::too_long:
        died("it wrote more than 64 MiB without a line end");
        break;
    }
    stop_if_late();
  }
  process_.reset();
}

RLCORE_INLINE void python_worker::start() {
  std::string failure;
  try {
    process_ = std::make_unique<line_process>(std::vector<std::string>{"python3", "-I", "-c", python_host_script()},
                                              python_longest_line);
    process_->write(load_);
    failure = load();
  } catch (const error& e) {
    failure = e.what();
  }
  const std::lock_guard lock(mutex_);
  alive_ = failure.empty() && process_ != nullptr;
  if (failure.empty()) return;
  process_.reset();
  load_failure_ = file_ + ": " + failure;
  end_all(outcome::fault, load_failure_);
}

RLCORE_INLINE std::string python_worker::load() {
  const auto deadline = clock::now() + python_load_time;
  std::string line;
  line_process::status status{};
  do {
    status =
        process_->read_line(line, std::chrono::duration<double>(deadline - clock::now()).count(), wake_.descriptor());
    wake_.clear();
    const std::lock_guard lock(mutex_);
    if (stopping_) return "stopped";
  } while (status == line_process::status::woken);
  if (status == line_process::status::timeout)
    return "python3 did not load the " + noun_ + "s within " + std::to_string(python_load_time.count()) + " s";
  if (status == line_process::status::end) {
    const std::string how = process_->ending();
    if (!loaded_) return "python3 ended while it loaded the " + noun_ + "s: " + how;
    died(how);
    return "";
  }
  const auto answer = text::try_parse_json<nlohmann::ordered_json>(line);
  if (answer.is_object() && answer.contains("failure") && answer["failure"].is_string())
    return answer["failure"].get<std::string>();
  if (!answer.is_object() || !answer.contains("schemas") || !answer["schemas"].is_array())
    return "python3 wrote '" + line.substr(0, 100) + "' where it should have loaded the " + noun_ + "s";
  const std::lock_guard lock(mutex_);
  schemas_ = answer["schemas"];
  return "";
}

RLCORE_INLINE double python_worker::send() {
  const std::lock_guard lock(mutex_);
  const auto now = clock::now();
  const auto limit = duration_of(std::min(settings_.timeout_s, 1e9) + std::min(settings_.grace_s, 1e9));
  for (auto next = open_.lower_bound(unsent_); next != open_.end(); ++next) {
    process_->write(std::exchange(next->second->line, {}));
    next->second->deadline = now + limit;
    unsent_ = next->first + 1;
  }
  if (open_.empty()) return 1e9;
  const auto until = stopping_ ? std::min(open_.begin()->second->deadline, stop_by_) : open_.begin()->second->deadline;
  return std::max(std::chrono::duration<double>(until - now).count(), 0.0);
}

RLCORE_INLINE void python_worker::take(const std::string& line) {
  auto answer = text::try_parse_json<nlohmann::ordered_json>(line);
  if (!answer.is_object() || !answer.contains("id") || !answer["id"].is_number_unsigned())
    return died("it answered what is no answer");
  deaths_ = 0;
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(answer["id"].get<std::uint64_t>());
  if (found == open_.end()) return;
  open_call& call = *found->second;
  if (answer.contains("timeout")) {
    ++counts_.timeouts;
    end(call, outcome::tool_error, "timed out after " + seconds_text(settings_.timeout_s) + " s");
  } else if (answer.contains("error") || answer.contains("lost")) {
    ++counts_.errors;
    const bool lost = answer.contains("lost");
    const nlohmann::ordered_json& why = answer[lost ? "lost" : "error"];
    end(call, lost ? outcome::broken : outcome::tool_error, why.is_string() ? why.get<std::string>() : why.dump());
  } else {
    call.answer = std::move(answer);
    end(call, outcome::reply, {});
  }
  open_.erase(found);
}

RLCORE_INLINE void python_worker::end(open_call& call, outcome how, std::string text) {
  call.how = how, call.text = std::move(text);
  call.ended.notify_one();
}

RLCORE_INLINE void python_worker::end_all(outcome how, const std::string& text) {
  for (const auto& [id, call] : open_) {
    if (how == outcome::broken) ++counts_.errors;
    end(*call, how, text);
  }
  open_.clear();
  unsent_ = next_id_;
}

RLCORE_INLINE void python_worker::stop_if_late() {
  if (process_ == nullptr) return;
  const auto now = clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (open_.empty() || open_.begin()->second->deadline > now) return;
  }
  process_->stop();  // before the callers go on: what it has written is complete
  process_.reset();
  const std::lock_guard lock(mutex_);
  alive_ = false;
  while (!open_.empty() && open_.begin()->second->deadline <= now) {
    ++counts_.timeouts;
    end(*open_.begin()->second, outcome::tool_error, "timed out after " + seconds_text(settings_.timeout_s) + " s");
    open_.erase(open_.begin());
  }
  end_all(outcome::broken, "the " + noun_ + "'s process was stopped, since another call in it did not end");
}

RLCORE_INLINE void python_worker::died(const std::string& how) {
  process_->stop();
  process_.reset();
  const std::lock_guard lock(mutex_);
  alive_ = false;
  if (++deaths_ < 3) return end_all(outcome::broken, "the " + noun_ + "'s process ended: " + how);
  end_all(outcome::fault, file_ + ": the process of the " + noun_ + "s ended " + std::to_string(deaths_) +
                              " times without an answer in between: " + how);
}

}  // namespace detail

}  // namespace agent
RLCORE_END
#endif
