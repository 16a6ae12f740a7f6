// RAII guard of the calling thread's current device.
#pragma once

#include "rlcore/device/npu/session.hpp"

RLCORE_BEGIN
namespace ascend {

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
