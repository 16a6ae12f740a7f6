// Periodic load log.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/context.hpp"

RLCORE_BEGIN
namespace serving {

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
