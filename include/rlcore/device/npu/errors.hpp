// Failures of Ascend's functions: error codes with names and hints, exceptions with one line of text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/npu/abi/calls.hpp"

RLCORE_BEGIN
namespace ascend {

/// The library of an error code. AscendCL's and aclnn's codes do not overlap; HCCL counts from 0.
enum class domain : unsigned char { runtime, operators, collectives };

/// An error code, its meaning, and a hint for the user (may be empty).
struct code {
  int number;
  std::string_view name, hint;
};

/// The codes of AscendCL, of the runtime below it, and of aclnn.
inline constexpr code acl_codes[] = {
    {100000, "invalid parameter", ""},
    {100001, "not initialised", ""},
    {100002, "initialised before", ""},
    {100003, "invalid file", ""},
    {100037, "finalised before", ""},
    {100039, "a stub library was called", "keep devlib directories out of LD_LIBRARY_PATH: they only serve linking"},
    {107000, "invalid parameter", ""},
    {107001, "invalid device", "npu_doctor lists the devices; ASCEND_RT_VISIBLE_DEVICES limits and renumbers them"},
    {107002, "no device is set in this thread", ""},
    {107003, "the stream or event belongs to another device or context", ""},
    {107006, "an event without a time", ""},
    {107007, "the events are in the wrong order", ""},
    {107008, "an address that is not aligned", ""},
    {107016, "invalid kind of memory", ""},
    {107017, "invalid handle", ""},
    {107019, "timeout of a wait", ""},
    {107020, "timeout of a task", ""},
    {107022, "the tasks of the device are being aborted", ""},
    {107023, "the stream is being aborted", ""},
    {161001, "a null pointer for a tensor", ""},
    {161002, "invalid argument of an operator", ""},
    {200000, "out of host memory", ""},
    {200001, "not supported", ""},
    {200002, "invalid device", ""},
    {207000, "feature not supported", ""},
    {207001, "out of device memory", "smaller micro-batches or another device; npu-smi info shows who holds memory"},
    {207002, "memory could not be freed", ""},
    {207003, "overflow in an AI core", ""},
    {207004, "no device", "is the driver installed, and is /dev/davinci* visible here and open to this user?"},
    {207005, "out of resources", ""},
    {207006, "no permission", "may this user open /dev/davinci*? the group HwHiAiUser may"},
    {207007, "out of events", ""},
    {207008, "out of streams", ""},
    {207009, "out of notifications", ""},
    {207018, "out of device memory", "smaller micro-batches or another device; npu-smi info shows who holds memory"},
    {361001, "failure of the runtime below an operator", ""},
    {500000, "internal error", ""},
    {500001, "failure", ""},
    {507000, "internal error of the runtime", ""},
    {507001, "internal error of the task scheduler", ""},
    {507002, "the stream is full", ""},
    {507008, "wrong SoC", "is this CANN for another SoC?"},
    {507009, "the device does not know this kind of task", "is the driver as new as CANN asks?"},
    {507010, "the task scheduler stopped answering", "npu-smi info -t health tells the device's state"},
    {507012, "timeout of a report", ""},
    {507013, "failure of the copy engine", ""},
    {507014, "timeout of an AI core", ""},
    {507015, "exception in an AI core", "rlcore.npu.sync_each_operation=True tells which operator it is"},
    {507016, "trap in an AI core", "rlcore.npu.sync_each_operation=True tells which operator it is"},
    {507017, "timeout of an AI CPU", ""},
    {507018, "exception in an AI CPU", ""},
    {507033, "the device cannot be set up",
     "npu-smi info and fuser /dev/davinci* show who holds it, dmesg whether it is "
     "dead; after a killed process it may take a while"},
    {507034, "timeout of a vector core", ""},
    {507035, "exception in a vector core", "rlcore.npu.sync_each_operation=True tells which operator it is"},
    {507036, "trap in a vector core", "rlcore.npu.sync_each_operation=True tells which operator it is"},
    {507042, "a cube core read beyond memory", "rlcore.npu.sync_each_operation=True tells which operator it is"},
    {507043, "a cube core wrote beyond memory", "rlcore.npu.sync_each_operation=True tells which operator it is"},
    {507044, "a vector core read beyond memory", "rlcore.npu.sync_each_operation=True tells which operator it is"},
    {507045, "a vector core wrote beyond memory", "rlcore.npu.sync_each_operation=True tells which operator it is"},
    {507046, "timeout while waiting for a stream", ""},
    {507047, "timeout while waiting for an event", ""},
    {507053, "error in the device's memory", ""},
    {507054, "errors of several bits in the device's memory", ""},
    {507056, "failure of a link between devices", ""},
    {507899, "failure of the driver", "is the driver as new as CANN asks?"},
    {507900, "internal error of an AI CPU", ""},
    {507901, "the connection to the device was lost", ""},
    {561000, "internal error of an operator", ""},
    {561001, "the operator could not infer its shapes", ""},
    {561002, "the operator could not be tiled", ""},
    {561003, "the operator's kernel was not found", "is the kernels package of this SoC installed, in CANN's version?"},
    {561101, "no executor", ""},
    {561102, "invalid arguments inside an operator", ""},
    {561103, "a null pointer inside an operator", ""},
    {561107, "ASCEND_OPP_PATH is not set", "source set_env.sh of CANN before the program starts"},
    {561112, "no kernels package", "install the kernels package of this SoC, in CANN's version"},
};

/// The codes of HCCL.
inline constexpr code hccl_codes[] = {
    {1, "invalid parameter", ""},
    {2, "null pointer", ""},
    {3, "out of memory", ""},
    {4, "internal error", ""},
    {5, "not supported", ""},
    {6, "not found", ""},
    {7, "unavailable", ""},
    {8, "failure of a system call", ""},
    {9, "timeout", "did every rank issue the same collectives in the same order? HCCL_EXEC_TIMEOUT sets the limit"},
    {10, "a file cannot be opened", ""},
    {11, "no TCP connection", "HCCL_IF_IP or HCCL_SOCKET_IFNAME choose the network interface"},
    {12, "no RoCE connection", ""},
    {13, "failure of a TCP transfer", ""},
    {14, "failure of a RoCE transfer", ""},
    {15, "failure of the runtime", ""},
    {16, "failure of the driver", ""},
    {17, "failure of profiling", ""},
    {18, "failure of a kernel", ""},
    {19, "failure of the network", ""},
    {20, "try again", ""},
    {21, "failure at a remote rank", ""},
    {22, "suspending", ""},
    {23, "an operation cannot be tried again", ""},
    {24, "out of memory", ""},
    {1041, "the status of each item tells which failed", ""},
};

/// Looks up an error code; the name is "unknown code" if it is not listed.
constexpr code describe(domain where, int number) {
  const std::span<const code> known =
      where == domain::collectives ? std::span<const code>(hccl_codes) : std::span<const code>(acl_codes);
  for (const code& c : known)
    if (c.number == number) return c;
  return {number, "unknown code", ""};
}

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
