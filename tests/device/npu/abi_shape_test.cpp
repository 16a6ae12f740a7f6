// What the check against the vendor's headers accepts and refuses.
#include <gtest/gtest.h>

#include <cstdint>

#include "device/npu/abi_check/shape.hpp"

namespace RLCORE_TEST_ID {
namespace {

struct our_tensor;  // only behind pointers
struct their_tensor;
struct their_list;
enum class our_type : int { one = 1 };
enum their_type { THEIR_ONE = 1 };
enum their_mode { THEIR_MODE = 1 };

}  // namespace
}  // namespace RLCORE_TEST_ID

template <>
struct abi_check::counterpart<RLCORE_TEST_ID::our_tensor> {
  using type = RLCORE_TEST_ID::their_tensor;
};
template <>
struct abi_check::counterpart<RLCORE_TEST_ID::our_type> {
  using type = RLCORE_TEST_ID::their_type;
};

namespace RLCORE_TEST_ID {
namespace {

template <class Ours, class Theirs>
constexpr bool alike = abi_check::same_function<Ours (*)(Ours), Theirs (*)(Theirs)>::value;

TEST(abi_shape, accepts_what_is_passed_alike) {
  static_assert(alike<our_tensor*, their_tensor*>);
  static_assert(alike<const our_tensor*, const their_tensor*>);
  static_assert(alike<our_tensor*, const their_tensor*>, "an output that the vendor declares const");
  static_assert(alike<const our_tensor* const*, const their_tensor* const*>);
  static_assert(alike<our_type, their_type>);
  static_assert(alike<int, their_mode>, "HcclResult");
  static_assert(alike<our_type, int>);
  static_assert(alike<long, long long>);
  static_assert(abi_check::same_function<void (*)(int), void (*)(const int)>::value);
}

TEST(abi_shape, refuses_what_is_not) {
  static_assert(!alike<const our_tensor*, their_tensor*>, "an output declared as an input");
  static_assert(!alike<our_tensor*, their_list*>);
  static_assert(!alike<our_tensor*, their_tensor**>);
  static_assert(!alike<our_type, their_mode>, "another enumeration");
  static_assert(!alike<our_type, std::int8_t>);
  static_assert(!alike<std::int32_t, std::int64_t>);
  static_assert(!alike<std::int32_t, std::uint32_t>);
  static_assert(!alike<bool, std::int8_t>);
  static_assert(!alike<float, double>);
  static_assert(!alike<std::int32_t, float>);
  static_assert(!alike<const char*, char*>);
  static_assert(!abi_check::same_function<void (*)(int, int), void (*)(int)>::value);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
