#include "rlcore/tensor/view.hpp"

#include <gtest/gtest.h>

#include <array>
#include <type_traits>

namespace RLCORE_TEST_ID {
namespace {

using rlcore::offset_pointer;

TEST(offset_pointer, elements_keep_their_numbers_in_the_whole_array) {
  std::array<float, 3> last{7, 8, 9};  // elements 7, 8 and 9 of an array
  const offset_pointer<const float> p{last.data(), 7};
  EXPECT_EQ(p + 7, last.data());
  EXPECT_EQ(*(p + 9), 9.0f);
  EXPECT_EQ(p + 10, last.data() + last.size());
}

TEST(offset_pointer, a_plain_pointer_is_one_to_the_whole_array) {
  std::array<float, 3> x{};
  const offset_pointer<const float> p = x.data();
  EXPECT_EQ(p + 2, x.data() + 2);
  EXPECT_TRUE(p);
  EXPECT_FALSE(offset_pointer<float>());
  EXPECT_FALSE(offset_pointer<float>(nullptr));
  static_assert(!std::is_convertible_v<offset_pointer<float>, float*>);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
