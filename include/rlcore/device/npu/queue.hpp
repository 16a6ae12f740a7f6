// Operator queue: a stream with memory, a workspace and the names of recent operations.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/device/npu/allocator.hpp"
#include "rlcore/device/npu/arguments.hpp"
#include "rlcore/device/npu/stream.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace ascend {

/// An asynchronous error does not name its operation: it is one of those enqueued since the last wait; this keeps the
/// last 32. Names are literals.
class recent_operations {
 public:
  /// Notes an operation; the pointer is kept.
  void add(const char* name) noexcept { names_[count_++ % names_.size()] = name; }
  void clear() noexcept { count_ = 0; }
  std::size_t count() const noexcept { return count_; }
  /// The name if exactly one operation is recorded; else null.
  const char* only() const noexcept { return count_ == 1 ? names_[0] : nullptr; }
  /// "; asked for since the last wait, latest first: aclnnMatmul, aclnnAdd x3", or nothing: for the end of a message.
  std::string written() const {
    if (count_ == 0) return {};
    const std::size_t n = std::min(count_, names_.size());
    std::string line = count_ == 1 ? "; the operation is " : "; asked for since the last wait, latest first: ";
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t same = 1;
      while (i + 1 < n && at(i + 1) == at(i)) ++same, ++i;
      line += at(i);
      if (same > 1) line += " x" + std::to_string(same);
      if (i + 1 < n) line += ", ";
    }
    if (count_ > n) line += ", and " + std::to_string(count_ - n) + " before";
    return line;
  }

 private:
  std::string_view at(std::size_t back) const noexcept { return names_[(count_ - 1 - back) % names_.size()]; }

  std::array<const char*, 32> names_{};
  std::size_t count_ = 0;
};

/// Settings of a queue.
struct queue_settings {
  bool deterministic = true;         ///< operators that add atomically take their ordered variants
  bool sync_each_operation = false;  ///< waits after every operator, so that an error names the one that failed
  bool exact_memory = false;         ///< no caching: every allocation is Ascend's own, for finding stray accesses
};

template <class T>
class scratch;

/// Runs operators of one device in order, from one thread at a time. All calls are asynchronous except download and
/// wait.
class queue {
 public:
  /// A queue with a stream of its own on a device, which is opened if necessary. Throws npu_error.
  explicit queue(std::shared_ptr<ascend::session> owner, int device = 0, queue_settings settings = {})
      : settings_(settings),
        device_(std::move(owner), device),
        memory_(allocator::of(device_)),
        stream_(device_),
        staging_(stream_) {}
  queue(const queue&) = delete;
  queue& operator=(const queue&) = delete;
  /// Waits; a failure that was not reported by an earlier wait is lost.
  ~queue();

  const calls& table() const noexcept { return device_.table(); }
  const device_handle& device() const noexcept { return device_; }
  const ascend::stream& stream() const noexcept { return stream_; }
  const queue_settings& settings() const noexcept { return settings_; }
  allocator& memory() noexcept { return *memory_; }
  const allocator& memory() const noexcept { return *memory_; }

  /// Device memory for use on this queue; null for 0 bytes.
  void* allocate(std::size_t bytes);
  /// Operators enqueued before may still use it.
  void release(void* data) noexcept { memory_->release(data); }
  /// Returns when the host memory may be reused.
  void upload(void* device, const void* host, std::size_t bytes) {
    if (bytes != 0) put("upload", [&] { staging_.upload(device, host, bytes); });
  }
  /// Returns when the data has arrived; throws npu_error for earlier failures.
  void download(void* host, const void* device, std::size_t bytes);
  /// Sets bytes of device memory to 0.
  void zero(void* data, std::size_t bytes) {
    if (bytes == 0) return;
    put("zero",
        [&] { check(table(), table().rt.aclrtMemsetAsync(data, bytes, 0, bytes, stream_.get()), "aclrtMemsetAsync"); });
  }
  /// From device memory to device memory.
  void copy(void* to, const void* from, std::size_t bytes);
  /// Waits for all work; throws npu_error for failures, with the names of recent operations.
  void wait();
  /// Makes later work here wait for the work enqueued in `other` so far. Memory that both use must be kept until both
  /// are done with it: wait, or allocator::used_until.
  void after(queue& other) { other.mark().block(stream_); }
  /// An event after all work enqueued so far; the next call records it again.
  event& mark() {
    if (!mark_) mark_.emplace(device_);
    mark_->record(stream_);
    return *mark_;
  }

  /// Enqueues an operator with its arguments in Ascend's order; tensors may be destroyed afterwards. Throws
  /// capability_error if this CANN lacks it and npu_error with the arguments if it refuses them.
  template <class... A, class... B>
  void run(const operator_call<A...>& op, B&&... arguments) {
    static_assert(sizeof...(A) == sizeof...(B), "rlcore: an operator takes the arguments of its row in operators.inc");
    if (!op) [[unlikely]]
      missing(op.name);
    const auto guard = device_.enter();
    device_.set_deterministic(settings_.deterministic);
    std::uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus status = op.plan(static_cast<A>(arguments)..., &bytes, &executor);
    if (status != 0) [[unlikely]] {
      const std::string line =
          failure_text(table(), domain::operators, status, std::string(op.name) + "GetWorkspaceSize");
      throw npu_error(line + written(arguments...), domain::operators, status, op.name);
    }
    enqueue(op.name, op.run, bytes, executor);
    if (!settings_.sync_each_operation) return;
    try {
      wait();
    } catch (const npu_error& e) {
      throw npu_error(e.what() + written(arguments...), e.domain, e.code, e.call);
    }
  }

  /// Device memory for the duration of a scope: stream order separates it from the next use.
  template <class T>
  scratch<T> take(extent_t size);

  /// A tensor for run(), see tensor_argument.
  template <class T>
  tensor_argument tensor(const T* data, const dimensions& shape, const dimensions& strides = {},
                         std::int64_t offset = 0) const {
    return {table(), data, shape, strides, offset};
  }
  /// A number for run(), see make_scalar().
  template <class T>
  scalar_argument scalar(T value) const {
    return make_scalar(table(), value);
  }
  /// Numbers for run(), see make_ints().
  ints_argument ints(std::span<const std::int64_t> values) const { return make_ints(table(), values); }
  ints_argument ints(std::initializer_list<std::int64_t> values) const {
    return make_ints(table(), {values.begin(), values.size()});
  }
  /// Tensors for run(), see make_list(): the list takes ownership.
  list_argument list(std::span<tensor_argument> tensors) const { return make_list(table(), tensors); }
  /// list({tensor(...), tensor(...)})
  template <std::size_t N>
  list_argument list(tensor_argument (&&tensors)[N]) const {
    return make_list(table(), tensors);
  }

 private:
  using phase_two = aclnnStatus (*)(void*, std::uint64_t, aclOpExecutor*, aclrtStream);

  /// Enqueues what f does.
  template <class F>
  void put(const char* name, F&& f) {
    const auto guard = device_.enter();
    try {
      f();
    } catch (const npu_error& e) {
      refused(e);
    }
    recent_.add(name);
    if (settings_.sync_each_operation) wait();
  }
  template <class... B>
  RLCORE_NOINLINE static std::string written(const B&... arguments) {
    std::string line;
    ((line += (line.empty() ? "; arguments: " : ", ") + argument_text(arguments)), ...);
    return line;
  }
  void enqueue(const char* name, phase_two second, std::uint64_t bytes, aclOpExecutor* executor);
  /// The workspace only grows. The old block is released in stream order.
  void grow(std::size_t bytes);
  [[noreturn]] void missing(const char* name) const {
    throw capability_error(
        lack_text(device_.session()->provider(), name, feature_of(name)) + "; npu_doctor lists what else is missing",
        domain::operators, name);
  }

  /// A stream that has stopped at a failure refuses all calls; reports the original failure.
  [[noreturn]] void refused(const npu_error& e);
  npu_error suspecting(const npu_error& e) const {
    return {e.what() + recent_.written(), e.domain, e.code, recent_.only() != nullptr ? recent_.only() : e.call};
  }

  queue_settings settings_;
  device_handle device_;
  std::shared_ptr<allocator> memory_;
  ascend::stream stream_;
  staging staging_;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  std::optional<event> mark_;
  recent_operations recent_;
};

/// `size` elements of device memory, released in the queue's order when they go out of scope.
template <class T>
class scratch {
 public:
  /// Throws what queue::allocate() throws.
  scratch(queue& owner, extent_t size)
      : queue_(&owner),
        data_(static_cast<T*>(owner.allocate(static_cast<std::size_t>(size) * sizeof(T)))),
        size_(size) {}
  scratch(scratch&& other) noexcept
      : queue_(other.queue_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  scratch& operator=(scratch&& other) noexcept {
    std::swap(queue_, other.queue_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~scratch() { queue_->release(data_); }

  T* data() const noexcept { return data_; }
  extent_t size() const noexcept { return size_; }
  operator T*() const noexcept { return data_; }

 private:
  queue* queue_;
  T* data_;
  extent_t size_;
};

template <class T>
scratch<T> queue::take(extent_t size) {
  return {*this, size};
}

}  // namespace ascend

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend {

RLCORE_INLINE queue::~queue() {
  device_.leave("aclrtSynchronizeStream",
                [this](const calls& c) { return c.rt.aclrtSynchronizeStream(stream_.get()); });
  memory_->release(workspace_);
  memory_->forget(stream_.get());
}

RLCORE_INLINE void* queue::allocate(std::size_t bytes) {
  try {
    return memory_->allocate(bytes, stream_.get(), settings_.exact_memory);
  } catch (const npu_error& e) {
    if (e.code == 207001) throw;
    throw suspecting(e);  // releasing the cache waits for the device and may report a failure
  }
}

RLCORE_INLINE void queue::download(void* host, const void* device, std::size_t bytes) {
  if (bytes == 0) return;
  try {
    staging_.download(host, device, bytes);
  } catch (const npu_error& e) {
    throw suspecting(e);
  }
  recent_.clear();
}

RLCORE_INLINE void queue::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  put("copy", [&] {
    check(table(), table().rt.aclrtMemcpyAsync(to, bytes, from, bytes, copy_kind::device_to_device, stream_.get()),
          "aclrtMemcpyAsync", " on the device");
  });
}

RLCORE_INLINE void queue::wait() {
  try {
    stream_.synchronize();
  } catch (const npu_error& e) {
    throw suspecting(e);
  }
  recent_.clear();
}

RLCORE_INLINE void queue::enqueue(const char* name, phase_two second, std::uint64_t bytes, aclOpExecutor* executor) {
  if (bytes > workspace_bytes_) {
    try {
      grow(static_cast<std::size_t>(bytes));
    } catch (...) {  // the second phase would have freed it
      if (!ignore(table(), table().nn.aclSetAclOpExecutorRepeatable(executor)))
        ignore(table(), table().nn.aclDestroyAclOpExecutor(executor));
      throw;
    }
  }
  const aclnnStatus status = second(bytes == 0 ? nullptr : workspace_, bytes, executor, stream_.get());
  if (status != 0) [[unlikely]]
    refused({failure_text(table(), domain::operators, status, name), domain::operators, status, name});
  recent_.add(name);
}

RLCORE_INLINE void queue::grow(std::size_t bytes) {
  memory_->release(std::exchange(workspace_, nullptr));
  workspace_bytes_ = 0;
  workspace_ = allocate(bytes);
  workspace_bytes_ = bytes;
}

RLCORE_INLINE void queue::refused(const npu_error& e) {
  try {
    stream_.synchronize();
  } catch (const npu_error& cause) {
    throw npu_error(cause.what() + recent_.written() + "; " + e.call + " was refused with " + std::to_string(e.code),
                    cause.domain, cause.code, recent_.only() != nullptr ? recent_.only() : cause.call);
  }
  recent_.clear();
  throw e;
}

}  // namespace ascend
RLCORE_END
#endif
