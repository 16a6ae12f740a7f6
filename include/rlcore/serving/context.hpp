// What the requests of a server share: model, metrics, memory budget, load.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/metrics.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/body_fields.hpp"
#include "rlcore/serving/served_model.hpp"

RLCORE_BEGIN
namespace serving {

/// The total bytes of all holders. A request for more than the total waits until it holds all of them.
class byte_budget {
 public:
  /// A budget of `bytes` bytes.
  explicit byte_budget(std::size_t bytes) : all_(bytes), left_(bytes) {}

  /// Waits for its turn and for `bytes`; returns the bytes taken. Calls `connected` (if not empty) while waiting;
  /// throws client_gone if it returns false.
  std::size_t take(std::size_t bytes, const std::function<bool()>& connected = {});
  /// Returns the result of take(), or a part of it.
  void give_back(std::size_t bytes);

 private:
  using turns = std::set<std::uint64_t>;

  void leave(turns::iterator turn) {
    waiting_.erase(turn);
    freed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable freed_;
  const std::size_t all_;
  std::size_t left_;
  std::uint64_t last_ = 0;
  turns waiting_;
};

/// A part of the budget for as long as it lives.
class held_bytes {
 public:
  /// Waits until it has `bytes`, or the whole budget; see byte_budget::take(). The budget must outlive this object.
  held_bytes(byte_budget& budget, std::size_t bytes, const std::function<bool()>& connected = {})
      : budget_(budget), bytes_(budget.take(bytes, connected)) {}
  held_bytes(const held_bytes&) = delete;
  held_bytes& operator=(const held_bytes&) = delete;
  ~held_bytes() { budget_.give_back(bytes_); }

  /// Gives back everything above `bytes`.
  void keep(std::size_t bytes) {
    const std::size_t more = bytes_ - std::min(bytes, bytes_);
    bytes_ -= more;
    budget_.give_back(more);
  }

 private:
  byte_budget& budget_;
  std::size_t bytes_;
};

/// The model, the engine, and counters over requests. Endpoints run in many threads at once.
class context {
 public:
  /// `log` receives lines for the console; empty: no log. The arguments must outlive the context.
  context(const served_model& served, generator& source, std::function<void(const std::string&)> log = {})
      : model(served),
        own(std::make_shared<served_weights>(source, served.seed,
                                             weights_origin{served.folder.string(), served.fingerprint})),
        log_(std::move(log)) {}

  const served_model& model;
  const std::shared_ptr<served_weights> own;  ///< those of all of the model's names
  /// Reloads the evicted weights of a name and admits the request; empty if that is impossible now, or if they are
  /// loaded already. Throws the exceptions of admit().
  std::function<std::optional<gate::admission_ticket>(const std::string&, served_weights&,
                                                      const std::function<bool()>&)>
      fetch;
  metrics counts;
  std::atomic<std::size_t> requests{0};            ///< that are being answered
  byte_budget image_memory{std::size_t{2} << 30};  ///< for the images of requests; further requests wait

  /// The weights of a name, and the name used in responses: an empty name selects the model's first. Throws api_error
  /// 404 for an unknown name.
  std::pair<std::string, std::shared_ptr<served_weights>> named(const std::string& name) const;
  /// Admits a request as soon as the weights of this name are usable. Throws like named() and gate::enter().
  admission admit(const std::string& name, const std::function<bool()>& connected) const;

  /// Whether it is a name of the model itself.
  bool is_own(const std::string& name) const {
    return std::find(model.names.begin(), model.names.end(), name) != model.names.end();
  }
  /// The current adapters by name.
  std::map<std::string, std::shared_ptr<served_weights>> adapters() const {
    const std::lock_guard lock(mutex_);
    return adapters_;
  }
  /// Serves these weights as `name` from now on.
  void add_adapter(const std::string& name, std::shared_ptr<served_weights> weights) {
    const std::lock_guard lock(mutex_);
    adapters_[name] = std::move(weights);
  }
  /// Stops serving the name; requests in progress finish normally. Returns false if the name does not exist.
  bool remove_adapter(const std::string& name);
  /// The load of all engines.
  engine_load load() const;

  /// A unique id for a response, across restarts of the server.
  std::string unique_id(const std::string& prefix, const std::string& asked);

  /// Logs a line.
  void log(const std::string& line) const {
    if (log_) log_(line);
  }
  /// Logs each unknown key of a body once, with the nearest known name.
  void note_unknown(const body_fields& fields);
  /// Logs a line only once.
  void log_once(const std::string& line) {
    if (!line.empty() && is_new(notes_, line)) log(line);
  }

 private:
  /// Whether a text is new; always false after the first thousand.
  bool is_new(std::set<std::string>& told, const std::string& text) {
    const std::lock_guard lock(mutex_);
    return told.size() < 1000 && told.insert(text).second;
  }

  std::function<void(const std::string&)> log_;
  std::atomic<std::uint64_t> ids_{0};
  std::uint64_t process_ = std::random_device{}();  // distinguishes servers started in the same second
  mutable std::atomic<std::uint64_t> clock_{0};     // counts requests
  mutable std::mutex mutex_;
  std::set<std::string> unknown_, notes_;
  std::map<std::string, std::shared_ptr<served_weights>> adapters_;
};

/// Logs tokens per second since the previous line and the current load; nothing while idle.
class load_log {
 public:
  /// `seconds` between two lines; 0: none.
  load_log(const context& shared, double seconds, std::function<void(const std::string&)> write)
      : shared_(shared), interval_(seconds), write_(std::move(write)) {}

  /// Writes a line if one is due.
  void tick() {
    const auto now = clock::now();
    const double passed = std::chrono::duration<double>(now - last_).count();
    if (interval_ <= 0 || passed < interval_) return;
    const engine_load load = shared_.load();
    const std::uint64_t prompts = shared_.counts.prompt_tokens(), texts = shared_.counts.generated_tokens();
    if (prompts != prompts_ || texts != texts_ || load.running + load.waiting > 0) {
      char line[200];
      std::snprintf(line, sizeof line,
                    "running %zu, waiting %zu, prompts %.1f tokens/s, texts %.1f tokens/s, cache %.1f %%", load.running,
                    load.waiting, static_cast<double>(prompts - prompts_) / passed,
                    static_cast<double>(texts - texts_) / passed, 100 * load.cache_usage);
      write_(line);
    }
    last_ = now, prompts_ = prompts, texts_ = texts;
  }

 private:
  using clock = std::chrono::steady_clock;

  const context& shared_;
  double interval_;
  std::function<void(const std::string&)> write_;
  clock::time_point last_ = clock::now();
  std::uint64_t prompts_ = 0, texts_ = 0;
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE std::size_t byte_budget::take(std::size_t bytes, const std::function<bool()>& connected) {
  bytes = std::min(bytes, all_);
  std::unique_lock lock(mutex_);
  const auto turn = waiting_.insert(waiting_.end(), ++last_);  // prevents starvation of large requests
  while (!freed_.wait_for(lock, std::chrono::milliseconds(50),
                          [&] { return turn == waiting_.begin() && left_ >= bytes; })) {
    lock.unlock();
    const bool is_connected = !connected || connected();
    lock.lock();
    if (is_connected) continue;
    leave(turn);
    throw client_gone();
  }
  left_ -= bytes;
  leave(turn);
  return bytes;
}

RLCORE_INLINE void byte_budget::give_back(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    left_ += bytes;
  }
  freed_.notify_all();
}

RLCORE_INLINE std::pair<std::string, std::shared_ptr<served_weights>> context::named(const std::string& name) const {
  if (name.empty()) return {model.names.front(), own};
  if (is_own(name)) return {name, own};
  const std::lock_guard lock(mutex_);
  if (const auto found = adapters_.find(name); found != adapters_.end()) return *found;
  throw not_found("The model `" + name + "` does not exist.");
}

RLCORE_INLINE admission context::admit(const std::string& name, const std::function<bool()>& connected) const {
  auto [full_name, weights] = named(name);
  weights->used = ++clock_;
  std::optional<gate::admission_ticket> inside;
  while (!inside) {
    if (weights->away) inside = fetch(full_name, *weights, connected);
    if (!inside)  // already loaded, or earlier requests come first
      inside = weights->door.enter([&] { return !connected || connected(); },
                                   [&away = weights->away] { return away.load(); });
  }
  weights_origin origin = weights->origin();
  return {std::move(full_name), std::move(weights), std::move(origin), std::move(*inside)};
}

RLCORE_INLINE bool context::remove_adapter(const std::string& name) {
  std::shared_ptr<served_weights> removed;  // destroyed outside of the lock
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(name);
  if (found == adapters_.end()) return false;
  removed = std::move(found->second);
  adapters_.erase(found);
  return true;
}

RLCORE_INLINE engine_load context::load() const {
  engine_load all = own->engine.load();
  for (const auto& [name, weights] : adapters())
    if (!weights->away) all += weights->engine.load();
  return all;
}

RLCORE_INLINE std::string context::unique_id(const std::string& prefix, const std::string& asked) {
  if (!asked.empty()) return prefix + asked;
  const std::uint64_t n = ids_.fetch_add(1);
  const auto w = philox(static_cast<std::uint64_t>(model.created) ^ process_ << 32,
                        {static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0x6964, 0});
  char text[40];
  std::snprintf(text, sizeof text, "%08x%08x%08x%08x", w[0], w[1], w[2], w[3]);
  return prefix + text;
}

RLCORE_INLINE void context::note_unknown(const body_fields& fields) {
  for (const std::string& sent : fields.unknown()) {
    const std::string name = sent.substr(0, 100);  // a longer one has no near neighbour
    if (is_new(unknown_, name))
      log("unknown field '" + one_line(name, 100) + "' is ignored" + did_you_mean(name, fields.known()));
  }
}

}  // namespace serving
RLCORE_END
#endif
