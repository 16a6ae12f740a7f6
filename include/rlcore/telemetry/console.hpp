// Console output (only rank 0 prints), and tables of numbers in it.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/config/typed_names.hpp"
#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {
inline bool& speaks() noexcept {
  thread_local bool yes = true;
  return yes;
}
/// True once ranks have started: a failure then belongs to one rank, and parallel::launch() selects the rank that
/// reports it.
inline bool& ranks_started() noexcept {
  static bool yes = false;
  return yes;
}
}  // namespace detail

/// Silences say() in this thread for the lifetime of the object if `quiet`.
class silence {
 public:
  /// Saves the state of this thread; the destructor restores it.
  explicit silence(bool quiet = true) noexcept : before_(detail::speaks()) {
    if (quiet) detail::speaks() = false;
  }
  silence(const silence&) = delete;
  silence& operator=(const silence&) = delete;
  ~silence() { detail::speaks() = before_; }

 private:
  bool before_;
};

/// Whether say() prints in this thread.
inline bool speaks() noexcept { return detail::speaks(); }

/// Option names used in messages: empty, or those of the command line. Set before the ranks start.
inline typed_names& displayed_option_names() {
  static typed_names names;
  return names;
}

/// The derived numbers of a run, printed before its first step and in its report.
struct number_table {
  /// One number with its name, and a remark or an empty text.
  struct line {
    std::string name, number, remark;
  };
  std::vector<line> lines;

  /// Appends a line.
  void add(std::string name, std::int64_t number, std::string remark = {}) {
    lines.push_back({std::move(name), std::to_string(number), std::move(remark)});
  }
  /// One line each, numbers flush right.
  std::string text() const {
    std::size_t names = 0, numbers = 0;
    for (const line& l : lines) {
      if (names < l.name.size()) names = l.name.size();
      if (numbers < l.number.size()) numbers = l.number.size();
    }
    std::string out;
    for (const line& l : lines) {
      out += "  " + l.name + std::string(names - l.name.size() + 2 + numbers - l.number.size(), ' ') + l.number;
      out += l.remark.empty() ? "\n" : "  " + l.remark + "\n";
    }
    return out;
  }
};

/// The width of the terminal `out`; 0 if `out` is not a terminal.
inline std::size_t terminal_columns(std::FILE* out) noexcept {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// Wraps lines longer than `columns` bytes at blanks, with an indent of two. Lines that begin with a blank (tables,
/// commands to copy) are not wrapped. Fewer than 4 columns (no terminal): no wrapping.
std::string fitted(std::string_view text, std::size_t columns);

/// std::printf with displayed_option_names(), wrapped to the terminal; prints nothing in a silenced thread.
[[gnu::format(printf, 1, 2)]] inline void say(const char* format, ...) {
  if (!speaks()) return;
  std::va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int size = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string text(static_cast<std::size_t>(size < 0 ? 0 : size) + 1, '\0');
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  text.pop_back();
  if (!displayed_option_names().empty()) text = displayed_option_names().in(text);
  std::fputs(fitted(text, terminal_columns(stdout)).c_str(), stdout);
}

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::string fitted(std::string_view text, std::size_t columns) {
  if (columns < 4) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    std::size_t room = columns;
    while (line.size() > room && !line.starts_with(' ')) {
      std::size_t blank = line.rfind(' ', room);
      if (blank == line.npos) blank = line.find(' ');
      const std::size_t next = blank == line.npos ? blank : line.find_first_not_of(' ', blank);
      if (next == line.npos) break;
      out.append(line.substr(0, line.find_last_not_of(' ', blank) + 1)).append("\n  ");
      line.remove_prefix(next);
      room = columns - 2;
    }
    out += line;
    if (end == text.npos) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace train
RLCORE_END
#endif
