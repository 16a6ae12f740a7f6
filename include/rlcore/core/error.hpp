// Exceptions for run-time failures, one type per origin. Programming errors (shapes of arguments that do not fit) are
// std::invalid_argument instead. Every message is one line: what, where, expected, nearest known name.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// `text` in one line: control characters become \n or \xNN, and of more than `limit` bytes the middle is left out.
inline std::string one_line(std::string_view text, std::size_t limit = 4000) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.size() > limit && i == limit / 2) {
      out += "...";
      i = text.size() - limit / 2;
    }
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\n')
      out += "\\n";
    else if (c < 0x20 || c == 0x7f)
      (out += "\\x") += {"0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15]};
    else
      out += text[i];
  }
  return out;
}

/// Base of all run-time errors that are no fault of the calling code. Whatever a message quotes, it is one_line().
struct error : std::runtime_error {
  /// The message of what().
  explicit error(std::string_view message) : std::runtime_error(one_line(message)) {}
};

/// A setting on the command line or in a settings struct is unknown, of the wrong type or out of range.
struct config_error : error {
  using error::error;
};

/// A file cannot be opened, read, written or moved; the message carries the path and the system's reason.
struct file_error : error {
  using error::error;
};

/// A file was read, but its content does not match its format or the model.
struct format_error : error {
  using error::error;
};

/// A row of a data set is missing a column, has the wrong type, or names an unknown source.
struct data_error : error {
  using error::error;
};

/// A device is absent or reported a failure; the message carries the operation and the vendor's code.
struct device_error : error {
  using error::error;
};

/// Ranks disagree about a collective, a rank exited, or a timeout expired.
struct communication_error : error {
  using error::error;
};

/// Throws std::invalid_argument with `message` unless `condition` holds: the check for programming errors.
inline void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(std::string("rlcore: ") + message);
}

RLCORE_END
