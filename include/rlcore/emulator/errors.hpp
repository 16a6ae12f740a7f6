// Error codes of the emulator, and the text of the last error.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// ACL_ERROR_*: the numbers that functions of the runtime return.
namespace errors {
inline constexpr int invalid_parameter = 100000, uninitialised = 100001, repeated_initialise = 100002,
                     repeated_finalise = 100037, bad_allocation = 200000, invalid_device = 107001, parameter = 107000,
                     no_context = 107002, stream_of_other_context = 107003, event_timestamp = 107006,
                     memory_type = 107016, invalid_handle = 107017, unsupported = 207000, out_of_memory = 207001,
                     memory_free = 207002, no_resources = 207005, no_event_left = 207007, no_stream_left = 207008,
                     internal = 507000, core_exception = 507015, vector_core_exception = 507035,
                     stream_timeout = 507046, event_timeout = 507047;
}  // namespace errors

/// Thrown inside a task: becomes the asynchronous error of its stream.
struct outcome_error {
  int code = errors::core_exception;
  std::string message;
};

/// The error texts of this thread: those that the next aclGetRecentErrMsg returns, the latest first, and those it
/// returned last.
struct error_text {
  std::string pending, fetched;
};
/// The texts of the calling thread.
inline error_text& this_threads_error() {
  thread_local error_text text;
  return text;
}

/// Puts the text in front of this thread's unread texts for aclGetRecentErrMsg (4 KiB of them are kept); returns the
/// code. Successful calls do not clear texts.
inline int fail(int code, std::string message) {
  constexpr std::size_t most = 4096;
  std::string& pending = this_threads_error().pending;
  if (!pending.empty()) message += '\n' + pending;
  if (message.size() > most) message.resize(most);
  pending = std::move(message);
  return code;
}

}  // namespace ascend::emulated
RLCORE_END
