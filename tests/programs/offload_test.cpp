// The optimizer's moments in host memory, or in a file: the same run with less memory on the device.
#include "first_steps.hpp"
#include "grpo_trainer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

const std::string offload = "actor_rollout_ref.actor.fsdp_config.optimizer_offload";

using offload_runs = trainer_test;

TEST_F(offload_runs, have_the_bits_of_others_on_every_device) {
  for (const std::string device : {"cpu", "npu_emulator", "cuda_emulator"}) {
    SCOPED_TRACE(device);
    const arguments on{"trainer.device=" + device}, folder{"rlcore.offload_folder=" + place.path().string()};
    const std::string a = device + "_a", b = device + "_b", c = device + "_c";
    train(a, on);
    const auto r = train(b, on + arguments{offload + "=True"});
    EXPECT_EQ(r.out.find(offload + ": no effect on the CPU") != std::string::npos, device == "cpu") << r.out;
    expect_same(a, b);
    // Goes on in a file, and from there without.
    train(c, on + folder + arguments{offload + "=True", "trainer.total_training_steps=2"});
    train(c, on);
    EXPECT_TRUE(weights(root(a), 4) == weights(root(c), 4));
  }
}

TEST_F(offload_runs, of_ranks_have_the_bits_of_one) {
  train("one", {});
  const arguments two{"trainer.n_gpus_per_node=2", offload + "=True", "rlcore.offload_folder=" + place.path().string()};
  train("shards", two);
  EXPECT_TRUE(weights(root("one"), 4) == weights(root("shards"), 4));
  train("copies", two + arguments{"rlcore.zero_stage=0"});
  EXPECT_TRUE(weights(root("one"), 4) == weights(root("copies"), 4));
}

TEST_F(offload_runs, say_what_has_no_effect) {
  const auto note = [&](const arguments& more, const std::string& text) {
    const auto r = train("noted", more + arguments{"trainer.total_training_steps=1", "trainer.resume_mode=disable"});
    EXPECT_NE(r.out.find(text), std::string::npos) << r.out;
  };
  note({"rlcore.offload_folder=" + place.path().string()},
       "note: rlcore.offload_folder has no effect without " + offload);
  note({"actor_rollout_ref.actor.megatron.optimizer_offload=True"},
       "actor_rollout_ref.actor.megatron.optimizer_offload: no effect with the actor's strategy=fsdp");
  refused({"rlcore.offload_folder=" + root("nowhere").string()}, "nowhere: no such folder");
}

/// SFT, and DPO by OpenRLHF's flag.
TEST(offload_runs_of_others, have_the_same_bits) {
  for (const auto& [name, flag] :
       {std::pair{"sft", "model.fsdp_config.cpu_offload=True"}, std::pair{"dpo", "--adam_offload"}}) {
    const std::string trainer = std::string(name) + "_trainer";
    if (!fs::exists(program::path_of(trainer))) GTEST_SKIP() << "no " << program::path_of(trainer);
    const scratch::folder one, other;
    std::string model[2];
    for (const bool offloads : {false, true}) {
      const scratch::folder& place = offloads ? other : one;
      arguments all = first_steps::arguments(name, place.path());
      if (offloads) all = all + arguments{flag, "rlcore.offload_folder=" + place.path().string()};
      const program::result r = program::run(trainer, all);
      ASSERT_EQ(r.code, 0) << r.err;
      for (const auto& entry : fs::recursive_directory_iterator(place.path()))
        if (entry.path().filename() == "model.safetensors" && entry.path().string().find("step") != std::string::npos)
          model[offloads] += scratch::read(entry.path());
    }
    EXPECT_FALSE(model[0].empty()) << name;
    EXPECT_TRUE(model[0] == model[1]) << name;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
