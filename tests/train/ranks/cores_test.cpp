#include "rlcore/train/ranks/resources.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace RLCORE_TEST_ID {
namespace {

using rlcore::train::core_counts;
using namespace std::string_literals;

TEST(cores, of_this_process) {
  const core_counts c = core_counts::here();
  EXPECT_EQ(c.mine, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_EQ(c.machine, c.mine);  // no mpirun has started it
}

TEST(cores, are_shared_once) {
  const core_counts threads{16, 16}, bound{4, 16}, socket{8, 16};
  EXPECT_EQ(threads.share(1), 16);
  EXPECT_EQ(threads.share(4), 4);
  EXPECT_EQ(threads.share(32), 1);
  EXPECT_EQ(bound.share(4), 4);  // --map-by ppr:4:node:PE=4 did it already
  EXPECT_EQ(socket.share(4), 4);
}

TEST(cores, too_few_or_tied_down_are_said) {
  EXPECT_EQ((core_counts{2, 2}.note(8, false)), "8 ranks on 2 cores take turns: slower, the same results");
  EXPECT_EQ((core_counts{1, 1}.note(2, true)), "2 ranks on 1 core take turns: slower, the same results");
  EXPECT_EQ((core_counts{1, 16}.note(4, true)),
            "mpirun has bound each of 4 ranks to 1 core of 16: --bind-to none, or --map-by ppr:4:node:PE=4, gives each "
            "its share");
  EXPECT_EQ((core_counts{4, 16}.note(4, true)), ""s);
  EXPECT_EQ((core_counts{16, 16}.note(4, true)), ""s);
  EXPECT_EQ((core_counts{2, 2}.note(2, false)), ""s);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
