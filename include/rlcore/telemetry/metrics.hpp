// Metrics of one step: named numbers in insertion order, and their reduction over micro-batches; time and memory of the
// stages.
#pragma once

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/config/grammar/value.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/timeline.hpp"

RLCORE_BEGIN
namespace train {

/// name -> integer or real. Setting a name again keeps its place.
class metrics {
 public:
  using number = std::variant<std::int64_t, double>;

  /// Integers are kept in 64 bits, others as doubles.
  template <class T>
    requires std::is_arithmetic_v<T>
  void set(std::string_view name, T x) {
    if constexpr (std::is_integral_v<T>) {
      put(name, static_cast<std::int64_t>(x));
    } else {
      put(name, static_cast<double>(x));
    }
  }
  /// Sets a number of another set of metrics.
  void set(std::string_view name, number x) { put(name, x); }
  /// Sets every number of `other` here.
  void merge(const metrics& other) {
    for (const auto& [name, x] : other.entries_) put(name, x);
  }

  /// Is there a number of this name?
  bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }
  /// The number as a double; NaN if it does not exist.
  double get(std::string_view name) const noexcept {
    const number* x = find(name);
    if (x == nullptr) return std::numeric_limits<double>::quiet_NaN();
    return std::holds_alternative<double>(*x) ? std::get<double>(*x) : static_cast<double>(std::get<std::int64_t>(*x));
  }
  /// The number of this name, or nullptr.
  const number* find(std::string_view name) const noexcept {
    const std::size_t at = place_of(name);
    return at == entries_.size() ? nullptr : &entries_[at].second;
  }
  std::size_t size() const noexcept { return entries_.size(); }
  bool empty() const noexcept { return entries_.empty(); }
  auto begin() const noexcept { return entries_.begin(); }
  auto end() const noexcept { return entries_.end(); }

 private:
  void put(std::string_view name, number x);
  /// The number of entries if there is none of this name.
  std::size_t place_of(std::string_view name) const noexcept {
    if (const auto found = places_.find(name); found != places_.end()) return found->second;
    for (std::size_t i = places_.size(); i < entries_.size(); ++i)
      if (entries_[i].first == name) return i;
    return entries_.size();
  }

  std::vector<std::pair<std::string, number>> entries_;
  std::map<std::string, std::size_t, std::less<>> places_;  // of the first entries, where they are many
};

/// The metrics of one step as logged.
struct metric_row {
  std::int64_t step = 0;
  metrics values;
};

/// Rows of one step (a validation before the first step, a repetition after a resume) become one; later numbers win.
std::vector<metric_row> merged_rows(std::span<const metric_row> rows);

/// A number as Python prints it.
inline std::string number_text(const metrics::number& x) {
  return std::holds_alternative<double>(x) ? real_text(std::get<double>(x)) : std::to_string(std::get<std::int64_t>(x));
}

/// verl's console line: `step:{N} - {name}:{number} - ...`. Its reader splits at " - ", then at the last ":".
inline std::string console_line(std::int64_t step, const metrics& m) {
  std::string line = "step:" + std::to_string(step);
  for (const auto& [name, x] : m) line += " - " + name + ":" + number_text(x);
  return line;
}

/// Reduces the numbers of several micro-batches or updates: the largest if the name contains "max", the smallest if it
/// contains "min", else the arithmetic mean in the given order (verl's rule). NaN for an empty list.
double reduce_metric(std::string_view name, std::span<const double> xs);

/// Tokens per second of a rank: perf/throughput.
inline double throughput(double tokens, double seconds, double ranks = 1) { return tokens / (seconds * ranks); }

/// Milliseconds per token: timing_per_token_ms/*. For gen the tokens are those of the responses, else all.
inline double milliseconds_per_token(double seconds, double tokens) { return 1000 * seconds / tokens; }

/// The stages of one step and their wall seconds so far.
class stages {
 public:
  /// Runs f, adds its wall seconds to `name` and returns what f returns.
  template <class F>
  decltype(auto) operator()(const std::string& name, F&& f) {
    struct stop_watch {
      double& seconds;
      std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
      ~stop_watch() { seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }
    } watch{seconds_of(name)};
    const timeline::span traced(name.c_str());
    return std::forward<F>(f)();
  }
  /// Adds seconds that were measured elsewhere.
  void add(const std::string& name, double seconds) { seconds_of(name) += seconds; }
  /// The seconds of a stage; 0 if it did not run.
  double seconds(const std::string& name) const {
    for (const auto& [known, seconds] : stages_)
      if (known == name) return seconds;
    return 0;
  }
  /// Name and seconds of every stage, in the order of their first use.
  const std::vector<std::pair<std::string, double>>& entries() const noexcept { return stages_; }

 private:
  double& seconds_of(const std::string& name) {
    stages_.reserve(32);  // references stay valid: a step has about ten stages
    for (auto& [known, seconds] : stages_)
      if (known == name) return seconds;
    return stages_.emplace_back(name, 0.0).second;
  }
  std::vector<std::pair<std::string, double>> stages_;
};

/// Resident memory of this process in GiB; 0 if the system does not report it (/proc/self/statm).
inline double resident_memory_gib() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "re"), std::fclose);
  long long total = 0, resident = 0;
  if (!file || std::fscanf(file.get(), "%lld %lld", &total, &resident) != 2) return 0;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1024.0 * 1024.0 * 1024.0);
}

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE void metrics::put(std::string_view name, number x) {
  constexpr std::size_t few = 256;
  if (const std::size_t at = place_of(name); at != entries_.size()) {
    entries_[at].second = x;
    return;
  }
  entries_.emplace_back(name, x);
  if (entries_.size() <= few) return;
  for (std::size_t i = places_.size(); i < entries_.size(); ++i) places_.emplace(entries_[i].first, i);
}

RLCORE_INLINE std::vector<metric_row> merged_rows(std::span<const metric_row> rows) {
  std::vector<metric_row> out(rows.begin(), rows.end());
  std::stable_sort(out.begin(), out.end(), [](const metric_row& a, const metric_row& b) { return a.step < b.step; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (kept > 0 && out[kept - 1].step == out[i].step) {
      out[kept - 1].values.merge(out[i].values);
    } else {
      if (kept != i) out[kept] = std::move(out[i]);
      ++kept;
    }
  }
  out.resize(kept);
  return out;
}

RLCORE_INLINE double reduce_metric(std::string_view name, std::span<const double> xs) {
  if (xs.empty()) return std::numeric_limits<double>::quiet_NaN();
  if (name.find("max") != name.npos) return *std::max_element(xs.begin(), xs.end());
  if (name.find("min") != name.npos) return *std::min_element(xs.begin(), xs.end());
  double sum = 0;
  for (const double x : xs) sum += x;
  return sum / static_cast<double>(xs.size());
}

}  // namespace train
RLCORE_END
#endif
