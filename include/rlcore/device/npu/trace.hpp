// Call tracing of Ascend's functions, as text for the comparison of two runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/npu/call_log.hpp"
#include "rlcore/device/npu/errors.hpp"

RLCORE_BEGIN
namespace ascend {

/// Text formats of logged values.
namespace traced {

/// A number with nine significant digits.
inline std::string decimal(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.9g", value);
  return digits;
}

/// "2,3": comma-separated values.
template <class T>
std::string list_text(const T* values, std::uint64_t size) {
  std::string line;
  for (std::uint64_t i = 0; i < size && values != nullptr; ++i) line += (i == 0 ? "" : ",") + std::to_string(values[i]);
  return line;
}

/// Type-erased argument, so that the hooks of all functions share their code.
struct argument {
  /// The ways to print an argument: out_... are results of a known type, `out` is any other result.
  enum kind : unsigned char {
    integer,
    real,
    type,
    truth,
    characters,
    object,
    memory,
    out_i32,
    out_u32,
    out_handle,
    out
  };
  kind is = integer;
  std::int64_t number = 0;
  double value = 0;
  const void* pointer = nullptr;

  /// Takes an argument of any function in the lists; its type determines how it is printed.
  template <class T>
  explicit argument(T a) {
    if constexpr (std::is_same_v<T, bool>) {
      is = truth, number = a;
    } else if constexpr (std::is_same_v<T, data_type>) {
      is = type, number = static_cast<int>(a);
    } else if constexpr (std::is_floating_point_v<T>) {
      is = real, value = static_cast<double>(a);
    } else if constexpr (!std::is_pointer_v<T>) {
      number = static_cast<std::int64_t>(a);
    } else {
      using pointee = std::remove_const_t<std::remove_pointer_t<T>>;
      pointer = a;
      if constexpr (std::is_same_v<pointee, char>)
        is = characters;
      else if constexpr (std::is_same_v<pointee, aclTensor> || std::is_same_v<pointee, aclScalar> ||
                         std::is_same_v<pointee, aclIntArray> || std::is_same_v<pointee, aclTensorList> ||
                         std::is_same_v<pointee, aclOpExecutor>)
        is = object;
      else if constexpr (std::is_same_v<T, std::int32_t*>)
        is = out_i32;
      else if constexpr (std::is_same_v<T, std::uint32_t*>)
        is = out_u32;
      else if constexpr (std::is_same_v<T, void**>)
        is = out_handle;
      else if constexpr (std::is_void_v<pointee> || std::is_class_v<pointee> ||
                         std::is_const_v<std::remove_pointer_t<T>>)
        is = memory;
      else
        is = out;
    }
  }

  /// The text before the call; "_" stands for a result.
  std::string before() const;
  /// The text of a result after a successful call, without values that differ between runs.
  std::string after(std::string_view call) const;
};
using argument_list = std::initializer_list<argument>;  ///< of one call

/// Logs a call: its name, the phase of an operator or nothing, its arguments, and its result (`end`) if known.
RLCORE_NOINLINE inline void log_call(const char* name, const char* phase, argument_list arguments,
                                     const char* end = "") {
  std::string line;
  for (const argument& a : arguments) line += (line.empty() ? "" : ", ") + a.before();
  call_log::instance().line(std::string(name) + phase + "(" + line + ")" + end);
}

/// Logs the result of a call if it is more than success, and records new objects and allocations.
void log_answer(std::string_view call, int status, argument_list arguments);
/// Logs the result of an operator's first phase: an error, or the workspace unless it is 0.
void log_plan(const char* name, int status, const std::uint64_t* workspace, aclOpExecutor* const* executor);

/// A tensor, a scalar, an array or a list in the log, from the arguments of the function that makes it.
std::string made_text(const std::int64_t* shape, std::uint64_t rank, data_type type, const std::int64_t* strides,
                      std::int64_t offset, format layout, const std::int64_t* storage, std::uint64_t storage_rank,
                      void* data);
std::string made_text(void* value, data_type type);
inline std::string made_text(const std::int64_t* values, std::uint64_t size) {
  return "{" + list_text(values, size) + "}";
}
inline std::string made_text(const aclTensor* const* tensors, std::uint64_t size) {
  std::string line;
  for (std::uint64_t i = 0; i < size; ++i) line += (i == 0 ? "" : ", ") + call_log::instance().object(tensors[i]);
  return "{" + line + "}";
}

/// The entry of the table for one function. Calls that make objects only name them; the operator prints them.
template <auto Member>
struct hook;
template <class Table, class R, class... A, R (*Table::*Member)(A...)>
struct hook<Member> {
  static inline const char* name = "";
  static inline R (*target)(A...) = nullptr;
  static R call(A... a) {
    if constexpr (std::is_same_v<R, const char*>) {
      R said = target(a...);
      log_call(name, "", {argument(a)...}, (" -> " + argument(said).before()).c_str());
      return said;
    } else if constexpr (std::is_pointer_v<R>) {
      R made = target(a...);
      if (made == nullptr)
        log_call(name, "", {argument(a)...}, " -> null");
      else
        call_log::instance().name(made, made_text(a...));
      return made;
    } else {
      if (std::string_view(name).substr(0, 10) != "aclDestroy") log_call(name, "", {argument(a)...});
      const R status = target(a...);
      log_answer(name, status, {argument(a)...});
      return status;
    }
  }
};
template <class... A, operator_call<A...> operator_calls::* Member>
struct hook<Member> {
  static inline operator_call<A...> target{};
  static aclnnStatus plan(A... a, std::uint64_t* workspace, aclOpExecutor** executor) {
    log_call(target.name, "", {argument(a)...});
    const aclnnStatus status = target.plan(a..., workspace, executor);
    log_plan(target.name, status, workspace, executor);
    return status;
  }
  static aclnnStatus run(void* workspace, std::uint64_t bytes, aclOpExecutor* executor, aclrtStream stream) {
    log_call(target.name, " run", {argument(workspace), argument(bytes), argument(executor), argument(stream)});
    const aclnnStatus status = target.run(workspace, bytes, executor, stream);
    if (status != 0) log_answer(target.name, status, {});
    return status;
  }
};

/// Puts the hook of a function into the table `to` and its target into the hook; null where `from` has null.
template <auto Member, class Table>
void redirect(const char* name, const Table& from, Table& to) {
  using row = hook<Member>;
  if constexpr (std::is_same_v<Table, operator_calls>) {
    row::target = from.*Member;
    to.*Member = {name, (from.*Member).plan ? row::plan : nullptr, (from.*Member).run ? row::run : nullptr};
  } else {
    row::name = name;
    row::target = from.*Member;
    to.*Member = from.*Member ? row::call : nullptr;
  }
}

}  // namespace traced

/// `table` itself, or a logged one if `name`, or else the environment variable RLCORE_NPU_TRACE, names a file to write
/// the log to. Every line is flushed before its call, so the last line before a crash names the failing call or a later
/// one. Throws file_error if the file cannot be written.
const calls& traced_if_asked(const calls& table, const std::string& name = {});

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::traced {

RLCORE_NOINLINE RLCORE_INLINE std::string argument::before() const {
  switch (is) {
    case integer:
      return std::to_string(number);
    case real:
      return decimal(value);
    case type:
      return name_of(static_cast<data_type>(number));
    case truth:
      return number != 0 ? "true" : "false";
    case characters:
      return pointer == nullptr ? "null" : '"' + one_line(static_cast<const char*>(pointer)) + '"';
    case object:
      return call_log::instance().object(pointer);
    case memory:
      return call_log::instance().memory(pointer);
    default:
      return pointer == nullptr ? "null" : "_";
  }
}

RLCORE_NOINLINE RLCORE_INLINE std::string argument::after(std::string_view call) const {
  if (is == out_i32) return std::to_string(*static_cast<const std::int32_t*>(pointer));
  if (is == out_u32) return std::to_string(*static_cast<const std::uint32_t*>(pointer));
  if (is != out_handle || call.find("Malloc") != call.npos) return {};
  const void* made = *static_cast<const void* const*>(pointer);
  if (made == nullptr) return {};
  call_log& log = call_log::instance();
  std::string known = log.memory(made);
  if (call != "aclrtGetCurrentContext" || known == "host") {
    const auto has = [&](std::string_view part) { return call.find(part) != call.npos; };
    known = log.number(has("Stream") ? "stream" : has("Event") ? "event" : has("Context") ? "context" : "communicator");
    log.name(made, known, true);
  }
  return known;
}

RLCORE_NOINLINE RLCORE_INLINE void log_answer(std::string_view call, int status, argument_list arguments) {
  call_log& log = call_log::instance();
  if (status != 0) return log.line("  -> " + std::to_string(status));
  const argument* const a = arguments.begin();
  if (call == "aclrtMalloc" || call == "aclrtMallocHost")
    log.allocated(*static_cast<const void* const*>(a[0].pointer), static_cast<std::size_t>(a[1].number));
  if (call.find("Destroy") != call.npos) log.forget(a[0].pointer);
  if (call == "HcclCommInitAll")
    for (std::int64_t i = 1; i < a[0].number; ++i)
      log.name(static_cast<const HcclComm*>(a[2].pointer)[i], log.number("communicator"), true);
  std::string line;
  for (const argument& one : arguments)
    if (const std::string filled = one.after(call); !filled.empty()) line += (line.empty() ? "" : ", ") + filled;
  if (!line.empty()) log.line("  -> " + line);
}

RLCORE_NOINLINE RLCORE_INLINE void log_plan(const char* name, int status, const std::uint64_t* workspace,
                                            aclOpExecutor* const* executor) {
  call_log& log = call_log::instance();
  if (status != 0) return log.line("  -> " + std::to_string(status));
  if (workspace == nullptr || executor == nullptr) return;
  log.name(*executor, std::string(name) + " planned");
  if (*workspace != 0) log.line("  -> workspace " + std::to_string(*workspace));
}

RLCORE_INLINE std::string made_text(const std::int64_t* shape, std::uint64_t rank, data_type type,
                                    const std::int64_t* strides, std::int64_t offset, format layout,
                                    const std::int64_t* storage, std::uint64_t storage_rank, void* data) {
  std::string line = name_of(type);
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

RLCORE_INLINE std::string made_text(void* value, data_type type) {
  switch (type) {
    case data_type::float32:
      return decimal(static_cast<double>(*static_cast<float*>(value)));
    case data_type::float64:
      return decimal(*static_cast<double*>(value));
    case data_type::int64:
      return std::to_string(*static_cast<std::int64_t*>(value));
    case data_type::int32:
      return std::to_string(*static_cast<std::int32_t*>(value));
    case data_type::boolean:
      return *static_cast<bool*>(value) ? "true" : "false";
    default:
      return name_of(type);
  }
}

}  // namespace ascend::traced

namespace ascend {

RLCORE_INLINE const calls& call_log::start(const calls& from, sink to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (to_ && target_ != &from) throw device_error("rlcore: npu: two providers of Ascend's functions in one trace");
  to_ = std::move(to);
  target_ = &from;
#define RLCORE_NPU_CALL(name, need, result, parameters) \
  traced::redirect<&runtime_calls::name>(#name, from.rt, table_.rt);
#include "rlcore/device/npu/abi/runtime.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_CALL(name, need, result, parameters) traced::redirect<&meta_calls::name>(#name, from.nn, table_.nn);
#include "rlcore/device/npu/abi/meta.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_CALL(name, need, result, parameters) \
  traced::redirect<&collective_calls::name>(#name, from.comm, table_.comm);
#include "rlcore/device/npu/abi/collectives.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_OPERATOR(name, need, ...) traced::redirect<&operator_calls::name>(#name, from.op, table_.op);
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
  return table_;
}

RLCORE_INLINE const calls& traced_if_asked(const calls& table, const std::string& name) {
  call_log& log = call_log::instance();
  const char* path = name.empty() ? std::getenv("RLCORE_NPU_TRACE") : name.c_str();
  if (path == nullptr || *path == '\0' || &table == &log.table()) return table;
  if (log.logs(table)) return log.table();
  std::shared_ptr<std::FILE> file(std::fopen(path, "w"), [](std::FILE* f) {
    if (f != nullptr) std::fclose(f);
  });
  if (!file) throw file_error("rlcore: cannot write " + std::string(path) + ", the log of calls");
  return log.start(table, [file](std::string_view line) {
    std::fprintf(file.get(), "%.*s\n", static_cast<int>(line.size()), line.data());
    std::fflush(file.get());
  });
}

}  // namespace ascend
RLCORE_END
#endif
