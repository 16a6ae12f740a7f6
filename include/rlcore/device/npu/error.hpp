// Failures of Ascend's functions as exceptions whose one line says all that is known.
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
  npu_error(const std::string& message, ascend::domain where, int number, std::string function)
      : device_error(message), domain(where), code(number), call(std::move(function)) {}
  ascend::domain domain;
  int code;
  std::string call;
};

/// The installed CANN lacks the function `call`.
struct capability_error : npu_error {
  capability_error(const std::string& message, ascend::domain where, std::string function)
      : npu_error(message, where, 0, std::move(function)) {}
};

/// `source` with every run of white space and control characters made one space, at most `limit` bytes of it.
inline std::string one_line(std::string_view source, std::size_t limit = 600) {
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

/// "npu: aclrtMalloc returned 207001 (out of device memory): what CANN says; hint"; aclGetRecentErrMsg belongs to the
/// thread and to its last call, so this comes before any other call. `about` is put behind the name of the call.
inline std::string failure_text(const calls& table, domain where, int number, std::string_view call,
                                std::string_view about = {}) {
  const char* recent = table.rt.aclGetRecentErrMsg != nullptr ? table.rt.aclGetRecentErrMsg() : nullptr;
  const code known = describe(where, number);
  std::string line = "npu: " + std::string(call) + std::string(about) + " returned " + std::to_string(number) + " (" +
                     std::string(known.name) + ")";
  if (recent != nullptr && *recent != '\0') line += ": " + one_line(recent);
  if (!known.hint.empty()) line += "; " + std::string(known.hint);
  return line;
}

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
