#include "rlcore/core/error.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <type_traits>

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
