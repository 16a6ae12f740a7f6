// Exceptions for failures of Ascend's functions, with one line of text.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/error.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/device/npu/codes.hpp"

RLCORE_BEGIN
namespace ascend {

/// A function of AscendCL, aclnn or HCCL returned `code`.
struct npu_error : device_error {
  /// `function` of the interface `where` returned `number`; `message` is the text.
  npu_error(const std::string& message, ascend::domain where, int number, std::string function)
      : device_error(message), domain(where), code(number), call(std::move(function)) {}
  ascend::domain domain;
  int code;
  std::string call;
};

/// The installed CANN lacks the function `call`.
struct capability_error : npu_error {
  /// `function` of the interface `where` is missing; the code is 0.
  capability_error(const std::string& message, ascend::domain where, std::string function)
      : npu_error(message, where, 0, std::move(function)) {}
};

/// `source` with every run of white space and control characters replaced by one space, at most `limit` bytes.
std::string one_line(std::string_view source, std::size_t limit = 600);

/// Drops CANN's messages for this thread. A message stays until it is read, even if later calls succeed, so the message
/// of an ignored failure would appear in the next report.
inline void drop_messages(const calls& table) {
  if (table.rt.aclGetRecentErrMsg != nullptr) (void)table.rt.aclGetRecentErrMsg();
}
/// Returns whether a call failed, and drops its message; for failures that can be ignored.
inline bool ignore(const calls& table, int number) {
  if (number != 0) [[unlikely]]
    drop_messages(table);
  return number != 0;
}

/// "npu: aclrtMalloc returned 207001 (out of device memory): CANN's message; hint". CANN returns all messages of this
/// thread since the last query, the latest first, so several lines may belong to several failures. `about` follows the
/// name of the call.
std::string failure_text(const calls& table, domain where, int number, std::string_view call,
                         std::string_view about = {});

/// Throws npu_error unless `number` is 0.
inline void check(const calls& table, domain where, int number, const char* call, std::string_view about = {}) {
  if (number != 0) [[unlikely]]
    throw npu_error(failure_text(table, where, number, call, about), where, number, call);
}
inline void check(const calls& table, aclError number, const char* call, std::string_view about = {}) {
  check(table, domain::runtime, number, call, about);
}

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend {

RLCORE_INLINE std::string one_line(std::string_view source, std::size_t limit) {
  std::string line;
  for (const char c : source) {
    if (static_cast<unsigned char>(c) > ' ' && c != '\x7f')
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
    if (line.size() >= limit) return line + " ...";
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

RLCORE_INLINE std::string failure_text(const calls& table, domain where, int number, std::string_view call,
                                       std::string_view about) {
  const char* recent = table.rt.aclGetRecentErrMsg != nullptr ? table.rt.aclGetRecentErrMsg() : nullptr;
  const code known = describe(where, number);
  std::string line = "npu: " + std::string(call) + std::string(about) + " returned " + std::to_string(number) + " (" +
                     std::string(known.name) + ")";
  if (const std::string said = one_line(recent != nullptr ? recent : ""); !said.empty()) {
    const std::string_view messages = recent;
    const std::size_t first = messages.find('\n', messages.find_first_not_of(" \t\r\n"));
    const bool several = first != messages.npos && messages.find_first_not_of(" \t\r\n", first) != messages.npos;
    line += ": " + said + (several ? " (latest first)" : "");
  }
  if (!known.hint.empty()) line += "; " + std::string(known.hint);
  return line;
}

}  // namespace ascend
RLCORE_END
#endif
