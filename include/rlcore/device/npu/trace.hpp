// A log of every call to Ascend's functions, as text by which two runs can be compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/npu/call_log.hpp"

RLCORE_BEGIN
namespace ascend {

/// How the log prints values.
namespace traced {

constexpr const char* type_text(data_type t) {
  switch (t) {
    case data_type::float32:
      return "float32";
    case data_type::float16:
      return "float16";
    case data_type::bfloat16:
      return "bfloat16";
    case data_type::float64:
      return "float64";
    case data_type::int8:
      return "int8";
    case data_type::int16:
      return "int16";
    case data_type::int32:
      return "int32";
    case data_type::int64:
      return "int64";
    case data_type::uint8:
      return "uint8";
    case data_type::uint16:
      return "uint16";
    case data_type::uint32:
      return "uint32";
    case data_type::uint64:
      return "uint64";
    case data_type::boolean:
      return "boolean";
    default:
      return "undefined";
  }
}

inline std::string number_text(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.9g", value);
  return digits;
}

template <class T>
std::string list_text(const T* values, std::uint64_t size) {
  std::string line;
  for (std::uint64_t i = 0; i < size && values != nullptr; ++i) line += (i == 0 ? "" : ",") + std::to_string(values[i]);
  return line;
}

template <class T>
constexpr bool opaque =
    std::is_same_v<std::remove_const_t<T>, aclTensor> || std::is_same_v<std::remove_const_t<T>, aclScalar> ||
    std::is_same_v<std::remove_const_t<T>, aclIntArray> || std::is_same_v<std::remove_const_t<T>, aclTensorList> ||
    std::is_same_v<std::remove_const_t<T>, aclOpExecutor>;

/// A parameter before the call: inputs by value; what the call is to fill as "_".
template <class T>
std::string value_text(T value) {
  if constexpr (std::is_same_v<T, data_type>) {
    return type_text(value);
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    return number_text(static_cast<double>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_same_v<T, const char*> || std::is_same_v<T, char*>) {
    return value == nullptr ? "null" : '"' + std::string(value) + '"';
  } else {
    using pointee = std::remove_pointer_t<T>;
    constexpr bool filled = !std::is_const_v<pointee> && !std::is_void_v<pointee> && !std::is_class_v<pointee>;
    if (filled && value != nullptr) return "_";
    return opaque<pointee> ? call_log::instance().object(value) : call_log::instance().memory(value);
  }
}

/// What memory of an allocating call, or of one that makes an object, is called in the log.
constexpr const char* kind_made_by(std::string_view call) {
  if (call.find("Stream") != call.npos) return "stream";
  if (call.find("Event") != call.npos) return "event";
  if (call.find("Context") != call.npos) return "context";
  return "communicator";
}

/// A parameter after a successful call: "" or what it was given.
template <class T>
std::string answer(const char*, T) {
  return {};
}
inline std::string answer(const char*, std::int32_t* value) { return std::to_string(*value); }
inline std::string answer(const char*, std::uint32_t* value) { return std::to_string(*value); }
inline std::string answer(const char* call, void** made) {
  call_log& log = call_log::instance();
  if (std::string_view(call).find("Malloc") != std::string_view::npos || *made == nullptr) return {};
  std::string known = log.memory(*made);
  if (std::strcmp(call, "aclrtGetCurrentContext") != 0 || known == "host")
    log.name(*made, known = log.number(kind_made_by(call)), true);
  return known;
}

/// What the log learns from calls that make objects; every other call teaches nothing.
template <class... A>
void learn(const char*, const A&...) {}
template <class Last>
void learn(const char* call, void** memory, std::size_t bytes, Last) {  // aclrtMalloc
  if (std::strcmp(call, "aclrtMalloc") == 0) call_log::instance().allocated(*memory, bytes);
}
inline void learn(const char* call, void** memory, std::size_t bytes) {  // aclrtMallocHost
  if (std::strcmp(call, "aclrtMallocHost") == 0) call_log::instance().allocated(*memory, bytes);
}
inline void learn(const char* call, void* handle) {
  if (std::strstr(call, "Destroy") != nullptr) call_log::instance().forget(handle);
}
inline void learn(const char*, std::uint32_t count, std::int32_t*, HcclComm* made) {  // HcclCommInitAll
  for (std::uint32_t i = 1; i < count; ++i)
    call_log::instance().name(made[i], call_log::instance().number("communicator"), true);
}

inline std::string made_text(const std::int64_t* shape, std::uint64_t rank, data_type type, const std::int64_t* strides,
                             std::int64_t offset, format layout, const std::int64_t* storage,
                             std::uint64_t storage_rank, void* data) {
  std::string line = type_text(type);
  line += "[" + list_text(shape, rank) + "]";
  std::int64_t step = 1, elements = 1;
  bool contiguous = true;
  for (std::uint64_t i = rank; i-- > 0; step *= shape[i])
    if (strides != nullptr && shape[i] != 1) contiguous = contiguous && strides[i] == step;
  for (std::uint64_t i = 0; i < storage_rank && storage != nullptr; ++i) elements *= storage[i];
  if (!contiguous) line += " strides " + list_text(strides, rank);
  if (elements != step) line += " of " + std::to_string(elements);
  if (layout != format::nd) line += " format " + std::to_string(static_cast<int>(layout));
  return line + "@" + call_log::instance().memory(data) + (offset == 0 ? "" : "[" + std::to_string(offset) + "]");
}
inline std::string made_text(void* value, data_type type) {
  switch (type) {
    case data_type::float32:
      return number_text(static_cast<double>(*static_cast<float*>(value)));
    case data_type::float64:
      return number_text(*static_cast<double*>(value));
    case data_type::int64:
      return std::to_string(*static_cast<std::int64_t*>(value));
    case data_type::int32:
      return std::to_string(*static_cast<std::int32_t*>(value));
    case data_type::boolean:
      return *static_cast<bool*>(value) ? "true" : "false";
    default:
      return type_text(type);
  }
}
inline std::string made_text(const std::int64_t* values, std::uint64_t size) {
  return "{" + list_text(values, size) + "}";
}
inline std::string made_text(const aclTensor* const* tensors, std::uint64_t size) {
  std::string line;
  for (std::uint64_t i = 0; i < size; ++i) line += (i == 0 ? "" : ", ") + call_log::instance().object(tensors[i]);
  return "{" + line + "}";
}

template <class... A>
std::string arguments(const A&... a) {
  std::string line;
  ((line += (line.empty() ? "" : ", ") + value_text(a)), ...);
  return "(" + line + ")";
}

/// Calls with a status; objects made are named, and their making is a line of what names them.
template <class R, class... A>
R call(const char* name, R (*function)(A...), A... a) {
  call_log& log = call_log::instance();
  if constexpr (std::is_pointer_v<R> && !std::is_same_v<R, const char*>) {
    R made = function(a...);
    if (made != nullptr)
      log.name(made, made_text(a...));
    else
      log.line(std::string(name) + arguments(a...) + " -> null");
    return made;
  } else if constexpr (std::is_pointer_v<R>) {
    R said = function(a...);
    log.line(std::string(name) + arguments(a...) + " -> " + value_text(said));
    return said;
  } else {
    if (std::string_view(name).substr(0, 10) != "aclDestroy") log.line(name + arguments(a...));
    const R status = function(a...);
    std::string given;
    if (status == 0) {
      learn(name, a...);
      const std::string given_by[] = {std::string(), answer(name, a)...};
      for (const std::string& one : given_by)
        if (!one.empty()) given += (given.empty() ? "" : ", ") + one;
    } else {
      given = std::to_string(status);
    }
    if (!given.empty()) log.line("  -> " + given);
    return status;
  }
}

template <auto Member>
struct hook;
template <class Table, class R, class... A, R (*Table::*Member)(A...)>
struct hook<Member> {
  static inline const char* name = "";
  static R call(A... a) {
    const calls& target = call_log::instance().target();
    if constexpr (std::is_same_v<Table, runtime_calls>) return traced::call<R, A...>(name, target.rt.*Member, a...);
    if constexpr (std::is_same_v<Table, meta_calls>) return traced::call<R, A...>(name, target.nn.*Member, a...);
    if constexpr (std::is_same_v<Table, collective_calls>)
      return traced::call<R, A...>(name, target.comm.*Member, a...);
  }
};
template <class... A, operator_call<A...> operator_calls::*Member>
struct hook<Member> {
  static inline const char* name = "";
  static aclnnStatus plan(A... a, std::uint64_t* workspace, aclOpExecutor** executor) {
    call_log& log = call_log::instance();
    log.line(name + arguments(a...));
    const aclnnStatus status = (log.target().op.*Member).plan(a..., workspace, executor);
    if (status != 0) {
      log.line("  -> " + std::to_string(status));
    } else if (workspace != nullptr && executor != nullptr) {
      log.name(*executor, std::string(name) + " planned");
      if (*workspace != 0) log.line("  -> workspace " + std::to_string(*workspace));
    }
    return status;
  }
  static aclnnStatus run(void* workspace, std::uint64_t bytes, aclOpExecutor* executor, aclrtStream stream) {
    call_log& log = call_log::instance();
    log.line(name + (" run" + arguments(workspace, bytes, executor, stream)));
    const aclnnStatus status = (log.target().op.*Member).run(workspace, bytes, executor, stream);
    if (status != 0) log.line("  -> " + std::to_string(status));
    return status;
  }
};

}  // namespace traced

inline const calls& call_log::start(const calls& table, sink to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (to_ && target_ != &table) throw device_error("rlcore: npu: two providers of Ascend's functions in one trace");
  to_ = std::move(to);
  target_ = &table;
#define RLCORE_NPU_CALL(row, need, result, parameters) \
  traced::hook<& RLCORE_NPU_TABLE::row>::name = #row;  \
  table_.RLCORE_NPU_MEMBER.row = table.RLCORE_NPU_MEMBER.row ? traced::hook<&RLCORE_NPU_TABLE::row>::call : nullptr;
#define RLCORE_NPU_TABLE runtime_calls
#define RLCORE_NPU_MEMBER rt
#include "rlcore/device/npu/abi/runtime.inc"
#undef RLCORE_NPU_TABLE
#undef RLCORE_NPU_MEMBER
#define RLCORE_NPU_TABLE meta_calls
#define RLCORE_NPU_MEMBER nn
#include "rlcore/device/npu/abi/meta.inc"
#undef RLCORE_NPU_TABLE
#undef RLCORE_NPU_MEMBER
#define RLCORE_NPU_TABLE collective_calls
#define RLCORE_NPU_MEMBER comm
#include "rlcore/device/npu/abi/collectives.inc"
#undef RLCORE_NPU_TABLE
#undef RLCORE_NPU_MEMBER
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_OPERATOR(row, need, ...)                                                    \
  traced::hook<& operator_calls::row>::name = #row;                                            \
  table_.op.row.plan = table.op.row.plan ? traced::hook<&operator_calls::row>::plan : nullptr; \
  table_.op.row.run = table.op.row.run ? traced::hook<&operator_calls::row>::run : nullptr;
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
  return table_;
}

/// `table` itself, or a logged one if the environment variable RLCORE_NPU_TRACE names a file to write the log to. Every
/// line is flushed before the call that it names, so the last line of a crash is the culprit or what follows it up.
/// Throws file_error if the file cannot be written.
inline const calls& traced_if_asked(const calls& table) {
  call_log& log = call_log::instance();
  const char* path = std::getenv("RLCORE_NPU_TRACE");
  if (path == nullptr || *path == '\0' || &table == &log.table()) return table;
  if (log.logs(table)) return log.table();
  std::shared_ptr<std::FILE> file(std::fopen(path, "w"), [](std::FILE* f) {
    if (f != nullptr) std::fclose(f);
  });
  if (!file) throw file_error("rlcore: cannot write " + std::string(path) + " (RLCORE_NPU_TRACE)");
  return log.start(table, [file](std::string_view line) {
    std::fprintf(file.get(), "%.*s\n", static_cast<int>(line.size()), line.data());
    std::fflush(file.get());
  });
}

}  // namespace ascend
RLCORE_END
