// The flags of OpenRLHF's preference trainers: names and defaults (tests/reference/openrlhf_flags.py), and their rules.
#include "rlcore/config/programs/preference_keys.hpp"
#include "rlcore/config/check_value.hpp"
#include "rlcore/train/preference/settings.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
using arguments = std::vector<std::string>;

registry registry_of(const std::string& trainer) {
  if (trainer == "dpo") return dpo_registry();
  if (trainer == "kto") return kto_registry();
  return trainer == "rm" ? rm_registry() : prm_registry();
}

options parse(const std::string& trainer, const arguments& more) {
  arguments all{"--pretrain", "model", "--dataset", "rows.jsonl"};
  all.insert(all.end(), more.begin(), more.end());
  return options::parse(all, registry_of(trainer));
}

std::string refusal(const std::string& trainer, const arguments& more) {
  try {
    parse(trainer, more);
  } catch (const rlcore::config_error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  return "accepted";
}

bool same(const value& mine, const nlohmann::json& theirs) {
  if (theirs.is_null()) return mine.is_null();
  if (theirs.is_boolean()) return mine.as<bool>() != nullptr && *mine.as<bool>() == theirs.get<bool>();
  if (theirs.is_number() && !mine.is_list()) return std::stod(scalar_text(mine)) == theirs.get<double>();
  if (theirs.is_string()) return scalar_text(mine) == theirs.get<std::string>();
  return inline_text(mine) == theirs.dump();
}

TEST(preference_keys, are_those_of_openrlhf_with_its_defaults) {
  const auto reference = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/openrlhf_flags.json"));
  // The name of a run has no time in it here.
  const std::set<std::string> different = {"wandb_run_name"};
  ASSERT_EQ(reference.size(), 4u);
  for (const auto& [trainer, flags] : reference.items()) {
    const options opt = parse(trainer, {});
    EXPECT_TRUE(opt.notes().empty()) << opt.notes().front();
    for (const auto& [name, theirs] : flags.items()) {
      SCOPED_TRACE(trainer + " --" + name);
      const flag* mine = nullptr;
      for (const flag& f : opt.known().flags())
        if (f.name == name) mine = &f;
      ASSERT_NE(mine, nullptr);
      EXPECT_EQ(mine->count, theirs["nargs"].is_string() ? flag::any_count : theirs["nargs"].get<int>());
      if (name == "bf16") {
        EXPECT_EQ(opt.find<std::string>("rlcore.compute"), std::nullopt);  // float32 on the CPU
        EXPECT_EQ(parse(trainer, {"--bf16"}).get<std::string>("rlcore.compute"), "bfloat16");
      } else if (name != "pretrain" && name != "dataset" && different.count(name) == 0) {
        EXPECT_TRUE(same(opt.at(name), theirs["default"])) << inline_text(opt.at(name)) << " " << theirs["default"];
      }
    }
  }
}

/// The scripts of OpenRLHF's examples, with local files.
TEST(preference_keys, published_command_lines_run_unchanged) {
  const options dpo = parse("dpo", {"--save_path",
                                    "./checkpoint/llama3-8b-dpo",
                                    "--save_steps",
                                    "-1",
                                    "--logging_steps",
                                    "1",
                                    "--eval_steps",
                                    "-1",
                                    "--train_batch_size",
                                    "256",
                                    "--micro_train_batch_size",
                                    "1",
                                    "--bf16",
                                    "--max_epochs",
                                    "1",
                                    "--max_len",
                                    "8192",
                                    "--zero_stage",
                                    "3",
                                    "--learning_rate",
                                    "5e-7",
                                    "--beta",
                                    "0.1",
                                    "--apply_chat_template",
                                    "--chosen_key",
                                    "chosen",
                                    "--rejected_key",
                                    "rejected",
                                    "--flash_attn",
                                    "--load_checkpoint",
                                    "--packing_samples",
                                    "--gradient_checkpointing",
                                    "--ring_attn_size",
                                    "2",
                                    "--ring_head_stride",
                                    "2"});
  EXPECT_EQ(dpo.get<double>("learning_rate"), 5e-7);
  EXPECT_EQ(dpo.get<std::int64_t>("save_steps"), -1);
  ASSERT_EQ(dpo.notes().size(), 2u);
  EXPECT_NE(dpo.notes()[1].find("--ring_attn_size 2: no effect on one rank"), std::string::npos) << dpo.notes()[1];
  EXPECT_NE(dpo.notes()[0].find("without effect on this device: --logging_steps 1, --flash_attn"), std::string::npos)
      << dpo.notes()[0];
  const options prm =
      parse("prm", {"--input_key", "input", "--label_key", "value", "--placeholder_token", "\u043a\u0438",
                    "--reward_tokens", "+", "-", "--packing_samples", "--flash_attn", "--bf16"});
  EXPECT_EQ(prm.list("reward_tokens"), (arguments{"+", "-"}));
  const options rm =
      parse("rm", {"--target_modules", "q_proj", "v_proj", "--lora_rank", "8", "--value_head_prefix=score"});
  EXPECT_EQ(rm.list("target_modules"), (arguments{"q_proj", "v_proj"}));
  EXPECT_EQ(parse("kto", {}).get<std::string>("input_template"), "User: {}\nAssistant: ");
}

TEST(preference_keys, rows_with_images) {
  for (const char* trainer : {"dpo", "kto", "rm", "prm"}) {
    EXPECT_EQ(parse(trainer, {}).get<std::string>("data.image_key"), "images");
    for (const arguments& named :
         {arguments{"--image_key", "seen"}, arguments{"--data.image_key", "seen"}, arguments{"data.image_key=seen"}})
      EXPECT_EQ(parse(trainer, named).get<std::string>("data.image_key"), "seen");
    EXPECT_NE(refusal(trainer, {"data.mm_processor_kwargs.max_pixel=3"}).find("did you mean 'max_pixels'"),
              std::string::npos);
  }
}

TEST(preference_keys, rules_that_span_flags) {
  const std::map<std::string, arguments> wrong = {
      {"needs --packing_samples", {"--ring_attn_size", "2"}},
      {"expected two numbers from 0 to below 1", {"--adam_betas", "0.9", "1.5"}},
      {"--lora_dropout 0.1 is not in this build", {"--lora_dropout", "0.1"}},
      {"--load_in_4bit is not in this build", {"--load_in_4bit"}},
      {"--lr_warmup_ratio=2: expected a number from 0 to 1", {"--lr_warmup_ratio", "2"}},
      {"did you mean '--label_smoothing'", {"--label_smothing", "0.1"}},
      {"--label_smoothing=1.5: expected a number from 0 to 1", {"--label_smoothing", "1.5"}},
      {"--use_ms is not in this build", {"--use_ms"}},
  };
  for (const auto& [part, more] : wrong) EXPECT_NE(refusal("dpo", more).find(part), std::string::npos) << part;
  EXPECT_NE(refusal("rm", {"--loss", "hinge"}).find("expected sigmoid, logexp"), std::string::npos);
  EXPECT_NE(refusal("rm", {"--value_head_prefix", "value_head"}).find("is not in this build"), std::string::npos);
  EXPECT_NE(refusal("kto", {"--train_batch_size", "1"}).find("expected an integer >= 2"), std::string::npos);
  EXPECT_NE(refusal("kto", {"--beta", "0"}).find("--beta=0: expected a number"), std::string::npos);
  EXPECT_THROW(options::parse(arguments{"--dataset", "x"}, dpo_registry()), rlcore::config_error);
  for (const char* trainer : {"dpo", "kto", "rm"}) {
    const options form = parse(trainer, {"--input_template", "no place"});
    EXPECT_EQ(form.get<std::string>("input_template"), "");
    ASSERT_EQ(form.notes().size(), 1u);
    EXPECT_NE(form.notes()[0].find("has no {}"), std::string::npos);
  }
}

TEST(preference_keys, adam_offload_moves_the_moments) {
  for (const char* trainer : {"dpo", "kto", "rm", "prm"}) {
    EXPECT_TRUE(
        read_openrlhf_training(parse(trainer, {"--adam_offload", "trainer.device=npu_emulator"})).adamw.moments.host)
        << trainer;
    EXPECT_FALSE(read_openrlhf_training(parse(trainer, {"--adam_offload"})).adamw.moments.host) << trainer;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
