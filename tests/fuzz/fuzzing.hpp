// What the fuzzers share. The rule for every reader of outside bytes: it takes them, or throws an rlcore::error of one
// clear line. Anything else (another exception, a crash, more memory or time than the engine allows) is a finding.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/error.hpp"

namespace fuzzing {

inline std::string_view current_input;

/// Ends the process in a way that every engine reports.
[[noreturn]] inline void fail(std::string_view what, std::string_view shown = {}) {
  std::fprintf(stderr, "fuzzing: %.*s %.*s\n", static_cast<int>(what.size()), what.data(),
               static_cast<int>(shown.size()), shown.data());
  std::abort();
}
inline void require(bool holds, std::string_view what, std::string_view shown = {}) {
  if (!holds) fail(what, shown);
}

/// One line, of bearable length, that is not the raw text of another library's exception.
inline void check_sentence(std::string_view message) {
  require(!message.empty() && message.size() <= 4 * 4000 + 3,
          "an error's message is empty or long:", message.substr(0, 200));
  for (const char c : message)
    require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "an error's message is not one line:", message);
  constexpr std::string_view raw = "[json.exception";
  require(message.find(raw) == message.npos || current_input.find(raw) != current_input.npos,
          "an error's message shows a raw json exception:", message);
}

/// True if `read` succeeded; false if it threw an rlcore::error with a good message.
template <class Read>
bool accepts(Read&& read) {
  try {
    read();
    return true;
  } catch (const rlcore::error& e) {
    check_sentence(e.what());
  } catch (const std::exception& e) {
    fail("an exception that is no rlcore::error:", e.what());
  }
  return false;
}

/// The input as text.
inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return current_input = {reinterpret_cast<const char*>(data), size};
}
/// Two documents in one input: what stands before and behind the first line "=====".
inline std::pair<std::string_view, std::string_view> two_texts(std::string_view text) {
  constexpr std::string_view line = "\n=====\n";
  const std::size_t at = text.find(line);
  if (at == text.npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + line.size())};
}
/// The first byte chooses one of `count` ways to read the rest: '0' to '9', then 'a' and so on.
inline std::size_t choice(std::string_view& text, std::size_t count) {
  if (text.empty()) return 0;
  const auto byte = static_cast<unsigned char>(text[0]);
  text.remove_prefix(1);
  return (byte >= 'a' ? byte - 'a' + 10u : byte >= '0' ? byte - '0' + 0u : byte) % count;
}

/// A folder of this process for readers of files, in memory where the system has such a place; removed at exit.
inline const std::filesystem::path& folder() {
  struct removed {
    std::filesystem::path path;
    removed() {
      const std::filesystem::path memory = "/dev/shm";
      const bool usable = ::access(memory.c_str(), W_OK) == 0;
      path = (usable ? memory : std::filesystem::temp_directory_path()) / ("rlcore_fuzz_" + std::to_string(::getpid()));
      std::filesystem::create_directories(path);
    }
    ~removed() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const removed only;
  return only.path;
}
/// Writes a file into folder() and returns its path.
inline std::filesystem::path write(const std::string& name, std::string_view bytes) {
  const std::filesystem::path path = folder() / name;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  require(file.good(), "cannot write", path.string());
  return path;
}
inline std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace fuzzing
