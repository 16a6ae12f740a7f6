// Our declarations of CUDA's functions against the vendor's headers, where they are installed.
#include <gtest/gtest.h>

#include "rlcore/device/cuda/provider.hpp"

#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>)
#include <cuda.h>
#include <nvrtc.h>

#include <type_traits>

namespace RLCORE_TEST_ID {
namespace {

/// Pointers pass for pointers, and enumerations for the integers behind them.
template <class Ours, class Theirs>
constexpr bool alike = sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                       std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
template <class Ours, class Theirs>
constexpr bool same_call = false;
template <class R, class... A, class S, class... B>
  requires(sizeof...(A) == sizeof...(B))
constexpr bool same_call<R (*)(A...), S(B...)> = alike<R, S> && (alike<A, B> && ...);

#define RLCORE_CUDA_CALL(name, parameters) \
  static_assert(same_call<decltype(rlcore::nvidia::driver_calls::name), decltype(::name)>, #name);
#include "rlcore/device/cuda/abi/driver.inc"
#undef RLCORE_CUDA_CALL
#define RLCORE_CUDA_CALL(name, parameters) \
  static_assert(same_call<decltype(rlcore::nvidia::compiler_calls::name), decltype(::name)>, #name);
#include "rlcore/device/cuda/abi/compiler.inc"
#undef RLCORE_CUDA_CALL

TEST(cuda_abi, numbers_are_the_vendor_s) {
  namespace device = rlcore::nvidia::device_attribute;
  namespace pool = rlcore::nvidia::pool_attribute;
  EXPECT_EQ(device::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(device::compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(device::compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(device::memory_pools_supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  EXPECT_EQ(pool::release_threshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
  EXPECT_EQ(pool::reserved_now, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  EXPECT_EQ(pool::used_now, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  EXPECT_EQ(rlcore::nvidia::non_blocking_stream, CU_STREAM_NON_BLOCKING);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
#else
namespace RLCORE_TEST_ID {
TEST(cuda_abi, numbers_are_the_vendor_s) { GTEST_SKIP() << "the CUDA toolkit's headers are not installed"; }
}  // namespace RLCORE_TEST_ID
#endif
