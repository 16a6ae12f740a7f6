// A queue on an emulated Ascend machine, and vectors in its memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/device/npu/npu_settings.hpp"
#include "rlcore/device/npu/queue.hpp"

/// Configures the emulated machine and returns its functions; compiled once, in tests/emulator/emulators.cpp.
const rlcore::ascend::calls& configured_emulator(rlcore::ascend::emulated::settings machine);

/// One at a time: the machine is the process's.
class emulated_queue {
 public:
  explicit emulated_queue(rlcore::ascend::emulated::settings machine = {}, rlcore::ascend::queue_settings how = {})
      : q(rlcore::ascend::session::open(configured_emulator(std::move(machine)), "emulator"), 0, how) {}

  rlcore::ascend::queue q;

  template <class T>
  rlcore::ascend::scratch<T> put(const std::vector<T>& values) {
    auto to = q.take<T>(static_cast<rlcore::extent_t>(values.size()));
    q.upload(to.data(), values.data(), values.size() * sizeof(T));
    return to;
  }
  template <class T>
  std::vector<T> get(const rlcore::ascend::scratch<T>& from) {
    std::vector<T> values(static_cast<std::size_t>(from.size()));
    q.download(values.data(), from.data(), values.size() * sizeof(T));
    return values;
  }
  const rlcore::ascend::operator_calls& op() const { return q.table().op; }

  /// What f() fails with, waiting included: the code of the npu_error, 0 if it does not fail.
  template <class F>
  int code_of(F&& f, std::string* text = nullptr) {
    try {
      f();
      q.wait();
    } catch (const rlcore::ascend::npu_error& e) {
      if (text) *text = e.what();
      return e.code;
    }
    return 0;
  }
};
