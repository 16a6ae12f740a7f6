// grpo_trainer with LoRA: the adapter alone is trained against its own base, saved for PEFT, resumed to the same bits.
#include "grpo_trainer.hpp"

#include "rlcore/checkpoint/merge_adapter.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;
using namespace rlcore;

struct trainer_lora : trainer_test {
  const arguments lora{"actor_rollout_ref.model.lora_rank=4", "actor_rollout_ref.model.lora_alpha=8",
                       "actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.optim.lr=0.02"};
  /// Weights of the model folder by name.
  static std::vector<float> tensor(const fs::path& folder, const std::string& name) {
    const checkpoint::tensor_folder model(folder);
    std::vector<float> values(model.info(name).size());
    model.read_f32(name, values);
    return values;
  }
};

TEST_F(trainer_lora, trains_saves_merges_and_goes_on) {
  const program::result said = train("whole", lora);
  EXPECT_NE(said.out.find("(LoRA, rank 4, alpha 8)"), std::string::npos) << said.out;
  train("cut", lora + arguments{"trainer.total_training_steps=2"});
  train("cut", lora + arguments{"rlcore.threads=2", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"});
  expect_same("whole", "cut");
  EXPECT_EQ(scratch::read(actor(root("whole"), 4) / "lora_adapter" / "adapter_model.safetensors"),
            scratch::read(actor(root("cut"), 4) / "lora_adapter" / "adapter_model.safetensors"));

  double kl = 0;  // to the base, which the current policy has left
  for (const std::string& row : rows(root("whole"))) kl = nlohmann::json::parse(row)["actor/kl_loss"].get<double>();
  EXPECT_GT(kl, 0);

  const fs::path saved = actor(root("whole"), 4), merged = place / "merged";
  const checkpoint::adapter_config c = checkpoint::read_adapter_config(saved / "lora_adapter");
  EXPECT_EQ(c.lora.alpha, 8);
  EXPECT_EQ(c.base_model, files.model.string());
  EXPECT_EQ(checkpoint::merge_adapter(files.model, saved / "lora_adapter", merged), 14u);
  double difference = 0, moved = 0;
  for (const std::string& name : checkpoint::tensor_folder(files.model).names()) {
    const auto before = tensor(files.model, name), ours = tensor(saved / "huggingface", name),
               theirs = tensor(merged, name);
    if (name.find("_proj.weight") == name.npos) {
      EXPECT_EQ(before, ours) << name;
    }
    for (std::size_t i = 0; i < ours.size(); ++i) {
      difference = std::max(difference, std::abs(static_cast<double>(ours[i]) - static_cast<double>(theirs[i])));
      moved = std::max(moved, std::abs(static_cast<double>(ours[i]) - static_cast<double>(before[i])));
    }
  }
  EXPECT_LT(difference, 1e-6);
  EXPECT_GT(moved, 1e-3);

  const fs::path other = place / "other";
  tiny_model::make_for_tokenizer(other, files.model, 12);
  const arguments longer = lora + arguments{"trainer.total_training_steps=6"};
  refused(longer + arguments{"actor_rollout_ref.model.path=" + other.string()},
          "actor_rollout_ref.model.path was a model with other weights", "whole");
  refused(longer + arguments{"actor_rollout_ref.model.target_modules=[q_proj]"},
          "actor_rollout_ref.model.target_modules was all-linear and is [q_proj]", "whole");
  const arguments from{"trainer.total_training_steps=6", "trainer.resume_mode=resume_path",
                       "trainer.resume_from_path=" + (root("whole") / "global_step_4").string()};
  refused(lora + from + arguments{"actor_rollout_ref.model.target_modules=[q_proj]"}, "this run asks for rank 4",
          "narrower");
  refused(from, "was saved by a run with LoRA", "without");
}

/// On any layout with tensor parallel ranks: one adapter, as PEFT reads it, and checkpoints that go on on another.
TEST_F(trainer_lora, of_tensor_parallel_ranks_has_the_bits_of_one) {
  const arguments what = lora + arguments{"rlcore.row_chunks=2"}, two{"trainer.n_gpus_per_node=2"},
                  four{"trainer.n_gpus_per_node=4"}, tensor{"rlcore.tensor_parallel_size=2"},
                  half{"trainer.total_training_steps=2"};
  train("one", what);
  const auto adapter = [&](const std::string& name) {
    return scratch::read(actor(root(name), 4) / "lora_adapter" / "adapter_model.safetensors");
  };
  const auto same = [&](const std::string& name) {
    EXPECT_FALSE(adapter("one").empty());
    EXPECT_TRUE(adapter("one") == adapter(name)) << name << ": another adapter";
    EXPECT_TRUE(weights(root("one"), 4) == weights(root(name), 4)) << name << ": other weights";
  };
  train("pair", what + two + tensor);
  same("pair");
  train("four", what + four + tensor + arguments{"rlcore.zero_stage=1"});
  same("four");
  const arguments quarters{"rlcore.row_chunks=4"};
  train("one_of_quarters", what + quarters);
  train("groups",
        what + four + tensor + arguments{"actor_rollout_ref.rollout.tensor_model_parallel_size=4"} + quarters);
  EXPECT_TRUE(adapter("one_of_quarters") == adapter("groups"));
  train("moved", what + half);
  train("moved", what + four + tensor);
  same("moved");
  train("stays", what + two + tensor + half);
  train("stays", what + two + tensor);
  same("stays");
  train("back", what + four + tensor + half);
  train("back", what);
  same("back");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
