#include "layering/code_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace RLCORE_TEST_ID {
namespace {

TEST(code_names, comments_and_quotes_are_no_code) {
  EXPECT_EQ(layering::code_of("a // std::b\nc /* std::d */ e \"std::f\\\"\" 'g' 1'000 R\"x(std::h)\")x\" i"),
            "a \nc  e   1'000  i");
}

TEST(code_names, follow_a_scope) {
  EXPECT_THAT(layering::names_in("std::a(std::b, mystd::c)", "std::"), testing::ElementsAre("a", "b"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
