// Reads the bytes of an image in a request: from a data URL or a local file.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/requests.hpp"
#include "rlcore/text/base64.hpp"

RLCORE_BEGIN
namespace serving {

/// Bytes of a file at most: as many as a body may have.
inline constexpr std::size_t image_file_limit = std::size_t{64} << 20;

namespace detail {

/// Case-insensitive prefix check of a URL.
inline bool begins(std::string_view url, std::string_view lower) noexcept {
  const auto lowered = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return url.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), url.begin(), [&](char a, char b) { return a == lowered(b); });
}

/// A path with its %41 as A.
std::string percent_decoded(std::string_view text);

/// data:image/png;base64,... The bytes determine the format, not the URL.
std::vector<unsigned char> bytes_of_data(std::string_view url, const std::string& where);

/// A file that is read once.
class opened_file {
 public:
  explicit opened_file(const std::filesystem::path& path)
      : file_(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) {}
  opened_file(const opened_file&) = delete;
  opened_file& operator=(const opened_file&) = delete;
  ~opened_file() {
    if (file_ >= 0) ::close(file_);
  }

  /// Its size, if it is a plain file.
  std::optional<std::size_t> size() const {
    struct stat about{};
    if (file_ < 0 || ::fstat(file_, &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
    return static_cast<std::size_t>(about.st_size);
  }
  /// Its current path, links resolved.
  std::filesystem::path place() const {
    std::error_code failure;
    return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file_), failure);
  }
  /// Its first `size` bytes, or nothing if they cannot be read.
  std::optional<std::vector<unsigned char>> read(std::size_t size) const;

 private:
  int file_;
};

inline bool lies_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto [end, at] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() && at != path.end();
}

/// file:///path, of a file below `folder` with all links followed. Files elsewhere are not accessed, and errors do not
/// reveal whether they exist.
std::vector<unsigned char> bytes_of_file(std::string_view url, const std::string& where,
                                         const std::filesystem::path& folder);

}  // namespace detail

/// The undecoded bytes of an image. Files are read below `folder`, an absolute path without links, or nowhere
/// if it is empty; nothing is downloaded. Throws api_error 400 that names the part.
std::vector<unsigned char> bytes_of(const sent_image& image, const std::filesystem::path& folder);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving::detail {

RLCORE_INLINE std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? digit(text[i + 1]) : -1;
    const int low = high < 0 ? -1 : digit(text[i + 2]);
    plain += low < 0 ? text[i] : static_cast<char>(16 * high + low);
    if (low >= 0) i += 2;
  }
  return plain;
}

RLCORE_INLINE std::vector<unsigned char> bytes_of_data(std::string_view url, const std::string& where) {
  const std::size_t comma = url.find(',');
  std::string_view kind = url.substr(0, std::min(comma, url.size()));
  constexpr std::string_view ending = ";base64";
  kind.remove_prefix(kind.size() - std::min(kind.size(), ending.size()));
  if (comma == url.npos || !begins(kind, ending))
    throw bad_request(where + " is no data URL in base64; expected data:image/png;base64,...");
  auto bytes = text::from_base64(url.substr(comma + 1));
  if (!bytes) throw bad_request(where + " is not base64 behind the comma of its data URL");
  return *std::move(bytes);
}

RLCORE_INLINE std::optional<std::vector<unsigned char>> opened_file::read(std::size_t size) const {
  std::vector<unsigned char> bytes(size);
  for (std::size_t have = 0; have < size;) {
    const ssize_t got = ::read(file_, bytes.data() + have, size - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    have += static_cast<std::size_t>(got);
  }
  return bytes;
}

RLCORE_INLINE std::vector<unsigned char> bytes_of_file(std::string_view url, const std::string& where,
                                                       const std::filesystem::path& folder) {
  if (folder.empty())
    throw bad_request(where + " is a file of this machine; expected data:image/png;base64,..., or a server with " +
                      "--allowed-local-media-path");
  url.remove_prefix(std::string_view("file://").size());
  if (begins(url, "localhost/")) url.remove_prefix(std::string_view("localhost").size());
  const std::string path = percent_decoded(url);
  if (!path.starts_with('/') || path.find('\0') != path.npos)
    throw bad_request(where + " is no file:///PATH with an absolute path");
  std::error_code failure;
  const std::filesystem::path file = std::filesystem::weakly_canonical(path, failure);
  if (failure || !lies_below(file, folder))
    throw bad_request(where + " is a file that does not lie below --allowed-local-media-path");
  const opened_file opened(file);
  const auto size = opened.size();
  if (!size || opened.place() != file) throw bad_request(where + " is a file that cannot be read: " + one_line(path));
  if (*size > image_file_limit)
    throw bad_request(where + " is a file of " + std::to_string(*size) + " bytes; expected at most " +
                      std::to_string(image_file_limit));
  auto bytes = opened.read(*size);
  if (!bytes) throw bad_request(where + " is a file that cannot be read: " + one_line(path));
  return *std::move(bytes);
}

}  // namespace serving::detail

namespace serving {

RLCORE_INLINE std::vector<unsigned char> bytes_of(const sent_image& image, const std::filesystem::path& folder) {
  if (detail::begins(image.url, "data:")) return detail::bytes_of_data(image.url, image.where);
  if (detail::begins(image.url, "file://")) return detail::bytes_of_file(image.url, image.where, folder);
  if (detail::begins(image.url, "http://") || detail::begins(image.url, "https://"))
    throw bad_request(image.where + " is to be downloaded, and this server downloads nothing; expected " +
                      "data:image/png;base64,...");
  throw bad_request(image.where + " has a URL of an unknown kind; expected data:image/png;base64,...");
}

}  // namespace serving
RLCORE_END
#endif
