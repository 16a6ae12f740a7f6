// What products read with --dtype auto.
#include "rlcore/serving/served_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace RLCORE_TEST_ID {
namespace {

using rlcore::compute;
using rlcore::serving::dtype_on_processor;
using rlcore::serving::served_dtype;

TEST(served_dtype, is_bfloat16_where_the_processor_multiplies_it) {
  const served_dtype d = dtype_on_processor("avx512_bf16");
  EXPECT_EQ(d.type, compute::bfloat16);
  EXPECT_EQ(d.note, "");
}

TEST(served_dtype, is_float32_elsewhere) {
  for (const char* set : {"avx512", "avx2", "portable"}) {
    const served_dtype d = dtype_on_processor(set);
    EXPECT_EQ(d.type, compute::float32);
    EXPECT_THAT(d.note, testing::HasSubstr("this processor (" + std::string(set) + ") has none of bfloat16"));
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
