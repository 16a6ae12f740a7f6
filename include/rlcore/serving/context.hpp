// Shared state of all requests of a server.
#pragma once

#include <algorithm>
#include <atomic>
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
#include "rlcore/serving/byte_budget.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/metrics.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/body_fields.hpp"
#include "rlcore/serving/served_model.hpp"

RLCORE_BEGIN
namespace serving {

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
  std::function<std::optional<gate::passage>(const std::string&, served_weights&, const std::function<bool()>&)> fetch;
  metrics counts;
  std::atomic<std::size_t> requests{0};              ///< that are being answered
  byte_budget picture_memory{std::size_t{2} << 30};  ///< for the images of requests; further requests wait

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

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

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
  std::optional<gate::passage> inside;
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
