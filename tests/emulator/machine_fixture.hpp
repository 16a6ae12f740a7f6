// What tests of the emulated machine share.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "device/npu/gate.hpp"
#include "rlcore/emulator/runtime.hpp"  // the whole emulator compiles far longer

namespace npu_test {

using namespace rlcore;
using ascend::copy_kind;
using ascend::event_status;
using ascend::memory_policy;
using ascend::stream_status;
namespace emulated = ascend::emulated;

inline ascend::runtime_calls emulated_runtime() {
  ascend::runtime_calls table;
  emulated::fill(table);
  return table;
}

/// A machine of two small devices, initialised, device 0 current. Tests release what they make.
class machine_test : public testing::Test {
 protected:
  explicit machine_test(emulated::settings s = small_machine()) { emulated::configure(std::move(s)); }
  static emulated::settings small_machine() {
    emulated::settings s;
    s.memory_bytes = std::size_t{16} << 20;
    s.quarantine_bytes = std::size_t{1} << 20;
    return s;
  }
  void SetUp() override {
    ASSERT_EQ(rt.aclInit(nullptr), 0);
    ASSERT_EQ(rt.aclrtSetDevice(0), 0);
  }
  void TearDown() override {
    EXPECT_EQ(rt.aclrtResetDevice(0), 0);
    EXPECT_EQ(rt.aclFinalize(), 0);
    EXPECT_EQ(emulated::last_report(), expected_report);
  }

  void* allocate(std::size_t bytes) {
    void* p = nullptr;
    EXPECT_EQ(rt.aclrtMalloc(&p, bytes, memory_policy::huge_first), 0);
    return p;
  }
  ascend::aclrtStream stream() {
    ascend::aclrtStream s = nullptr;
    EXPECT_EQ(rt.aclrtCreateStream(&s), 0);
    return s;
  }
  ascend::aclrtEvent event(std::uint32_t flags = ascend::event_sync | ascend::event_time_line) {
    ascend::aclrtEvent e = nullptr;
    EXPECT_EQ(rt.aclrtCreateEventExWithFlag(&e, flags), 0);
    return e;
  }
  template <class T>
  void put(void* to, const std::vector<T>& values) {
    EXPECT_EQ(rt.aclrtMemcpy(to, values.size() * sizeof(T), values.data(), values.size() * sizeof(T),
                             copy_kind::host_to_device),
              0);
  }
  template <class T>
  std::vector<T> get(const void* from, std::size_t n) {
    std::vector<T> values(n);
    EXPECT_EQ(rt.aclrtMemcpy(values.data(), n * sizeof(T), from, n * sizeof(T), copy_kind::device_to_host), 0);
    return values;
  }
  std::string message() {
    const char* text = rt.aclGetRecentErrMsg();
    return text == nullptr ? "" : text;
  }

  const ascend::runtime_calls rt = emulated_runtime();
  std::string expected_report;
};

}  // namespace npu_test
