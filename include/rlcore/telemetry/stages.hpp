// Time and memory of the stages of a step.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

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
