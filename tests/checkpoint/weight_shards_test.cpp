#include "rlcore/checkpoint/layout.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::checkpoint;
using bounds = std::vector<std::size_t>;

TEST(weight_shards, are_full_before_the_next_begins) {
  const std::vector<std::uint64_t> bytes{4, 6, 1, 9, 10};
  EXPECT_EQ(shard_bounds(bytes, 10), (bounds{0, 2, 4, 5}));  // a shard may have its limit to the byte
  EXPECT_EQ(shard_bounds(bytes, 9), (bounds{0, 1, 3, 4, 5}));
  EXPECT_EQ(shard_bounds(bytes, 30), (bounds{0, 5}));
  EXPECT_EQ(shard_bounds(bytes, 0), (bounds{0, 5})) << "no limit";
}

TEST(weight_shards, a_tensor_beyond_the_limit_has_its_own) {
  EXPECT_EQ(shard_bounds(std::vector<std::uint64_t>{1, 20, 1}, 5), (bounds{0, 1, 2, 3}));
  EXPECT_EQ(shard_bounds(std::vector<std::uint64_t>{20}, 5), (bounds{0, 1}));
}

TEST(weight_shards, have_the_names_of_hugging_face) {
  EXPECT_EQ(shard_name(0, 1), "model.safetensors");
  EXPECT_EQ(shard_name(0, 2), "model-00001-of-00002.safetensors");
  EXPECT_EQ(shard_name(11, 12), "model-00012-of-00012.safetensors");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
