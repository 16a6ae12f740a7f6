// The device of the calling thread, for the time of a scope.
#pragma once

#include "rlcore/device/npu/session.hpp"

RLCORE_BEGIN
namespace ascend {

/// Makes a device's context current in this thread and puts back the previous one, if there was one.
class device_guard {
 public:
  device_guard(const calls& table, aclrtContext context) : table_(table) {
    if (table_.rt.aclrtGetCurrentContext(&previous_) != 0) previous_ = nullptr;
    if (previous_ == context)
      previous_ = nullptr;  // nothing to put back
    else
      check(table_, table_.rt.aclrtSetCurrentContext(context), "aclrtSetCurrentContext");
  }
  device_guard(const device_guard&) = delete;
  device_guard& operator=(const device_guard&) = delete;
  ~device_guard() {
    if (previous_ != nullptr) (void)table_.rt.aclrtSetCurrentContext(previous_);
  }

 private:
  const calls& table_;
  aclrtContext previous_ = nullptr;
};

/// A device of a session: what every handle keeps, so that it is destroyed where it was made and before the session.
class device_handle {
 public:
  device_handle(std::shared_ptr<ascend::session> owner, int index) : session_(std::move(owner)), index_(index) {
    aclrtContext previous = nullptr;
    const calls& table = session_->table();
    if (table.rt.aclrtGetCurrentContext(&previous) != 0) previous = nullptr;
    context_ = session_->context(index_);
    if (previous != nullptr) (void)table.rt.aclrtSetCurrentContext(previous);
  }

  const calls& table() const noexcept { return session_->table(); }
  const std::shared_ptr<ascend::session>& session() const noexcept { return session_; }
  int index() const noexcept { return index_; }
  aclrtContext context() const noexcept { return context_; }
  /// Current in this thread as long as the guard lives.
  device_guard enter() const { return {table(), context_}; }

  /// f(table) with the device current; a failure to get there or in f is swallowed: for destructors.
  template <class F>
  void leave(F&& f) const noexcept {
    try {
      const device_guard guard(table(), context_);
      f(table());
    } catch (...) {  // the device is lost; so are its objects
    }
  }

 private:
  std::shared_ptr<ascend::session> session_;
  int index_;
  aclrtContext context_ = nullptr;
};

}  // namespace ascend
RLCORE_END
