// Prometheus metrics of the server, under vLLM's names and additional ones.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/generator.hpp"

RLCORE_BEGIN
namespace serving {

/// Counts observations up to each bound.
class histogram {
 public:
  /// Seconds.
  static constexpr std::array bounds{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                     1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};

  /// Counts a time.
  void observe(double seconds) noexcept {
    for (std::size_t i = 0; i < bounds.size(); ++i) below_[i] += seconds <= bounds[i] ? 1u : 0u;
    ++count_;
    sum_ += seconds;
  }
  /// The lines of one histogram.
  std::string text(const std::string& name, const std::string& label) const;

 private:
  std::array<std::uint64_t, bounds.size()> below_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// Metrics over all responses of a server; thread-safe.
class metrics {
 public:
  using clock = std::chrono::steady_clock;

  /// Counts an accepted prompt of `tokens` tokens.
  void count_prompt(std::size_t tokens) {
    const std::lock_guard lock(mutex_);
    prompt_tokens_ += tokens;
  }
  /// Counts generated tokens.
  void count_tokens(std::size_t tokens) {
    const std::lock_guard lock(mutex_);
    generated_tokens_ += tokens;
  }
  /// Records the time to first token.
  void count_first_token(double seconds) {
    const std::lock_guard lock(mutex_);
    first_token_.observe(seconds);
  }
  /// Counts finished choices.
  void count_end(const std::string& finish_reason, std::size_t choices = 1) {
    const std::lock_guard lock(mutex_);
    ends_[finish_reason] += choices;
  }
  /// Records the latency of a finished request.
  void count_request(double seconds) {
    const std::lock_guard lock(mutex_);
    latency_.observe(seconds);
  }
  std::uint64_t prompt_tokens() const {
    const std::lock_guard lock(mutex_);
    return prompt_tokens_;
  }
  std::uint64_t generated_tokens() const {
    const std::lock_guard lock(mutex_);
    return generated_tokens_;
  }

  /// The page of /metrics for a model of this name.
  std::string text(const engine_load& load, const std::string& model) const;

 private:
  static std::string escaped(const std::string& value);

  void add(const std::string& prefix, const engine_load& load, const std::string& model, std::string& out) const;

  mutable std::mutex mutex_;
  std::uint64_t prompt_tokens_ = 0, generated_tokens_ = 0;
  std::map<std::string, std::uint64_t> ends_{{"stop", 0}, {"length", 0}, {"abort", 0}};
  histogram first_token_, latency_;
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE std::string histogram::text(const std::string& name, const std::string& label) const {
  std::string out;
  char number[64];
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    std::snprintf(number, sizeof number, "%g", bounds[i]);
    out += name + "_bucket{" + label + ",le=\"" + number + "\"} " + std::to_string(below_[i]) + "\n";
  }
  out += name + "_bucket{" + label + ",le=\"+Inf\"} " + std::to_string(count_) + "\n";
  std::snprintf(number, sizeof number, "%.9g", sum_);
  return out + name + "_sum{" + label + "} " + number + "\n" + name + "_count{" + label + "} " +
         std::to_string(count_) + "\n";
}

RLCORE_INLINE std::string metrics::text(const engine_load& load, const std::string& model) const {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const char* prefix : {"vllm:", "rlcore_"}) add(prefix, load, escaped(model), out);
  return out;
}

RLCORE_INLINE std::string metrics::escaped(const std::string& value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

RLCORE_INLINE void metrics::add(const std::string& prefix, const engine_load& load, const std::string& model,
                                std::string& out) const {
  const std::string label = "model_name=\"" + model + "\"";
  const auto header = [&](const std::string& name, const char* type, const char* help) {
    out += "# HELP " + prefix + name + " " + help + "\n# TYPE " + prefix + name + " " + type + "\n";
  };
  const auto one = [&](const std::string& name, const char* type, const char* help, double value) {
    header(name, type, help);
    char number[64];
    std::snprintf(number, sizeof number, "%.17g", value);
    out += prefix + name + "{" + label + "} " + number + "\n";
  };
  one("num_requests_running", "gauge", "Sequences that are being generated.", static_cast<double>(load.running));
  one("num_requests_waiting", "gauge", "Sequences that wait to start.", static_cast<double>(load.waiting));
  one("kv_cache_usage_perc", "gauge", "Share of the pages of keys and values in use; 1 is all.", load.cache_usage);
  one("num_preemptions_total", "counter", "Sequences sent back for want of pages.",
      static_cast<double>(load.preemptions));
  one("prompt_tokens_total", "counter", "Tokens of accepted prompts.", static_cast<double>(prompt_tokens_));
  one("generation_tokens_total", "counter", "Tokens of answers.", static_cast<double>(generated_tokens_));
  one("images_read_total", "counter", "Images that the vision tower has read.", static_cast<double>(load.images_read));
  header("request_success_total", "counter", "Choices that ended, by their reason.");
  for (const auto& [reason, count] : ends_)
    out += prefix + "request_success_total{" + label + ",finished_reason=\"" + reason + "\"} " + std::to_string(count) +
           "\n";
  header("time_to_first_token_seconds", "histogram", "From a request to the first token of its answer.");
  out += first_token_.text(prefix + "time_to_first_token_seconds", label);
  header("e2e_request_latency_seconds", "histogram", "From a request to the end of its answer.");
  out += latency_.text(prefix + "e2e_request_latency_seconds", label);
}

}  // namespace serving
RLCORE_END
#endif
