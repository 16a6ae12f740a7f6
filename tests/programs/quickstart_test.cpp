// build/bin/quickstart: its command line. The run itself is `make train`.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/program.hpp"

namespace RLCORE_TEST_ID {
namespace {

TEST(quickstart, refuses_a_bad_setting_before_any_work) {
  if (!std::filesystem::exists(program::path_of("quickstart"))) GTEST_SKIP() << "no " << program::path_of("quickstart");
  const scratch::folder place;
  const std::string there = "cd '" + place.path().string() + "' &&";
  const auto r = program::run("quickstart", {"trainer.total_training_stps=2"}, there);
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_NE(r.err.find("did you mean 'trainer.total_training_steps'"), std::string::npos) << r.err;
  EXPECT_EQ(program::run("quickstart", {"quickstart.warm_start_steps=0"}, there).err,
            "quickstart: quickstart.warm_start_steps=0: expected an integer from 1 to 100000 (supervised steps before, "
            "with images at most; fewer leave a worse model)\n");
  EXPECT_EQ(program::run("quickstart", {"--help"}, there).code, 0);
  EXPECT_TRUE(std::filesystem::is_empty(place.path()));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
