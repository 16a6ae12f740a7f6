// What the first lines of a run say about its files.
#include "rlcore/train/run/open_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/scratch.hpp"
#include "rlcore/config/programs/main_ppo.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
using testing::HasSubstr;
using testing::Not;

std::string said(const std::vector<std::string>& line, const scratch::folder& place, bool first = true) {
  const options opt = options::parse(line, grpo_trainer_registry());
  std::optional<logger> log;
  testing::internal::CaptureStdout();
  open_log(log, opt, {opt.list("trainer.logger"), ""}, place / "run", -1, first);
  return testing::internal::GetCapturedStdout();
}

TEST(open_log, says_where_the_run_is) {
  const scratch::folder place;
  const std::string metrics = (place / "run" / "metrics.jsonl").string(), events = (place / "run/tensorboard").string();
  EXPECT_EQ(said({}, place), "log    " + metrics + "\n       tensorboard --logdir " + events + "\n");
  const scratch::folder other;
  EXPECT_EQ(said({"trainer.logger=console"}, other), "log    " + (other / "run/metrics.jsonl").string() + "\n");
  EXPECT_EQ(said({"trainer.logger=[console,wandb]"}, other, false), "") << "one rank speaks";
}

TEST(open_log, names_the_command_that_imports_it_elsewhere) {
  const scratch::folder a, b, c;
  const std::string verl = said({"trainer.logger=[console,wandb,vemlp_wandb]", "trainer.project_name=p"}, a);
  EXPECT_THAT(verl, HasSubstr("\nnote: wandb is not written to; these files hold the run, and this sends it there:\n"
                              "  python3 -c \"import json, sys, wandb"));
  EXPECT_THAT(verl, HasSubstr((a / "run/metrics.jsonl").string() + " p gsm8k\n"));
  EXPECT_THAT(verl, HasSubstr("\nnote: vemlp_wandb is not written to; these files hold the run\n"));
  const std::vector<std::string> flags{
      "--pretrain", "m", "--prompt_data", "a", "--apply_chat_template", "--n_samples_per_prompt", "4"};
  EXPECT_THAT(said(flags, b), Not(HasSubstr("wandb")));
  std::vector<std::string> with = flags;
  with.insert(with.end(), {"--use_wandb", "True", "--wandb_project", "mine", "--wandb_run_name", "first"});
  EXPECT_THAT(said(with, c), HasSubstr("metrics.jsonl mine first\n"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
