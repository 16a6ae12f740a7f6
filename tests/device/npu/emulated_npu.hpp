// What the tests of npu kernels share: an npu device on the emulator, memory on any device, values and bounds.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/device/npu.hpp"

namespace rlcore_test {

using namespace rlcore;
using floats = std::vector<float>;
using indices = std::vector<std::int32_t>;

/// Configures the emulated machine and returns its functions; compiled once, in tests/emulator/emulators.cpp.
const ascend::calls& emulated_calls(int cann_version = 80300, std::uint64_t seed = 0);

struct table_provider {
  const ascend::calls* table;
  std::string_view name() const { return "emulator"; }
  const ascend::calls& calls() const { return *table; }
};

using change_of_operators = std::function<void(ascend::operator_calls&)>;

/// An npu whose every allocation is apart from the others, so that a stray access is an error. `change` may take
/// operators away.
struct emulated_npu {
  explicit emulated_npu(npu_settings settings = exact(compute::bfloat16), const change_of_operators& change = {},
                        int cann_version = 80300)
      : table(emulated_calls(cann_version)) {
    if (change) change(table.op);
    device = std::make_unique<npu>(table_provider{&table}, settings);
  }
  explicit emulated_npu(compute type, const change_of_operators& change = {}, int cann_version = 80300)
      : emulated_npu(exact(type), change, cann_version) {}
  npu& operator*() const { return *device; }
  npu* operator->() const { return device.get(); }

  static npu_settings exact(compute type) {
    npu_settings s;
    s.compute = type, s.exact_memory = true;
    return s;
  }

  ascend::calls table;
  std::unique_ptr<npu> device;
};

/// Values in the memory of a device.
template <class T, class D>
class memory {
 public:
  memory(D& d, const std::vector<T>& host) : buffer_(d, host.size()) { buffer_.upload(host); }
  memory(D& d, std::size_t n) : buffer_(d, n) {}
  operator T*() { return buffer_.data(); }
  T* data() { return buffer_.data(); }
  std::vector<T> back() {
    std::vector<T> host(buffer_.size());
    buffer_.download(host);
    return host;
  }

 private:
  buffer<T, D> buffer_;
};
template <class D, class T>
memory<T, D> put(D& d, const std::vector<T>& host) {
  return {d, host};
}
template <class T, class D>
memory<T, D> room(D& d, extent_t n) {
  return {d, static_cast<std::size_t>(n)};
}

/// n normal values, a function of (seed, index).
inline floats normal(extent_t n, std::uint64_t seed, double scale = 1) {
  floats x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(scale * random_key{seed}.normal(static_cast<std::uint32_t>(i)));
  return x;
}
inline floats absolute(floats x) {
  for (float& v : x) v = std::abs(v);
  return x;
}

/// |got - wanted| <= absolute + relative |wanted| for every element.
inline void expect_near(const floats& got, const floats& wanted, double relative, double absolute, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])),
              absolute + relative * std::abs(static_cast<double>(wanted[i])))
        << what << ", element " << i << ": " << got[i] << " instead of " << wanted[i];
}
/// The same with a bound for every element.
inline void expect_within(const floats& got, const floats& wanted, const std::vector<double>& bound, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])), bound[i])
        << what << ", element " << i << ": " << got[i] << " instead of " << wanted[i];
}

}  // namespace rlcore_test
