// build/bin/grpo_trainer on GSM8K with a real tokenizer; its checkpoints in transformers.
#include <cmath>

#include "checkpoint/folder_log_probs.hpp"
#include "grpo_trainer.hpp"
#include "rlcore/text/tokenizer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

class real_input : public trainer_test {
 protected:
  void SetUp() override {
    trainer_test::SetUp();
    if (IsSkipped()) return;
    if (!fs::exists(shared / "gsm8k" / "train.jsonl")) GTEST_SKIP() << "no GSM8K in '" << shared.string() << "'";
    if (!fs::exists(program::path_of("gsm8k_preprocess"))) GTEST_SKIP() << "no gsm8k_preprocess";
    const program::result r = program::run(
        "gsm8k_preprocess",
        {"--input_dir", (shared / "gsm8k").string(), "--local_save_dir", place / "data", "--format", "jsonl"});
    ASSERT_EQ(r.code, 0) << r.err;
    tiny_model::make_for_tokenizer(place / "real", shared / "tokenizer");
    std::istringstream rows(scratch::read(place / "data" / "test.jsonl"));
    std::string few;
    int count = 0;
    for (std::string line; count < 8 && std::getline(rows, line); ++count) few += line + "\n";
    scratch::write(place / "few.jsonl", few);
  }
  arguments sizes() const {
    return {"data.train_files=" + (place / "data" / "train.jsonl").string(),
            "data.val_files=" + (place / "few.jsonl").string(),
            "data.max_prompt_length=512",
            "data.filter_overlong_prompts=True",
            "data.max_response_length=24",
            "actor_rollout_ref.model.path=" + (place / "real").string(),
            "actor_rollout_ref.actor.use_kl_loss=True",
            "actor_rollout_ref.actor.entropy_coeff=0.001",
            "trainer.total_training_steps=20",
            "trainer.test_freq=10",
            "trainer.save_freq=10",
            "rlcore.threads=2"};
  }
  const fs::path shared = RLCORE_SHARED_DIR;
};

TEST_F(real_input, twenty_steps_and_the_same_bits_after_a_resume) {
  const program::result r = train("whole", sizes());
  EXPECT_NE(r.out.find("7473 prompts"), std::string::npos) << r.out;
  const auto all = rows(root("whole"));
  ASSERT_EQ(all.size(), 20u);
  for (const std::string& row : all) {
    EXPECT_EQ(row.find("null"), std::string::npos) << row;  // a number that is not finite
    EXPECT_GT(nlohmann::json::parse(row)["actor/grad_norm"].get<double>(), 0);
  }
  fs::create_directories(root("cut"));
  fs::copy(root("whole") / "global_step_10", root("cut") / "global_step_10", fs::copy_options::recursive);
  scratch::write(root("cut") / "latest_checkpointed_iteration.txt", "10");
  train("cut", sizes());
  EXPECT_TRUE(weights(root("whole"), 20) == weights(root("cut"), 20));
  EXPECT_TRUE(moments(root("whole"), 20) == moments(root("cut"), 20));
  const auto second = rows(root("cut"));
  EXPECT_EQ(second, std::vector<std::string>(all.begin() + 10, all.end()));
}

using transformers = grpo::trainer_test;

TEST_F(transformers, loads_the_checkpoint_and_agrees_on_log_probs_and_tokens) {
  const std::string python = scratch::python_with("torch, transformers");
  if (python.empty()) GTEST_SKIP() << "no Python with torch and transformers";
  train("run", {"trainer.total_training_steps=2"});
  const fs::path folder = actor(root("run"), 2) / "huggingface";

  const auto tokenizer = rlcore::text::tokenizer::load(folder);
  const std::string text = "<|im_start|>user\nAnn has 7 apples.<|im_end|>\n<|im_start|>assistant\n#### 3<|im_end|>";
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  const std::vector<float> logp = log_probs_of(folder, ids);
  scratch::write(place / "ours.json", nlohmann::json{{"text", text}, {"ids", ids}, {"logp", logp}}.dump());
  const auto r = scratch::run_python(python, R"(
import json, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
ours = json.load(open(sys.argv[2]))
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], torch_dtype=torch.float32)
assert AutoTokenizer.from_pretrained(sys.argv[1])(ours["text"])["input_ids"] == ours["ids"], "other tokens"
ids = torch.tensor([ours["ids"]])
with torch.no_grad():
    lp = torch.log_softmax(model(ids).logits[0, :-1], -1).gather(1, ids[0, 1:, None])[:, 0]
worst = float((lp - torch.tensor(ours["logp"])).abs().max())
assert worst < 1e-4, worst
print("agrees")
)",
                                     "'" + folder.string() + "' '" + (place / "ours.json").string() + "'");
  EXPECT_EQ(r.code, 0) << r.output;
  EXPECT_NE(r.output.find("agrees"), std::string::npos) << r.output;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
