#include "rlcore/train/files/model_files.hpp"

#include "data/scratch.hpp"
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/config/programs/preference_keys.hpp"
#include "rlcore/config/programs/sft.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
using arguments = std::vector<std::string>;

std::string refusal(const registry& known, const arguments& line, const char* key) {
  return scratch::error_of<rlcore::config_error>([&] { named_model(options::parse(line, known), key); }, {});
}

TEST(named_model, a_refusal_names_what_was_written) {
  const std::string path = "actor_rollout_ref.model.path", none = "/nowhere/at/all";
  EXPECT_TRUE(refusal(grpo_trainer_registry(), {path + "=" + none}, path.c_str())
                  .starts_with(path + ": model '" + none + "' not found"));
  EXPECT_TRUE(refusal(grpo_trainer_registry(), {path + "="}, path.c_str()).starts_with(path + ": the model path is"));
  EXPECT_TRUE(refusal(ppo_trainer_registry(), {"--pretrain", none, "--apply_chat_template"}, path.c_str())
                  .starts_with("--pretrain: model"));
  EXPECT_TRUE(
      refusal(dpo_registry(), {"--pretrain", none, "--dataset", "a"}, "pretrain").starts_with("--pretrain: model"));
}

TEST(named_model, an_empty_folder_of_a_run_is_refused_by_name) {
  const auto parse = [](const registry& known, const arguments& line) {
    return scratch::error_of<rlcore::config_error>([&] { options::parse(line, known); }, {"a text that is not empty"});
  };
  const std::string folder = "trainer.default_local_dir=";
  EXPECT_TRUE(parse(grpo_trainer_registry(), {folder}).starts_with(folder + ": expected"));
  EXPECT_TRUE(parse(sft_registry(), {folder}).starts_with(folder + ": expected"));
  for (const registry& known : {grpo_trainer_registry(), dpo_registry(), kto_registry(), rm_registry(), prm_registry(),
                                openrlhf_sft_registry()})
    EXPECT_TRUE(parse(known, {"--ckpt_path", ""}).starts_with("--ckpt_path=: expected")) << known.program;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
