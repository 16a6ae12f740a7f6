// Ranks that would not agree on bits are refused together; some of those here pretend.
#include "rlcore/train/ranks/same_arithmetic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "rlcore/device/cpu/instruction_sets.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/train/run/devices.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;
using testing::HasSubstr;

arithmetic of(const std::string& set, compute type = compute::float32) {
  const auto device = open_device({.type = type, .threads = 1, .instruction_set = set});
  return arithmetic_of(*device);
}

/// What each rank is told when rank r has the arithmetic kinds[r].
std::vector<std::string> told(const std::vector<arithmetic>& kinds) {
  std::vector<std::string> lines(kinds.size());
  const auto rank = [&](parallel::thread_rank& c) {
    parallel::any_communicator_of<parallel::thread_rank&> all(c);
    const auto self = static_cast<std::size_t>(all.rank());
    try {
      expect_same_arithmetic(all, kinds[self]);
    } catch (const config_error& e) {
      lines[self] = e.what();
    }
  };
  parallel::run_ranks(static_cast<int>(kinds.size()), rank, std::chrono::seconds(20));
  return lines;
}

TEST(same_arithmetic, instruction_sets_may_be_mixed_in_float32) {
  std::vector<arithmetic> all;
  for (const auto* set : cpu_kernels::available()) all.push_back(of(set->name));
  all.push_back(of(""));
  for (const arithmetic& each : all) EXPECT_EQ(each.hash, all[0].hash) << each.name;
  EXPECT_THAT(told(all), testing::Each(""));
  EXPECT_THAT(of("portable").name, HasSubstr("cpu (portable), losses in "));
}

TEST(same_arithmetic, other_products_are_another_arithmetic) {
  const arithmetic full = of("portable"), rounding = of("portable", compute::bfloat16);
  EXPECT_NE(full.hash, rounding.hash);
  for (const auto* set : cpu_kernels::available()) {
    const arithmetic other = of(set->name, compute::bfloat16);
    const bool pairs = std::string(set->name) == "avx512_bf16";
    EXPECT_EQ(other.hash != rounding.hash, pairs) << other.name;
    if (pairs) {
      EXPECT_THAT(told({rounding, other})[0], HasSubstr("rank 1: cpu (avx512_bf16, bfloat16)"));
    }
  }
}

TEST(same_arithmetic, all_ranks_refuse_in_one_line_that_names_them) {
  const arithmetic a{1, "cpu (avx2), losses in 256 bits"}, b{2, "cpu (avx2), losses in 128 bits"};
  const std::vector<std::string> lines = told({a, b, b, a, b});
  for (const std::string& line : lines) EXPECT_EQ(line, lines[0]);
  EXPECT_EQ(std::count(lines[0].begin(), lines[0].end(), '\n'), 0);
  EXPECT_THAT(lines[0], HasSubstr("ranks 0 and 3: cpu (avx2), losses in 256 bits; "
                                  "ranks 1-2 and 4: cpu (avx2), losses in 128 bits; "));
  EXPECT_THAT(told({{1, "a"}, {2, "b"}})[1], HasSubstr("rank 0: a; rank 1: b; "));
  EXPECT_THAT(told({{1, "a"}, {1, "b"}}), testing::Each(""));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
