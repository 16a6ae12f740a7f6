// What programs print. Of several ranks one speaks.
#pragma once

#include <cstdarg>
#include <cstdio>

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

/// std::printf, unless this thread is to be silent.
[[gnu::format(printf, 1, 2)]] inline void say(const char* format, ...) {
  if (!speaks()) return;
  std::va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
}

}  // namespace trainer
RLCORE_END
