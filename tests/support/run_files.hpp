// What a trainer's run left, for comparison with another run; and command lines put together.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "program.hpp"

namespace program {

using arguments = std::vector<std::string>;

inline arguments operator+(arguments a, const arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Rows of metrics.jsonl without what no two runs have in common: wall time, memory, and how the recorded log-probs
/// compare with others.
inline std::vector<nlohmann::ordered_json> metric_rows(const std::filesystem::path& root) {
  std::vector<nlohmann::ordered_json> all;
  std::istringstream file(scratch::read(root / "metrics.jsonl"));
  for (std::string line; std::getline(file, line);) {
    nlohmann::ordered_json kept = nlohmann::ordered_json::object();
    const auto row = nlohmann::ordered_json::parse(line);
    for (const auto& [name, x] : row.items())
      if (!name.starts_with("timing") && !name.starts_with("perf/") && name != "train/time(s)" &&
          !name.starts_with("training/rollout_probs_diff"))
        kept[name] = x;
    all.push_back(std::move(kept));
  }
  return all;
}
/// The same as text.
inline std::vector<std::string> rows(const std::filesystem::path& root) {
  std::vector<std::string> all;
  for (const auto& row : metric_rows(root)) all.push_back(row.dump());
  return all;
}

/// What every trainer saves at the end, by file.
inline std::map<std::string, std::string> models_of(const std::filesystem::path& out) {
  std::map<std::string, std::string> all;
  if (std::filesystem::exists(out))
    for (const auto& entry : std::filesystem::recursive_directory_iterator(out))
      if (entry.path().filename() == "model.safetensors")
        all[std::filesystem::relative(entry.path(), out).string()] = scratch::read(entry.path());
  return all;
}

/// Puts every file of JSON lines of `from` into the folder `to`, each line changed by f. Returns the folder.
template <class F>
std::filesystem::path changed_lines(const std::filesystem::path& from, const std::filesystem::path& to, F&& f) {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    std::istringstream lines(scratch::read(entry.path()));
    std::ofstream out(to / entry.path().filename());
    for (std::string line; std::getline(lines, line);) {
      nlohmann::ordered_json row = nlohmann::ordered_json::parse(line);
      f(row);
      out << row.dump() << "\n";
    }
  }
  return to;
}

}  // namespace program
