// All instruction sets of this processor have the same bits in float32: every kernel on odd sizes, against the first.
#include <gtest/gtest.h>

#include <string>

#include "device/cpu/sets.hpp"
#include "rlcore/device/every_kernel.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

TEST(same_bits, of_every_kernel_in_every_set) {
  const auto sets = rlcore_test::instruction_sets();
  cpu best(1, sets.front());
  const rlcore::every_kernel expected(best);
  for (std::size_t i = 1; i < sets.size(); ++i) {
    cpu device(1, sets[i]);
    const rlcore::every_kernel all(device);
    ASSERT_EQ(all.results().size(), expected.results().size());
    for (std::size_t k = 0; k < all.results().size(); ++k)
      ASSERT_TRUE(all.results()[k] == expected.results()[k])
          << sets[i] << " and " << sets.front() << ": " << all.results()[k].kernel << ", result " << k;
  }
}

/// A hash that leaves something out would agree with anything.
TEST(same_bits, a_hash_sees_every_result) {
  cpu device(1), rounding(1, "", compute::bfloat16);
  const std::uint64_t hash = rlcore::every_kernel(device).hash();
  EXPECT_EQ(hash, rlcore::every_kernel(device).hash());
  EXPECT_NE(hash, rlcore::every_kernel(rounding).hash());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
