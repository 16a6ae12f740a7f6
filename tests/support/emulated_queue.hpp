// A queue on an emulated Ascend machine, and vectors in its memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/device/npu/emulator.hpp"
#include "rlcore/device/npu/queue.hpp"

/// One at a time: the machine is the process's.
class emulated_queue {
 public:
  explicit emulated_queue(rlcore::ascend::emulated::settings machine = {}, rlcore::ascend::queue_settings how = {})
      : provider_(of_modest_size(std::move(machine))),
        q(rlcore::ascend::session::open(provider_.calls(), provider_.name()), 0, how) {}

 private:
  static rlcore::ascend::emulated::settings of_modest_size(rlcore::ascend::emulated::settings s) {
    s.memory_bytes = std::size_t{256} << 20;
    s.poison_bytes = std::size_t{1} << 20;
    return s;
  }
  rlcore::ascend::emulator provider_;

 public:
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
