// Reads and writes text files.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace text {

/// Throws file_error if `path` is a named pipe, a device or a socket: reading may block forever or never end. Accepts
/// pipes that this process inherited: /dev/stdin, and /dev/fd/N of the shell's `<(command)`. Opens nothing; missing
/// files and folders fail when opened.
inline void check_input_kind(const std::filesystem::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) return;
  const std::string name = path.string();
  if (S_ISFIFO(status.st_mode) && (name.starts_with("/dev/") || name.starts_with("/proc/"))) return;
  throw file_error(name + ": cannot read: it is " +
                   (S_ISFIFO(status.st_mode)   ? "a named pipe"
                    : S_ISSOCK(status.st_mode) ? "a socket"
                                               : "a device") +
                   "; expected a regular file");
}

/// The bytes of a file. Throws file_error with the path and the system's reason.
inline std::string read_text_file(const std::filesystem::path& path) {
  check_input_kind(path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  const auto fail = [&] { throw file_error(path.string() + ": cannot read: " + std::strerror(errno)); };
  if (!file) fail();
  std::string text;
  char buffer[1 << 16];
  std::size_t got = 0;
  while ((got = std::fread(buffer, 1, sizeof buffer, file.get())) > 0) text.append(buffer, got);
  if (std::ferror(file.get()) != 0) fail();
  return text;
}

/// Writes a file, replacing it. Throws file_error with the path and the system's reason.
inline void write_text_file(const std::filesystem::path& path, std::string_view text) {
  const auto fail = [&] { throw file_error(path.string() + ": cannot write: " + std::strerror(errno)); };
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) fail();
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if ((std::fclose(file) != 0) || !written) fail();
}

}  // namespace text
RLCORE_END
