// build/bin/sft_trainer on GSM8K with a real tokenizer: the held-out loss falls.
#include <cmath>

#include "sft_trainer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace sft;

class sft_on_gsm8k : public sft::trainer_test {
 protected:
  void SetUp() override {
    trainer_test::SetUp();
    if (IsSkipped()) return;
    if (!fs::exists(shared / "gsm8k" / "train.jsonl")) GTEST_SKIP() << "no GSM8K in '" << shared.string() << "'";
    for (const char* name : {"gsm8k_preprocess", "random_model"})
      if (!fs::exists(program::path_of(name))) GTEST_SKIP() << "no " << name;
    ASSERT_EQ(program::run("gsm8k_preprocess", {"--input_dir", (shared / "gsm8k").string(), "--local_save_dir",
                                                place / "data", "--format", "jsonl"})
                  .code,
              0);
    const program::result r = program::run("random_model", {"--tokenizer", (shared / "tokenizer").string(), "--output",
                                                            place / "random", "--hidden_size", "64", "--layers", "2"});
    ASSERT_EQ(r.code, 0) << r.err;
  }
  arguments command() const {
    return {"data.train_files=" + (place / "data" / "train.jsonl").string(),
            "data.val_files=" + (place / "data" / "test.jsonl").string(),
            "data.val_max_samples=32",
            "data.max_length=1024",
            "data.train_batch_size=16",
            "data.micro_batch_size_per_gpu=8",
            "model.partial_pretrain=" + (place / "random").string(),
            "optim.lr=1e-2",
            "optim.warmup_steps_ratio=0.002",
            "trainer.total_epochs=1",
            "trainer.total_training_steps=16",
            "trainer.val_before_train=True",
            "trainer.test_freq=-1",
            "trainer.save_freq=-1",
            "rlcore.threads=2"};
  }
  const fs::path shared = RLCORE_SHARED_DIR;
};

TEST_F(sft_on_gsm8k, held_out_loss_falls) {
  const program::result r = train("run", command());
  EXPECT_NE(r.out.find("train  7473 rows"), std::string::npos) << r.out;
  const auto held_out = curve(root("run"), "val/loss");
  ASSERT_EQ(held_out.size(), 2u);
  EXPECT_NEAR(held_out.front(), std::log(6400.0), 0.05);  // a random model knows nothing of 6400 tokens
  EXPECT_LT(held_out.back(), held_out.front() - 2);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
