// Session of the Ascend runtime, from aclInit to aclFinalize; RAII guard of the calling thread's current device.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "rlcore/device/npu/errors.hpp"

RLCORE_BEGIN
namespace ascend {

class allocator;

/// A device that a session has opened.
struct opened_device {
  int index = 0;
  aclrtContext context = nullptr;
  std::atomic<int> deterministic = -1;  ///< last value set on the context; queues with another value set it again
};

/// Version of the installed CANN, and its SoC.
struct capabilities {
  std::string soc;                ///< "Ascend910B3"; empty if the runtime does not say
  int cann_version = 0;           ///< 80300 for 8.3.RC1 and 8.3.0; 0 if unknown
  std::string cann_version_text;  ///< "8.3.RC1"
};

/// 80300 for "8.3.RC1", 80501 for "8.5.1"; 0 for anything else.
int version_number(std::string_view source);

/// Queries the version and the SoC by functions of `table` that do not need aclInit.
capabilities ask_capabilities(const calls& table);

/// Every owner of an Ascend object keeps a session, so the runtime ends after the last one. Each table has one session,
/// which finalises the runtime only if it initialised it. Thread-safe.
class session {
 public:
  /// The session of `table`, which must stay valid as long as the session; `provider` is its name for messages. Throws
  /// npu_error if the runtime does not start.
  static std::shared_ptr<session> open(const calls& table, std::string provider);
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session() {
    for (const opened_device& d : devices_) ignore(table_, table_.rt.aclrtResetDevice(d.index));
    if (initialised_) (void)table_.rt.aclFinalize();
  }

  const calls& table() const noexcept { return table_; }
  const std::string& provider() const noexcept { return provider_; }
  const capabilities& known() const noexcept { return known_; }
  int device_count() const noexcept { return device_count_; }
  /// False if another part of the process had initialised the runtime before.
  bool initialised() const noexcept { return initialised_; }

  /// A device with its context, which is made at the first call and then current in the calling thread. Throws
  /// npu_error, also if the device does not exist.
  opened_device& device(int index);
  /// Records that an object could not be destroyed, since its destructor must not throw.
  void note(const char* call, int code) noexcept {
    const std::lock_guard hold(lock_);
    if (first_loss_.first == nullptr) first_loss_ = {call, code};
  }
  /// The first object that could not be destroyed: "aclrtFree returned 507899"; empty if none.
  std::string first_loss() const {
    const std::lock_guard hold(lock_);
    if (first_loss_.first == nullptr) return {};
    return std::string(first_loss_.first) + " returned " + std::to_string(first_loss_.second);
  }

 private:
  session(const calls& table, std::string provider);

  friend class allocator;
  const calls& table_;
  std::string provider_;
  capabilities known_;
  int device_count_ = 0;
  bool initialised_ = false;
  mutable std::mutex lock_;
  std::deque<opened_device> devices_;
  std::pair<const char*, int> first_loss_{nullptr, 0};
  std::map<int, std::weak_ptr<allocator>> allocators_;
};

/// Makes a device's context current in this thread and restores the previous one, if any.
class device_guard {
 public:
  /// Throws npu_error if the context cannot be made current.
  device_guard(const calls& table, aclrtContext context) : table_(table) {
    const bool had_none = table_.rt.aclrtGetCurrentContext(&previous_) != 0;
    if (had_none) previous_ = nullptr;
    if (previous_ == context)
      previous_ = nullptr;  // nothing to restore
    else
      check(table_, table_.rt.aclrtSetCurrentContext(context), "aclrtSetCurrentContext");
    if (had_none) drop_messages(table_);
  }
  device_guard(const device_guard&) = delete;
  device_guard& operator=(const device_guard&) = delete;
  ~device_guard() {
    if (previous_ != nullptr) ignore(table_, table_.rt.aclrtSetCurrentContext(previous_));
  }

 private:
  const calls& table_;
  aclrtContext previous_ = nullptr;
};

/// A device of a session. Every handle keeps one, so that the handle is destroyed on its device and before the session.
class device_handle {
 public:
  /// Opens device `index` if the session has not done so; keeps the thread's current context. Throws npu_error.
  device_handle(std::shared_ptr<ascend::session> owner, int index) : session_(std::move(owner)) {
    aclrtContext previous = nullptr;
    if (ignore(table(), table().rt.aclrtGetCurrentContext(&previous))) previous = nullptr;
    device_ = &session_->device(index);
    if (previous != nullptr) ignore(table(), table().rt.aclrtSetCurrentContext(previous));
  }

  const calls& table() const noexcept { return session_->table(); }
  const std::shared_ptr<ascend::session>& session() const noexcept { return session_; }
  int index() const noexcept { return device_->index; }
  /// Makes the device current in this thread for the lifetime of the guard.
  device_guard enter() const { return {table(), device_->context}; }

  /// Sets whether operators of the device's context are planned as deterministic; the device must be current.
  void set_deterministic(bool wanted) const {
    const int value = wanted ? 1 : 0;
    if (device_->deterministic.load(std::memory_order_relaxed) == value) return;
    check(table(), table().rt.aclrtCtxSetSysParamOpt(system_option::deterministic, value), "aclrtCtxSetSysParamOpt");
    device_->deterministic.store(value, std::memory_order_relaxed);
  }

  /// Calls f(table), which returns what `call` returned, with the device current; for destructors: the session records
  /// failures.
  template <class F>
  void leave(const char* call, F&& f) const noexcept {
    try {
      const device_guard guard(table(), device_->context);
      if (const int status = f(table()); ignore(table(), status)) session_->note(call, status);
    } catch (const npu_error& e) {
      session_->note("aclrtSetCurrentContext", e.code);
    } catch (...) {
      session_->note(call, 200000);
    }
  }

 private:
  std::shared_ptr<ascend::session> session_;
  opened_device* device_ = nullptr;
};

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend {

RLCORE_INLINE int version_number(std::string_view source) {
  int parts[3] = {0, 0, 0};
  std::size_t part = 0, digits = 0;
  for (const char c : source) {
    if (c >= '0' && c <= '9' && digits < 3) {
      parts[part] = 10 * parts[part] + (c - '0');
      ++digits;
    } else if (c == '.' && part < 2 && digits > 0) {
      ++part;
      digits = 0;
    } else {
      break;
    }
  }
  return part == 0 || parts[0] == 0 ? 0 : 10000 * parts[0] + 100 * parts[1] + (digits > 0 ? parts[2] : 0);
}

RLCORE_INLINE capabilities ask_capabilities(const calls& table) {
  capabilities known;
  const char* soc = table.rt.aclrtGetSocName != nullptr ? table.rt.aclrtGetSocName() : nullptr;
  if (soc != nullptr) known.soc = soc;
  if (package_version v{}; table.rt.aclsysGetCANNVersion != nullptr &&
                           !ignore(table, table.rt.aclsysGetCANNVersion(package_name::cann, &v))) {
    v.version[sizeof v.version - 1] = '\0';
    known.cann_version_text = v.version;
    known.cann_version = version_number(known.cann_version_text);
  }
  char package[] = "runtime";
  if (std::int32_t n = 0; known.cann_version == 0 && table.rt.aclsysGetVersionNum != nullptr &&
                          !ignore(table, table.rt.aclsysGetVersionNum(package, &n)) && n > 0) {
    known.cann_version = n / 1000;
    known.cann_version_text =
        std::to_string(n / 10000000) + '.' + std::to_string(n / 100000 % 100) + '.' + std::to_string(n / 1000 % 100);
  }
  return known;
}

RLCORE_INLINE std::shared_ptr<session> session::open(const calls& table, std::string provider) {
  struct place {
    std::weak_ptr<session> known;
    std::atomic<bool> lives = false;  // false once the destructor has finished
  };
  static std::mutex lock;
  static auto& places = *new std::map<const calls*, place>;  // never destroyed, for sessions at exit
  std::unique_lock hold(lock);
  place& here = places[&table];
  for (;;) {
    if (auto alive = here.known.lock()) return alive;
    if (!here.lives) break;
    hold.unlock();
    here.lives.wait(true);
    hold.lock();
  }
  std::shared_ptr<session> opened(new session(table, std::move(provider)), [&here](session* ended) {
    delete ended;
    here.lives = false;
    here.lives.notify_all();
  });
  here.known = opened;
  here.lives = true;
  return opened;
}

RLCORE_INLINE opened_device& session::device(int index) {
  const std::lock_guard hold(lock_);
  for (opened_device& d : devices_)
    if (d.index == index) return d;
  const std::string about = "(" + std::to_string(index) + "), the machine has " + std::to_string(device_count_) +
                            (device_count_ == 1 ? " device," : " devices,");
  check(table_, table_.rt.aclrtSetDevice(index), "aclrtSetDevice", about);
  aclrtContext made = nullptr;
  try {
    check(table_, table_.rt.aclrtGetCurrentContext(&made), "aclrtGetCurrentContext");
    drop_messages(table_);  // the runtime empties them only where a context is current
    opened_device& d = devices_.emplace_back();
    d.index = index;
    d.context = made;
    return d;
  } catch (...) {
    ignore(table_, table_.rt.aclrtResetDevice(index));
    throw;
  }
}

RLCORE_INLINE session::session(const calls& table, std::string provider)
    : table_(table), provider_(std::move(provider)) {
  const aclError status = table_.rt.aclInit(nullptr);
  if (status != 100002) check(table_, status, "aclInit", " of " + provider_);
  initialised_ = status == 0;
  drop_messages(table_);
  try {
    std::uint32_t count = 0;
    check(table_, table_.rt.aclrtGetDeviceCount(&count), "aclrtGetDeviceCount");
    device_count_ = static_cast<int>(count);
    known_ = ask_capabilities(table_);
  } catch (...) {
    if (initialised_) (void)table_.rt.aclFinalize();
    throw;
  }
}

}  // namespace ascend
RLCORE_END
#endif
