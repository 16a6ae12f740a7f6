// Moves the files of an earlier run aside.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace trainer {

/// Moves the files of `folder` whose name is_old(name) accepts into <folder>/earlier.1, or the next number that is
/// free. Returns that folder; empty if there was nothing to move. Throws file_error.
template <class Predicate>
std::filesystem::path set_aside(const std::filesystem::path& folder, Predicate&& is_old) {
  namespace fs = std::filesystem;
  std::error_code failure;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure))
    if (const std::string name = at->path().filename().string(); !at->is_directory() && is_old(name))
      names.push_back(name);
  if (names.empty()) return {};
  fs::path to;
  for (int n = 1; to.empty() || fs::exists(to); ++n) to = folder / ("earlier." + std::to_string(n));
  fs::create_directory(to, failure);
  if (failure) throw file_error(to.string() + ": cannot create the folder: " + failure.message());
  for (const std::string& name : names) {
    fs::rename(folder / name, to / name, failure);
    if (failure) throw file_error((folder / name).string() + ": cannot rename the file: " + failure.message());
  }
  return to;
}

}  // namespace trainer
RLCORE_END
