// trainer.device and the keys of each device, in every program that runs a model.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/config/programs/evaluate.hpp"
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/config/programs/preference_keys.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/emulator/emulated_npu.hpp"
#include "rlcore/train/run/read_device.hpp"
#include "rlcore/train/supervised/sft_work.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
using arguments = std::vector<std::string>;

/// A registry, and what its command line cannot do without.
std::vector<std::pair<registry, arguments>> programs() {
  const arguments none, flags{"pretrain=model", "dataset=rows.jsonl"};
  arguments sft = flags;
  sft.push_back("output_key=answer");
  return {{main_ppo_registry(), none}, {ppo_trainer_registry(), none}, {reinforce_plus_plus_trainer_registry(), none},
          {dapo_registry(), none},     {sft_registry(), none},         {openrlhf_sft_registry(), sft},
          {dpo_registry(), flags},     {kto_registry(), flags},        {rm_registry(), flags},
          {prm_registry(), flags},     {evaluate_registry(), none}};
}

options parse(const std::pair<registry, arguments>& program, const arguments& more) {
  arguments all = program.second;
  all.insert(all.end(), more.begin(), more.end());
  return options::parse(all, program.first);
}
std::string refusal(const std::pair<registry, arguments>& program, const arguments& more) {
  try {
    parse(program, more);
  } catch (const rlcore::config_error& e) {
    return e.what();
  }
  return "accepted";
}
bool has_note(const options& opt, const std::string& part) {
  return std::any_of(opt.notes().begin(), opt.notes().end(),
                     [&](const std::string& note) { return note.find(part) != note.npos; });
}

TEST(device_options, every_program_has_them) {
  for (const auto& program : programs()) {
    SCOPED_TRACE(program.first.program);
    const options plain = parse(program, {});
    EXPECT_EQ(plain.get<std::string>("trainer.device"), "cpu");
    EXPECT_EQ(plain.find<std::string>("rlcore.compute"), std::nullopt);
    EXPECT_EQ(parse(program, {"trainer.device=npu"}).notes(), plain.notes());
    if (rlcore::nvidia::installed_devices() == 0) {
      EXPECT_TRUE(has_note(parse(program, {"trainer.device=cuda"}), "; the run uses the CPU"));
      EXPECT_NE(refusal(program, {"trainer.device=cuda", "rlcore.cuda.required=True"}).find("rlcore.cuda.required"),
                std::string::npos);
    }
    EXPECT_TRUE(has_note(parse(program, {"trainer.device=cuda_emulator"}), "for tests; slow"));
    const options emulated = parse(program, {"trainer.device=npu_emulator", "rlcore.npu_emulator.soc=Ascend910B1",
                                             "rlcore.npu_emulator.cann_version=8.5", "rlcore.compute=hf32"});
    EXPECT_EQ(emulated.notes().size(), plain.notes().size() + 1);
    EXPECT_TRUE(has_note(emulated, "modelled, no hardware"));
    EXPECT_EQ(emulated.get<std::string>("rlcore.npu_emulator.cann_version"), "8.5");
  }
}

TEST(device_options, refuses_what_a_device_lacks) {
  for (const auto& program : programs()) {
    SCOPED_TRACE(program.first.program);
    EXPECT_NE(refusal(program, {"trainer.device=nup"}).find("did you mean 'npu'"), std::string::npos);
    EXPECT_NE(refusal(program, {"rlcore.compute=hf32"}).find("needs trainer.device=npu"), std::string::npos);
    EXPECT_NE(refusal(program, {"rlcore.npu_emulator.sock=x"}).find("did you mean 'rlcore.npu_emulator.soc'"),
              std::string::npos);
    EXPECT_NE(refusal(program, {"rlcore.npu_emulator.soc=Ascend910B5"}).find("did you mean 'Ascend910B"),
              std::string::npos);
    EXPECT_NE(refusal(program, {"rlcore.npu_emulator.cann_version=8.4"}).find("expected 8.1, 8.3, 8.5"),
              std::string::npos);
    EXPECT_NE(refusal(program, {"rlcore.npu.device=4294967296"}).find("rlcore.npu.device=4294967296"),
              std::string::npos);
    EXPECT_NE(refusal(program, {"rlcore.npu.device=-1"}).find("rlcore.npu.device=-1"), std::string::npos);
    if (program.first.find("rlcore.rollout_weights") == nullptr) continue;
    EXPECT_NE(refusal(program, {"trainer.device=npu", "rlcore.rollout_weights=int8"}).find("is not on the NPU"),
              std::string::npos);
  }
}

TEST(device_options, every_chip_is_known_with_its_cores_and_memory) {
  const registry known = main_ppo_registry();
  const auto words = split_words(known.find("rlcore.npu_emulator.soc")->limits.choices);
  EXPECT_EQ(words.size(), rlcore::ascend::emulated::chips().size());
  for (const auto& word : words) {
    const auto* chip = rlcore::ascend::emulated::find_chip(word);
    ASSERT_NE(chip, nullptr) << word;
    const rlcore::device_settings s = read_device(options::parse(
        arguments{"trainer.device=npu_emulator", "rlcore.npu_emulator.soc=" + std::string(word), "rlcore.npu.device=1"},
        known));
    EXPECT_EQ(s.kind, rlcore::device_kind::npu_emulator);
    EXPECT_EQ(s.emulator.soc, word);
    EXPECT_EQ(s.emulator.cores, chip->cores);
    EXPECT_EQ(s.emulator.memory_bytes >> 30, static_cast<std::size_t>(chip->memory_gib));
    EXPECT_EQ(s.emulator.devices, 2);
    EXPECT_EQ(s.type, std::nullopt);
  }
}

TEST(device_options, says_what_has_no_effect) {
  const auto program = programs().front();
  EXPECT_TRUE(has_note(parse(program, {"rlcore.npu.deterministic=False"}),
                       "rlcore.npu.deterministic has no effect with trainer.device=cpu"));
  EXPECT_TRUE(has_note(parse(program, {"trainer.device=npu", "rlcore.npu_emulator.seed=3"}),
                       "rlcore.npu_emulator.seed has no effect with trainer.device=npu"));
  EXPECT_TRUE(has_note(parse(program, {"trainer.device=cuda_emulator", "rlcore.cuda.cache=x"}),
                       "rlcore.cuda.cache has no effect with trainer.device=cuda_emulator"));
  EXPECT_TRUE(has_note(parse(program, {"trainer.device=npu", "rlcore.threads=2"}),
                       "rlcore.threads has no effect with trainer.device=npu"));
  EXPECT_TRUE(has_note(parse(program, {"trainer.device=npu", "rlcore.instruction_set=avx2"}),
                       "rlcore.instruction_set has no effect with trainer.device=npu"));
}

/// Rows of a batch are not independent to the bit there, so recorded log-probs are not those of training.
TEST(device_options, old_log_probs_are_computed_again_on_the_npu) {
  for (const auto& program : programs()) {
    if (program.first.find("rlcore.recompute_old_log_prob") == nullptr) continue;
    SCOPED_TRACE(program.first.program);
    EXPECT_FALSE(parse(program, {}).get<bool>("rlcore.recompute_old_log_prob"));
    EXPECT_TRUE(parse(program, {"trainer.device=npu_emulator"}).get<bool>("rlcore.recompute_old_log_prob"));
    const options forced = parse(program, {"trainer.device=npu", "rlcore.recompute_old_log_prob=False"});
    EXPECT_TRUE(forced.get<bool>("rlcore.recompute_old_log_prob"));
    EXPECT_TRUE(has_note(forced, "rlcore.recompute_old_log_prob=False: True on the NPU"));
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
