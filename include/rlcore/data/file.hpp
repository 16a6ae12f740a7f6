// File I/O: every failure is a file_error with the path and the system's reason.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/text/text_file.hpp"

RLCORE_BEGIN
namespace data {

/// "<path>: cannot <action>: <reason of `code`>", the form of all file_errors.
[[noreturn]] inline void throw_file_error(const std::filesystem::path& path, std::string_view action,
                                          int code = errno) {
  throw file_error(path.string() + ": cannot " + std::string(action) + ": " + std::strerror(code));
}

/// RAII owner of a POSIX file descriptor.
class descriptor {
 public:
  descriptor() = default;
  /// Throws file_error "cannot <action>" when the system refuses.
  descriptor(const std::filesystem::path& path, int flags, std::string_view action) {
    do number_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    while (number_ < 0 && errno == EINTR);
    if (number_ < 0) throw_file_error(path, action);
  }
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const noexcept { return number_; }
  /// Closes now; the result of close(2) counts because some file systems report a full disk only here.
  bool close() noexcept { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_ = -1;
};

/// A file open for reading at any position; it is never mapped, so a file that shrinks meanwhile is an error and not
/// a signal.
class input_file {
 public:
  /// Throws file_error for a path that cannot be opened or is not a file.
  explicit input_file(std::filesystem::path path) : path_(std::move(path)) {
    text::check_input_kind(path_);
    file_ = descriptor(path_, O_RDONLY, "open");
    struct stat status{};
    if (::fstat(file_.number(), &status) != 0) throw_file_error(path_, "read");
    if (S_ISDIR(status.st_mode)) throw_file_error(path_, "read", EISDIR);
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }

  /// Fills `bytes` from byte `position` on; throws file_error when the file ends before.
  void read(std::uint64_t position, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t got = ::pread(file_.number(), bytes.data(), bytes.size(), static_cast<off_t>(position));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_file_error(path_, "read");
      if (got == 0) throw file_error(path_.string() + ": ends unexpectedly at byte " + std::to_string(position));
      position += static_cast<std::uint64_t>(got);
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
  }

 private:
  std::filesystem::path path_;
  descriptor file_;
  std::uint64_t size_ = 0;
};

/// A new file written front to back. Data is guaranteed to be written only after close() returns.
class output_file {
 public:
  /// Creates the file, or empties it. Throws file_error.
  explicit output_file(std::filesystem::path path)
      : path_(std::move(path)), file_(path_, O_WRONLY | O_CREAT | O_TRUNC, "create") {}

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Appends bytes. Throws file_error.
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t put = ::write(file_.number(), bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) throw_file_error(path_, "write");
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
  }
  /// Appends a text. Throws file_error.
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  /// Syncs the content to disk and closes.
  void close() {
    if (::fsync(file_.number()) != 0) throw_file_error(path_, "write");
    if (!file_.close()) throw_file_error(path_, "write");
  }

 private:
  std::filesystem::path path_;
  descriptor file_;
};

/// " (did you mean 'train.jsonl'?)": similar names in the folder of `path`, or nothing.
inline std::string alike_names(const std::filesystem::path& path) {
  constexpr std::size_t most = 1000;
  std::vector<std::string> others;
  std::error_code failure;
  std::filesystem::directory_iterator at(path.has_parent_path() ? path.parent_path() : ".", failure), end;
  for (; !failure && at != end && others.size() < most; at.increment(failure))
    others.push_back(at->path().filename().string());
  return did_you_mean(path.filename().string(), others);
}

/// Throws file_error with the reason, and with similar names in the same folder, if `path` is not a file or this
/// process may not read it. Opens nothing, so that a pipe keeps its data.
inline void check_readable(const std::filesystem::path& path) {
  struct stat status{};
  int code = 0;
  if (::stat(path.c_str(), &status) != 0)
    code = errno;
  else if (S_ISDIR(status.st_mode))
    code = EISDIR;
  else if (::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) != 0)
    code = errno;
  if (code != 0)
    throw file_error(path.string() + ": cannot " + (code == EISDIR ? "read: " : "open: ") + std::strerror(code) +
                     (code == ENOENT ? alike_names(path) : ""));
  text::check_input_kind(path);
}

/// The whole content of a file, also of a pipe that text::check_input_kind() lets pass. Throws file_error.
inline std::string read_file(const std::filesystem::path& path) {
  text::check_input_kind(path);
  const descriptor file(path, O_RDONLY, "open");
  struct stat status{};
  std::string content;
  if (::fstat(file.number(), &status) == 0) content.reserve(static_cast<std::size_t>(status.st_size) + 1);
  for (std::size_t length = 0;;) {
    content.resize(std::max(content.capacity(), length + 4096));
    const ssize_t got = ::read(file.number(), content.data() + length, content.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error(path, "read");
    length += static_cast<std::size_t>(got);
    if (got == 0) {
      content.resize(length);
      return content;
    }
  }
}

/// one_line() for a short part of a message.
inline std::string printable(std::string_view text, std::size_t limit = 120) { return one_line(text, limit); }

}  // namespace data
RLCORE_END
