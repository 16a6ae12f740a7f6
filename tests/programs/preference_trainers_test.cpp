// Runs dpo_trainer, kto_trainer, rm_trainer and prm_trainer on 12 rows. Their losses against PyTorch: first_steps_test.
#include "preference_trainers.hpp"

#include "rlcore/telemetry/metric_names.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace preference;

class preference_trainers : public trainer_test {};

TEST_F(preference_trainers, learn_their_training_rows) {
  const arguments long_run{"--max_epochs", "12", "--learning_rate", "1e-2", "rlcore.eval_before_train=True"};
  for (const std::string name : {"dpo_trainer", "rm_trainer", "prm_trainer", "kto_trainer"}) {
    SCOPED_TRACE(name);
    train(name, name, long_run);
    const auto all = rows(place / name);
    ASSERT_EQ(all.size(), 37u);  // step 0 is the evaluation before the first
    const ordered_json &first = all.front(), &last = all.back();
    EXPECT_LT(last["eval/eval_loss"], 0.5 * first["eval/eval_loss"].get<double>());
    if (name != "kto_trainer")
      EXPECT_EQ(last["eval/acc_mean"], 1.0);
    else
      EXPECT_GT(last["eval/chosen_reward"], last["eval/reject_reward"].get<double>() + 1);
    for (const ordered_json& row : all)
      for (const auto& [metric, x] : row.items())
        EXPECT_TRUE(metric == "step" || rlcore::train::is_defined_metric(metric)) << metric;
    EXPECT_TRUE(fs::exists(place / (name + "_model") / "tokenizer.json"));
    EXPECT_TRUE(fs::exists(place / name / "report.html"));
  }
  const auto config = ordered_json::parse(scratch::read(place / "rm_trainer_model" / "config.json"));
  EXPECT_EQ(config["architectures"][0], "Qwen2ForSequenceClassification");
  EXPECT_EQ(config["num_labels"], 1);
  const auto last = rows(place / "rm_trainer").back();
  EXPECT_EQ(config["mean"], last["eval/reward_mean"]);
  EXPECT_EQ(config["std"], last["eval/reward_std"]);
}

TEST_F(preference_trainers, no_bit_depends_on_passes_or_threads) {
  for (const std::string name : {"dpo_trainer", "kto_trainer", "rm_trainer", "prm_trainer"}) {
    SCOPED_TRACE(name);
    train(name, name + "_a", {"--learning_rate", "1e-3", "--micro_train_batch_size", "1"});
    train(name, name + "_b",
          {"--learning_rate", "1e-3", "--micro_train_batch_size", "3", "--gradient_checkpointing", "rlcore.threads=2",
           "--ring_attn_size", "2", "--packing_samples", "--flash_attn"});
    EXPECT_FALSE(weights(name + "_a").empty());
    EXPECT_TRUE(weights(name + "_a") == weights(name + "_b")) << "other weights";
    EXPECT_EQ(rows(place / (name + "_a")), rows(place / (name + "_b")));
  }
}

TEST_F(preference_trainers, resume_to_the_same_bits) {
  const arguments how{"--max_epochs", "2", "--learning_rate", "1e-3", "--save_steps", "1", "--max_ckpt_num", "9"};
  for (const std::string name : {"kto_trainer", "rm_trainer"}) {
    SCOPED_TRACE(name);
    const std::string whole = name + "_whole", broken = name + "_broken";
    train(name, whole, how);
    fs::create_directories(place / broken);  // as a run leaves it that was killed after step 2
    fs::copy(place / whole / "global_step_2", place / broken / "global_step_2", fs::copy_options::recursive);
    scratch::write(place / broken / "latest_checkpointed_iteration.txt", "2");
    std::string lines;
    for (std::size_t i = 0; i < 3; ++i) lines += rows(place / whole)[i].dump() + "\n";
    scratch::write(place / broken / "metrics.jsonl", lines);
    const program::result r = train(name, broken, how + arguments{"--load_checkpoint"});
    EXPECT_NE(r.out.find("resumed after step 2"), std::string::npos) << r.out;
    const program::result again = train(name, broken, how + arguments{"--load_checkpoint"});
    EXPECT_NE(again.out.find("note: all 6 steps are done; a larger --max_epochs goes on"), std::string::npos)
        << again.out;
    EXPECT_TRUE(weights(whole) == weights(broken)) << "other weights";
    EXPECT_EQ(rows(place / whole), rows(place / broken));
    EXPECT_EQ(scratch::read(place / whole / "global_step_6" / "optim.safetensors"),
              scratch::read(place / broken / "global_step_6" / "optim.safetensors"));
  }
}

/// Without --load_checkpoint a run starts anew; what the earlier one measured stays.
TEST_F(preference_trainers, start_anew_in_a_used_folder) {
  for (const std::string name : {"dpo_trainer", "kto_trainer", "rm_trainer", "prm_trainer"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(train(name, name, {"--max_epochs", "2"}).out.find("earlier run"), std::string::npos);
    const std::string before = scratch::read(place / name / "metrics.jsonl");
    const program::result r = train(name, name, {});
    EXPECT_EQ(rows(place / name).size(), 3u);
    EXPECT_EQ(scratch::read(place / name / "metrics.1.jsonl"), before);
    const std::string note = "holds an earlier run: its metrics are in " + (place / name / "metrics.1.jsonl").string();
    EXPECT_NE(r.out.find(note), std::string::npos) << r.out;
    EXPECT_NE(r.out.find("a checkpoint of it stays until this run writes the same step; --load_checkpoint goes on from "
                         "step 6 instead"),
              std::string::npos)
        << r.out;
  }
}

/// As many rows as before, but others: here in another order.
TEST_F(preference_trainers, do_not_go_on_with_other_rows) {
  for (const std::string name : {"dpo_trainer", "kto_trainer", "rm_trainer", "prm_trainer"}) {
    SCOPED_TRACE(name);
    train(name, name, {});
    const std::string lines = scratch::read(settings(name)[1]);
    const std::size_t second = lines.find('\n') + 1;
    scratch::write(place / "rotated.jsonl", lines.substr(second) + lines.substr(0, second));
    const arguments rotated{"--load_checkpoint", "--dataset", (place / "rotated.jsonl").string()};
    const program::result r = program::run(name, command(name, name) + rotated);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_NE(r.err.find("the training data were 12 rows, fingerprint "), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("begin anew without --load_checkpoint"), std::string::npos) << r.err;
  }
}

/// The reference of an adapter is its base: the same rewards as with a second model.
TEST_F(preference_trainers, adapters_are_measured_against_their_base) {
  const arguments how{"--lora_rank", "4", "--learning_rate", "1e-2"};
  fs::copy(model, place / "second");
  train("dpo_trainer", "base", how);
  train("dpo_trainer", "two", how + arguments{"--ref_pretrain", (place / "second").string()});
  EXPECT_EQ(rows(place / "base"), rows(place / "two"));
  EXPECT_EQ(rows(place / "base")[0]["train/chosen_reward"], 0.0);
  EXPECT_NE(rows(place / "base")[2]["train/chosen_reward"], 0.0);
  EXPECT_TRUE(fs::exists(place / "base_model" / "lora_adapter" / "adapter_config.json"));
}

TEST_F(preference_trainers, certain_soft_labels_are_hard_labels) {
  std::string soft;
  std::istringstream hard(scratch::read(data / "steps.jsonl"));
  for (std::string line; std::getline(hard, line);) {
    auto row = ordered_json::parse(line);
    for (auto& label : row["value"]) label = label == "+" ? 1.0 : 0.0;
    soft += row.dump() + "\n";
  }
  scratch::write(place / "soft.jsonl", soft);
  const std::string file = (place / "soft.jsonl").string();
  train("prm_trainer", "hard", {"--learning_rate", "1e-3"});
  train("prm_trainer", "soft", {"--learning_rate", "1e-3", "--dataset", file, "--eval_dataset", file});
  EXPECT_TRUE(weights("hard") == weights("soft"));
  EXPECT_EQ(rows(place / "hard"), rows(place / "soft"));
}

TEST_F(preference_trainers, scores_of_the_evaluation_rows) {
  const fs::path file = place / "scores.jsonl";
  for (const auto& [name, field] : {std::pair{"rm_trainer", "chosen_reward"}, std::pair{"prm_trainer", "scores"}}) {
    train(name, std::string("scored_") + name, {"rlcore.eval_scores=" + file.string()});
    std::istringstream lines(scratch::read(file));
    std::size_t n = 0;
    for (std::string line; std::getline(lines, line); ++n)
      EXPECT_TRUE(ordered_json::parse(line).contains(field)) << line;
    EXPECT_EQ(n, 12u);
  }
}

TEST_F(preference_trainers, refuse_in_one_line_before_any_work) {
  refused("dpo_trainer", {"--pretrain", (place / "nowhere").string()}, "nowhere");
  refused("dpo_trainer", {"--save_path", data / "pairs.jsonl"}, "pairs.jsonl is no folder; expected a folder");
  refused("dpo_trainer", {"--dataset", "nowhere.jsonl"}, "no file or folder nowhere.jsonl");
  refused("dpo_trainer", {"--chosen_key", "choosen"}, "did you mean 'chosen'");
  refused("dpo_trainer", {"--input_template", "{} {}"}, "expected one {}");
  refused("dpo_trainer", {"--max_len", "5000"}, "more than the model's 512 positions");
  refused("dpo_trainer", {"--max_len", "8"}, "no row can be used");
  refused("dpo_trainer", {"--train_batch_size", "13"}, "12 rows; 1 epoch does not fill one step of 13");
  refused("rm_trainer", {"--tokenizer_chat_template", "llama", "--apply_chat_template"}, "unknown");
  refused("kto_trainer", {"--label_key", "output"}, "expected 1 (desirable) or 0");
  refused("prm_trainer", {"--placeholder_token", "two words"}, "expected one token");
  refused("prm_trainer", {"--placeholder_token", "+"}, "placeholders '+'");
  refused("prm_trainer", {"--reward_tokens", "+", "="}, "is none of --reward_tokens (+, =)");
  fs::copy(data / "score", place / "score");
  fs::copy(data / "tokenizer", place / "score");
  refused("dpo_trainer", {"--pretrain", (place / "score").string()}, "a score model");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
