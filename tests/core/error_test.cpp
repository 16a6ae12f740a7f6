#include "rlcore/core/error.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <type_traits>

namespace RLCORE_TEST_ID {
namespace {

template <class E>
class run_time_failures : public testing::Test {};
using kinds = testing::Types<rlcore::config_error, rlcore::file_error, rlcore::format_error, rlcore::data_error,
                             rlcore::device_error, rlcore::communication_error>;
TYPED_TEST_SUITE(run_time_failures, kinds);

TYPED_TEST(run_time_failures, are_caught_as_errors_of_the_library) {
  try {
    throw TypeParam("config.json: missing key 'hidden_size'");
  } catch (const rlcore::error& e) {
    EXPECT_STREQ(e.what(), "config.json: missing key 'hidden_size'");
  }
  static_assert(std::is_base_of_v<std::runtime_error, TypeParam>);
  static_assert(!std::is_base_of_v<std::logic_error, TypeParam>);
}

TEST(error, is_one_line_of_bearable_length_whatever_it_quotes) {
  EXPECT_STREQ(rlcore::data_error("key 'a\nb\t\x1b[31m': unknown").what(), "key 'a\\nb\\x09\\x1b[31m': unknown");
  EXPECT_EQ(rlcore::one_line("0123456789", 4), "01...89");
  const std::string cut = rlcore::config_error("first " + std::string(1 << 20, 'x') + " last").what();
  EXPECT_EQ(cut.size(), 4003u);
  EXPECT_TRUE(cut.starts_with("first x") && cut.ends_with("x last"));
}

TEST(require, throws_only_if_the_condition_fails) {
  EXPECT_NO_THROW(rlcore::require(true, "never seen"));
  try {
    rlcore::require(false, "group size must be positive");
    FAIL() << "no exception";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "rlcore: group size must be positive");
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
