// What products read with --dtype auto.
#include "rlcore/serving/served_dtype.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace RLCORE_TEST_ID {
namespace {

using rlcore::compute;
using rlcore::serving::dtype_on_processor;
using rlcore::serving::served_dtype;

constexpr std::size_t gigabyte = 1000000000;

TEST(served_dtype, is_bfloat16_where_the_processor_multiplies_it) {
  const served_dtype d = dtype_on_processor("avx512_bf16", 8 * gigabyte, gigabyte);
  EXPECT_EQ(d.type, compute::bfloat16);
  EXPECT_EQ(d.note, "");
}

TEST(served_dtype, is_float32_elsewhere_if_twice_the_weights_leave_half_of_the_memory) {
  for (const char* set : {"avx512", "avx2", "portable"}) {
    const served_dtype d = dtype_on_processor(set, gigabyte, 4 * gigabyte);
    EXPECT_EQ(d.type, compute::float32);
    EXPECT_THAT(d.note, testing::HasSubstr("products read float32: this processor (" + std::string(set) + ")"));
    EXPECT_THAT(d.note, testing::HasSubstr("the weights take 2 GB"));
    EXPECT_EQ(dtype_on_processor(set, gigabyte, std::nullopt).type, compute::float32);
  }
  const served_dtype tight = dtype_on_processor("avx2", gigabyte, 4 * gigabyte - 1);
  EXPECT_EQ(tight.type, compute::bfloat16);
  EXPECT_THAT(tight.note, testing::HasSubstr("would take 2 GB of the 4 GB that are free"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
