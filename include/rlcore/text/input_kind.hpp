// Checks that an input path is a regular file.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace text {

/// Throws file_error if `path` is a named pipe, a device or a socket: reading may block forever or never end. Accepts
/// pipes that this process inherited: /dev/stdin, and /dev/fd/N of the shell's `<(command)`. Opens nothing; missing
/// files and folders fail when opened.
inline void check_input_kind(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) return;
  const std::string name = path.string();
  if (S_ISFIFO(status.st_mode) && (name.starts_with("/dev/") || name.starts_with("/proc/"))) return;
  throw file_error(name + ": cannot read: it is " +
                   (S_ISFIFO(status.st_mode)   ? "a named pipe"
                    : S_ISSOCK(status.st_mode) ? "a socket"
                                               : "a device") +
                   "; expected a regular file");
}

}  // namespace text
RLCORE_END
