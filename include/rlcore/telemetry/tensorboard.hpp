// TensorBoard's event files: records with a CRC32C, events, and the logger that writes them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/telemetry/metrics.hpp"

RLCORE_BEGIN
namespace train {

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

namespace detail {

/// Remainders of single bytes for the reflected polynomial 0x82f63b78.
inline constexpr std::array<std::uint32_t, 256> crc32c_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t x = byte;
    for (int bit = 0; bit < 8; ++bit) x = (x >> 1) ^ ((x & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = x;
  }
  return table;
}();

}  // namespace detail

/// RFC 3720, B.4: "123456789" has 0xe3069283.
constexpr std::uint32_t crc32c(std::string_view bytes) noexcept {
  std::uint32_t x = ~0u;
  for (const char c : bytes) x = (x >> 8) ^ detail::crc32c_table[(x ^ static_cast<unsigned char>(c)) & 0xff];
  return ~x;
}

/// Record files store the checksum rotated and shifted, so that a checksum of data with checksums inside stays good.
constexpr std::uint32_t masked_crc32c(std::string_view bytes) noexcept {
  const std::uint32_t x = crc32c(bytes);
  return ((x >> 15) | (x << 17)) + 0xa282ead8u;
}

namespace detail {

/// Appends the fields of a message. Wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
class message_writer {
 public:
  message_writer& varint(std::uint32_t field, std::uint64_t x) {
    key(field, 0);
    number(x);
    return *this;
  }
  message_writer& real(std::uint32_t field, double x) {
    key(field, 1);
    little_endian(std::bit_cast<std::uint64_t>(x), 8);
    return *this;
  }
  message_writer& real(std::uint32_t field, float x) {
    key(field, 5);
    little_endian(std::bit_cast<std::uint32_t>(x), 4);
    return *this;
  }
  message_writer& bytes(std::uint32_t field, std::string_view content);
  void little_endian(std::uint64_t x, int count) {
    for (int i = 0; i < count; ++i) text_ += static_cast<char>((x >> (8 * i)) & 0xff);
  }
  const std::string& text() const noexcept { return text_; }

 private:
  void key(std::uint32_t field, std::uint32_t wire_type) { number(field << 3 | wire_type); }
  void number(std::uint64_t x) {
    for (; x >= 0x80; x >>= 7) text_ += static_cast<char>((x & 0x7f) | 0x80);
    text_ += static_cast<char>(x);
  }
  std::string text_;
};

}  // namespace detail

/// One record: length (8 bytes) and its checksum, the data and its checksum; all little-endian.
std::string event_record(std::string_view data);

/// Event{wall_time = 1, file_version = 3}: the first record of every file.
inline std::string version_event(double wall_time) {
  return detail::message_writer().real(1, wall_time).bytes(3, "brain.Event:2").text();
}

/// Event{wall_time, step = 2, session_log = 7 {status = 1: START}}: revokes this and later steps of earlier files.
std::string start_event(double wall_time, std::int64_t step);

/// Event{wall_time, step, summary = 5 {value = 1 {tag = 1, simple_value = 2}, ...}}: all numbers of a step, as floats.
std::string scalars_event(double wall_time, std::int64_t step, const metrics& m);

/// Appends to <folder>/events.out.tfevents.<seconds>.<host>.<process>. A resumed run starts a new file, whose first
/// record revokes the later steps of earlier files. Every step is one record in one write, so a reader always sees
/// whole steps, however the run ends.
class tensorboard {
 public:
  static constexpr std::string_view prefix = "events.out.tfevents.";

  /// `resumed_step` < 0 means a fresh run; with `own_folder` the files of earlier runs go to earlier(). `kept` holds
  /// the rows of earlier steps; they are written again if the folder has no event file. Throws file_error.
  tensorboard(const std::filesystem::path& folder, std::int64_t resumed_step, bool own_folder,
              std::span<const metric_row> kept = {});
  tensorboard(const tensorboard&) = delete;
  tensorboard& operator=(const tensorboard&) = delete;
  ~tensorboard() {
    if (file_ >= 0) ::close(file_);
  }

  /// Throws file_error; the file then ends with the step before.
  void write(std::int64_t step, const metrics& m) {
    if (!m.empty()) append(event_record(scalars_event(wall_time(), step, m)));
  }
  const std::filesystem::path& path() const noexcept { return path_; }
  /// Where the files of earlier runs are now; empty if none was moved.
  const std::filesystem::path& earlier() const noexcept { return earlier_; }
  std::filesystem::path folder() const { return path_.parent_path(); }

 private:
  static std::chrono::system_clock::time_point now() { return std::chrono::system_clock::now(); }
  static double wall_time() { return std::chrono::duration<double>(now().time_since_epoch()).count(); }
  [[noreturn]] void fail(const char* action) const {
    throw file_error(path_.string() + ": cannot " + action + ": " + std::strerror(errno));
  }
  void append(std::string_view bytes);

  std::filesystem::path path_, earlier_;
  int file_ = -1;
};

/// The folder of a run's event files: `asked` if set, else $TENSORBOARD_DIR, else <folder>/tensorboard.
inline std::filesystem::path tensorboard_folder(const std::filesystem::path& folder, const std::string& asked) {
  if (!asked.empty()) return asked;
  const char* environment = std::getenv("TENSORBOARD_DIR");
  return environment != nullptr && *environment != '\0' ? std::filesystem::path(environment) : folder / "tensorboard";
}

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE message_writer& message_writer::bytes(std::uint32_t field, std::string_view content) {
  key(field, 2);
  number(content.size());
  text_ += content;
  return *this;
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE std::string event_record(std::string_view data) {
  detail::message_writer frame;
  frame.little_endian(data.size(), 8);
  const std::uint32_t of_length = masked_crc32c(frame.text());
  frame.little_endian(of_length, 4);
  std::string out = frame.text();
  out += data;
  detail::message_writer end;
  end.little_endian(masked_crc32c(data), 4);
  return out + end.text();
}

RLCORE_INLINE std::string start_event(double wall_time, std::int64_t step) {
  return detail::message_writer()
      .real(1, wall_time)
      .varint(2, static_cast<std::uint64_t>(step))
      .bytes(7, detail::message_writer().varint(1, 1).text())
      .text();
}

RLCORE_INLINE std::string scalars_event(double wall_time, std::int64_t step, const metrics& m) {
  detail::message_writer summary;
  for (const auto& [name, x] : m)
    summary.bytes(1, detail::message_writer().bytes(1, name).real(2, static_cast<float>(m.get(name))).text());
  return detail::message_writer()
      .real(1, wall_time)
      .varint(2, static_cast<std::uint64_t>(step))
      .bytes(5, summary.text())
      .text();
}

RLCORE_INLINE tensorboard::tensorboard(const std::filesystem::path& folder, std::int64_t resumed_step, bool own_folder,
                                       std::span<const metric_row> kept) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw file_error(folder.string() + ": cannot create the folder: " + failure.message());
  if (own_folder && resumed_step < 0)
    earlier_ = set_aside(folder, [](const std::string& name) { return name.starts_with(prefix); });
  std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now().time_since_epoch()).count();
  bool earlier = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    earlier = true;
    std::int64_t other = 0;  // readers take the files in the order of their names
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), other);
    seconds = std::max(seconds, other + 1);
  }
  char host[256] = "host";
  if (gethostname(host, sizeof host) != 0) host[0] = '\0';
  host[sizeof host - 1] = '\0';
  path_ = folder / (std::string(prefix) + std::to_string(seconds) + "." + host + "." + std::to_string(::getpid()));
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) fail("create the file");
  std::string first = event_record(version_event(wall_time()));
  // Twice: one of TensorBoard's loaders takes the first such record of a folder for the start of the folder.
  for (int i = 0; earlier && i < 2; ++i)
    first += event_record(start_event(wall_time(), std::max<std::int64_t>(resumed_step + 1, 0)));
  append(first);
  if (!earlier)
    for (const metric_row& row : kept) write(row.step, row.values);
}

RLCORE_INLINE void tensorboard::append(std::string_view bytes) {
  const off_t before = ::lseek(file_, 0, SEEK_END);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t put = ::write(file_, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int reason = errno;
      if (before >= 0 && ::ftruncate(file_, before) != 0) {
        // The torn record stays: readers wait for its rest and show the records before it.
      }
      errno = reason;
      fail("write");
    }
    done += static_cast<std::size_t>(put);
  }
}

}  // namespace train
RLCORE_END
#endif
