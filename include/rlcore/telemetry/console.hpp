// What programs print. Of several ranks one speaks.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

#include "rlcore/config/typed_names.hpp"
#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {
inline bool& speaks() noexcept {
  thread_local bool yes = true;
  return yes;
}
/// From here on a failure is one rank's own, and parallel::launch() has chosen who tells it.
inline bool& ranks_started() noexcept {
  static bool yes = false;
  return yes;
}
}  // namespace detail

/// While it lives, say() prints nothing in this thread if `quiet`.
class silence {
 public:
  /// Remembers whether this thread speaks; the destructor brings that back.
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

/// What messages of this process have in the place of keys: empty, or what the command line has. A program sets it
/// before its ranks start.
inline typed_names& names_in_messages() {
  static typed_names names;
  return names;
}

/// std::printf with names_in_messages(), unless this thread is to be silent.
[[gnu::format(printf, 1, 2)]] inline void say(const char* format, ...) {
  if (!speaks()) return;
  std::va_list arguments, again;
  va_start(arguments, format);
  if (names_in_messages().empty()) {
    std::vprintf(format, arguments);
  } else {
    va_copy(again, arguments);
    const int size = std::vsnprintf(nullptr, 0, format, again);
    va_end(again);
    std::string text(static_cast<std::size_t>(size < 0 ? 0 : size) + 1, '\0');
    std::vsnprintf(text.data(), text.size(), format, arguments);
    text.pop_back();
    std::fputs(names_in_messages().in(text).c_str(), stdout);
  }
  va_end(arguments);
}

}  // namespace trainer
RLCORE_END
