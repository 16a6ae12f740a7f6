// What tests of the emulated operators share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/emulator/machine.hpp"
#include "rlcore/emulator/numerics/elements.hpp"
#include "rlcore/emulator/tensor.hpp"

namespace npu_test {

using namespace rlcore;
using ascend::data_type;
namespace emulated = ascend::emulated;
using dims = std::vector<std::int64_t>;
using numbers = std::vector<double>;

/// A number as `type` stores it: one rounding to nearest even, by way of core/dtype.hpp.
inline double stored(double x, data_type type) {
  const auto f = static_cast<float>(x);
  if (type == data_type::bfloat16) return static_cast<double>(static_cast<float>(bf16(f)));
  if (type == data_type::float16) return static_cast<double>(static_cast<float>(f16(f)));
  return type == data_type::float32 ? static_cast<double>(f) : x;
}
/// Largest relative error of one rounding.
inline double unit_roundoff(data_type type) {
  return type == data_type::bfloat16 ? 0x1p-8 : type == data_type::float16 ? 0x1p-11 : 0x1p-24;
}
inline std::string name_of_type(const testing::TestParamInfo<data_type>& info) { return ascend::name_of(info.param); }

/// The emulator's functions; compiled once, in tests/emulator/emulators.cpp.
const ascend::calls& emulated_table();

/// A tensor on the emulated device, for one test.
struct device_tensor {
  ascend::aclTensor* handle = nullptr;
  std::byte* data = nullptr;
  emulated::tensor view;
  operator ascend::aclTensor*() const { return handle; }
};

class operators_test : public testing::Test {
 protected:
  explicit operators_test(emulated::settings s = {}) { start(std::move(s)); }
  ~operators_test() override {
    if (!finished_) finish();
  }

  void start(emulated::settings s) {
    s.memory_bytes = std::size_t{64} << 20;
    emulated::configure(std::move(s));
    EXPECT_EQ(rt.aclInit(nullptr), 0);
    EXPECT_EQ(rt.aclrtSetDevice(0), 0);
    EXPECT_EQ(rt.aclrtCreateStream(&stream), 0);
  }
  /// Releases what the test made; whatever an operator left would be in the report.
  void finish() {
    for (auto& t : tensors_) {
      if (t.handle) {
        EXPECT_EQ(nn.aclDestroyTensor(t.handle), 0) << message();
      }
      EXPECT_EQ(rt.aclrtFree(t.data), 0) << message();
    }
    for (auto* s : scalars_) EXPECT_EQ(nn.aclDestroyScalar(s), 0);
    for (auto* a : arrays_) EXPECT_EQ(nn.aclDestroyIntArray(a), 0);
    for (auto* l : lists_) EXPECT_EQ(nn.aclDestroyTensorList(l), 0);
    tensors_.clear();
    scalars_.clear();
    arrays_.clear();
    lists_.clear();
    if (stream) {
      EXPECT_EQ(rt.aclrtDestroyStream(stream), 0);
    }
    stream = nullptr;
    EXPECT_EQ(rt.aclrtResetDevice(0), 0);
    EXPECT_EQ(rt.aclFinalize(), 0);
    finished_ = true;
    if (expected_in_report.empty()) {
      EXPECT_EQ(emulated::last_report(), "");
    }
    for (const auto& part : expected_in_report)
      EXPECT_NE(emulated::last_report().find(part), std::string::npos) << part;
  }
  void finish_expecting(std::vector<std::string> in_report) {
    expected_in_report = std::move(in_report);
    finish();
  }
  /// The same machine with other settings; nothing of the old one is left.
  void restart(emulated::settings s) {
    finish();
    start(std::move(s));
    finished_ = false;
  }
  void deterministic(bool on) { EXPECT_EQ(rt.aclrtCtxSetSysParamOpt(ascend::system_option::deterministic, on), 0); }

  /// A view of shape, strides (empty: contiguous) and offset into a storage just as large as it needs; elements that it
  /// does not reach hold 1000.
  device_tensor& make(data_type type, const dims& shape, const numbers& values = {}, dims strides = {},
                      std::int64_t offset = 0) {
    device_tensor t;
    t.view.type = type;
    t.view.shape = shape;
    t.view.strides = strides.empty() ? emulated::row_major(shape) : std::move(strides);
    t.view.offset = offset;
    t.view.storage = t.view.reach().second + 1;
    const std::size_t bytes = static_cast<std::size_t>(t.view.storage) * ascend::bytes_of(type);
    void* p = nullptr;
    EXPECT_EQ(rt.aclrtMalloc(&p, bytes, ascend::memory_policy::huge_first), 0);
    t.data = static_cast<std::byte*>(p);
    t.view.data = p;
    std::vector<std::byte> host(bytes);
    emulated::tensor all = t.view;
    all.shape = {t.view.storage};
    all.strides = {1};
    all.offset = 0;
    const numbers rest(static_cast<std::size_t>(t.view.storage), 1000.0);
    emulated::scatter_elements(all, host.data(), rest.data(), emulated::rounding::nearest_even,
                               ascend::overflow_mode::infnan);
    if (!values.empty()) {
      EXPECT_EQ(values.size(), static_cast<std::size_t>(t.view.size()));
      emulated::scatter_elements(t.view, host.data(), values.data(), emulated::rounding::nearest_even,
                                 ascend::overflow_mode::infnan);
    }
    EXPECT_EQ(rt.aclrtMemcpy(p, bytes, host.data(), bytes, ascend::copy_kind::host_to_device), 0);
    t.handle = nn.aclCreateTensor(t.view.shape.data(), t.view.shape.size(), type, t.view.strides.data(), offset,
                                  ascend::format::nd, &t.view.storage, 1, p);
    EXPECT_NE(t.handle, nullptr) << message();
    return tensors_.emplace_back(std::move(t));
  }
  numbers get(const device_tensor& t) {
    const std::size_t bytes = static_cast<std::size_t>(t.view.storage) * ascend::bytes_of(t.view.type);
    std::vector<std::byte> host(bytes);
    EXPECT_EQ(rt.aclrtMemcpy(host.data(), bytes, t.data, bytes, ascend::copy_kind::device_to_host), 0);
    numbers values(static_cast<std::size_t>(t.view.size()));
    emulated::gather_elements(t.view, host.data(), values.data());
    return values;
  }
  ascend::aclScalar* number(float x) { return scalars_.emplace_back(nn.aclCreateScalar(&x, data_type::float32)); }
  ascend::aclScalar* integer(std::int64_t x) { return scalars_.emplace_back(nn.aclCreateScalar(&x, data_type::int64)); }
  ascend::aclIntArray* ints(const dims& x) { return arrays_.emplace_back(nn.aclCreateIntArray(x.data(), x.size())); }
  /// Takes over the tensors.
  ascend::aclTensorList* list(const std::vector<device_tensor*>& members) {
    std::vector<const ascend::aclTensor*> handles;
    for (auto* m : members) handles.push_back(std::exchange(m->handle, nullptr));
    return lists_.emplace_back(nn.aclCreateTensorList(handles.data(), handles.size()));
  }

  /// Status of the first phase; the executor of a success is destroyed.
  template <class... A, class... B>
  int plan(const ascend::operator_call<A...>& called, B&&... arguments) {
    std::uint64_t bytes = 0;
    ascend::aclOpExecutor* executor = nullptr;
    const int status = called.plan(std::forward<B>(arguments)..., &bytes, &executor);
    if (status == 0) {
      EXPECT_EQ(nn.aclDestroyAclOpExecutor(executor), 0);
    }
    return status;
  }
  /// Both phases and a wait: the first status that is not 0.
  template <class... A, class... B>
  int run(const ascend::operator_call<A...>& called, B&&... arguments) {
    std::uint64_t bytes = 0;
    ascend::aclOpExecutor* executor = nullptr;
    if (const int status = called.plan(std::forward<B>(arguments)..., &bytes, &executor); status != 0) {
      ADD_FAILURE() << message();
      return status;
    }
    void* workspace = nullptr;
    if (bytes > 0) {
      EXPECT_EQ(rt.aclrtMalloc(&workspace, bytes, ascend::memory_policy::huge_first), 0);
    }
    if (const int status = called.run(workspace, bytes, executor, stream); status != 0) return status;
    const int status = rt.aclrtSynchronizeStream(stream);
    if (workspace) {
      EXPECT_EQ(rt.aclrtFree(workspace), 0);
    }
    return status;
  }
  std::string message() {
    const char* text = rt.aclGetRecentErrMsg();
    return text ? text : "";
  }
  /// Normal numbers as `type` stores them.
  numbers random(std::size_t n, data_type type, unsigned seed = 1, double scale = 1) {
    std::mt19937 generator(seed);
    const auto uniform = [&] { return (static_cast<double>(generator()) + 0.5) * 0x1p-32; };
    numbers values(n);
    for (double& v : values) {
      const double a = uniform(), b = uniform();
      v = stored(scale * std::sqrt(-2 * std::log(a)) * std::cos(6.283185307179586 * b), type);
    }
    return values;
  }
  /// |a - b| <= relative max(|b|, floor) for all.
  static void expect_near(const numbers& a, const numbers& b, double relative, double floor = 0) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], relative * std::max(std::abs(b[i]), floor)) << "element " << i;
  }

  const ascend::calls& table = emulated_table();
  const ascend::runtime_calls& rt = table.rt;
  const ascend::meta_calls& nn = table.nn;
  const ascend::operator_calls& op = table.op;
  ascend::aclrtStream stream = nullptr;
  std::vector<std::string> expected_in_report;

 private:
  bool finished_ = false;
  std::deque<device_tensor> tensors_;
  std::vector<ascend::aclScalar*> scalars_;
  std::vector<ascend::aclIntArray*> arrays_;
  std::vector<ascend::aclTensorList*> lists_;
};

}  // namespace npu_test
