// Runs a program of build/bin as a user would.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/scratch.hpp"

namespace program {

inline std::filesystem::path path_of(const std::string& name) { return std::filesystem::path(RLCORE_BIN_DIR) / name; }

struct result {
  int code = -1;  ///< -1: ended by a signal
  std::string out, err;
};

/// `before` is shell text in front of the command.
inline result run(const std::string& name, const std::vector<std::string>& arguments, const std::string& before = "") {
  const scratch::folder place;
  std::string command = before + " '" + path_of(name).string() + "'";
  for (const std::string& a : arguments) command += " '" + a + "'";
  command += " > '" + (place / "out").string() + "' 2> '" + (place / "err").string() + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, scratch::read(place / "out"), scratch::read(place / "err")};
}

/// Every file below `folder` with its content, every folder with "".
inline std::map<std::string, std::string> snapshot(const std::filesystem::path& folder) {
  std::map<std::string, std::string> all;
  if (!std::filesystem::exists(folder)) return all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    all[entry.path().string()] = entry.is_regular_file() ? scratch::read(entry.path()) : "";
  return all;
}

}  // namespace program
