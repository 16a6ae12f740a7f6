// Responses that cannot be in memory together are refused with the numbers.
#include "rlcore/train/policy/check_memory.hpp"

#include <gtest/gtest.h>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;

TEST(trajectory_memory, refuses_what_cannot_fit) {
  const response_count n{"rollout.n", 4, 100000000, "it or data.train_batch_size"};
  const double least = trajectory_bytes(9, 1);
  EXPECT_EQ(least, static_cast<double>(sizeof(trajectory) + 10 * 4 + 2 * 4));
  scratch::error_of<config_error>(
      [&] { check_memory(n, 9, 6, std::size_t{8} << 30); },
      {"rollout.n=100000000: 4 prompts x 100000000 samples are 400000000 trajectories of at least ",
       "but 8.00 GiB of memory are available here; lower it or data.train_batch_size"});
  EXPECT_EQ(check_memory(n, 9, 6, std::nullopt), "");
  EXPECT_EQ(check_memory({"rollout.n", 0, 100000000, ""}, 0, 6, 1u << 20), "");  // no prompts, no responses
  scratch::error_of<config_error>([&] { check_memory({"rollout.n", INT64_MAX, INT64_MAX, "it"}, 9, 6, SIZE_MAX); },
                                  {"together"});
}

TEST(trajectory_memory, warns_of_what_may_not_fit) {
  const response_count n{"rollout.n", 4, 8, "it"};
  const auto most = static_cast<std::size_t>(32 * trajectory_bytes(9, 100));
  EXPECT_EQ(check_memory(n, 9, 100, most), "");
  const std::string warning = check_memory(n, 9, 100, most - 1);
  EXPECT_NE(warning.find("32 trajectories of up to "), std::string::npos) << warning;
  EXPECT_NE(warning.find("if all have 100 tokens"), std::string::npos) << warning;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
