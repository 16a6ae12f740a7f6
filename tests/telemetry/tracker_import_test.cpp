// The commands that send a run to a tracker. That they do was tried with wandb 0.31, swanlab 0.10, mlflow, trackio and
// clearml, without an account.
#include "rlcore/telemetry/tracker_import.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

TEST(tracker_import, is_a_command_of_the_trackers_package) {
  for (const char* tracker : {"wandb", "trackio", "swanlab", "mlflow", "clearml"}) {
    const std::string command = tracker_import(tracker, "runs/a/metrics.jsonl", "verl_examples", "gsm8k");
    EXPECT_THAT(command, testing::StartsWith("python3 -c \"import json, sys, " + std::string(tracker)));
    EXPECT_THAT(command, testing::EndsWith("\" runs/a/metrics.jsonl verl_examples gsm8k"));
    const std::string code = command.substr(12, command.rfind('"') - 12);
    EXPECT_EQ(code.find_first_of("\"$`\\!"), std::string::npos) << "a shell would change it";
    EXPECT_EQ(std::count(code.begin(), code.end(), '['), std::count(code.begin(), code.end(), ']'));
    EXPECT_EQ(std::count(code.begin(), code.end(), '('), std::count(code.begin(), code.end(), ')'));
  }
  EXPECT_EQ(tracker_import("vemlp_wandb", "m", "p", "n"), "");
}

TEST(tracker_import, quotes_names_for_the_shell) {
  EXPECT_THAT(tracker_import("wandb", "my runs/m.jsonl", "it's", "$x"),
              testing::EndsWith(" 'my runs/m.jsonl' 'it'\\''s' '$x'"));
  EXPECT_THAT(tracker_import("wandb", "m", "", "n"), testing::EndsWith(" m '' n"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
