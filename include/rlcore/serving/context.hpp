// What all requests of a server share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
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
#include "rlcore/serving/prompt_counter.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/body_fields.hpp"
#include "rlcore/serving/served_model.hpp"

RLCORE_BEGIN
namespace serving {

/// The model, the engine, and what is counted over requests. Endpoints run in many threads at once.
class context {
 public:
  /// `log` receives lines for the console; empty: nothing is logged. The arguments have to outlive the context.
  context(const served_model& served, generator& source, std::function<void(const std::string&)> log = {})
      : model(served), engine(source), counter(served.seed), log_(std::move(log)) {}

  const served_model& model;
  generator& engine;
  prompt_counter counter;
  metrics counts;
  std::atomic<std::size_t> requests{0};              ///< that are being answered
  byte_budget picture_memory{std::size_t{2} << 30};  ///< for the pictures that requests show; others wait

  /// Throws api_error 404 for a name that is not served. The empty name is the first one.
  std::string model_named(const std::string& name) const {
    if (name.empty()) return model.names.front();
    for (const std::string& known : model.names)
      if (known == name) return name;
    throw not_found("The model `" + name + "` does not exist.");
  }

  /// A number for an answer, unlike those of all others of this server and of its earlier starts.
  std::string unique_id(const std::string& prefix, const std::string& asked) {
    if (!asked.empty()) return prefix + asked;
    const std::uint64_t n = ids_.fetch_add(1);
    const auto w = philox(static_cast<std::uint64_t>(model.created) ^ model.seed.seed << 20,
                          {static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0x6964, 0});
    char text[40];
    std::snprintf(text, sizeof text, "%08x%08x%08x%08x", w[0], w[1], w[2], w[3]);
    return prefix + text;
  }

  /// Logs a line.
  void log(const std::string& line) const {
    if (log_) log_(line);
  }
  /// Logs each unknown key of a body once, with the nearest known name.
  void note_unknown(const body_fields& fields) {
    for (const std::string& name : fields.unknown()) {
      {
        const std::lock_guard lock(mutex_);
        if (unknown_.size() >= 1000 || !unknown_.insert(name).second) continue;
      }
      log("unknown field '" + one_line(name, 100) + "' is ignored" + did_you_mean(name, fields.known()));
    }
  }
  /// Logs a line the first time that it is given.
  void log_once(const std::string& line) {
    if (line.empty()) return;
    {
      const std::lock_guard lock(mutex_);
      if (unknown_.size() >= 1000 || !unknown_.insert(line).second) return;
    }
    log(line);
  }

 private:
  std::function<void(const std::string&)> log_;
  std::atomic<std::uint64_t> ids_{0};
  std::mutex mutex_;
  std::set<std::string> unknown_;
};

}  // namespace serving
RLCORE_END
