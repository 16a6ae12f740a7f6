// Trainers on rows with images, as a user would run them: a tiny Qwen2.5-VL and digits to be read.
#include <cstring>
#include <map>
#include <memory>

#include "grpo_trainer.hpp"
#include "rlcore/data/jsonl.hpp"
#include "support/kept_task.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

class vision_trainers : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!fs::exists(program::path_of("quickstart"))) return;
    place = std::make_unique<scratch::folder>();
    shared = program::make_kept_task(
        "vision_task", {"--images", "--task_only", "quickstart.warm_start_steps=150", "rlcore.threads=2"});
  }
  static void TearDownTestSuite() { place.reset(); }
  void SetUp() override {
    if (place == nullptr) GTEST_SKIP() << "no " << program::path_of("quickstart");
    ASSERT_EQ(shared.made.code, 0) << shared.made.err;
  }
  static fs::path task() { return shared.folder / "runs" / "vision"; }
  static fs::path root(const std::string& name) { return *place / name; }
  /// A published command for geo3k, shrunk.
  static arguments command(const std::string& name) {
    return {"algorithm.adv_estimator=grpo",
            "data.train_files=" + (task() / "data" / "train.jsonl").string(),
            "data.val_files=" + (task() / "data" / "test.jsonl").string(),
            "data.train_max_samples=64",
            "data.val_max_samples=6",
            "data.train_batch_size=6",
            "data.max_prompt_length=64",
            "data.max_response_length=4",
            "data.filter_overlong_prompts=True",
            "data.truncation=error",
            "data.image_key=images",
            "actor_rollout_ref.model.path=" + (task() / "model").string(),
            "actor_rollout_ref.actor.optim.lr=1e-3",
            "actor_rollout_ref.model.use_remove_padding=True",
            "actor_rollout_ref.actor.ppo_mini_batch_size=3",
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
            "actor_rollout_ref.actor.use_kl_loss=True",
            "actor_rollout_ref.actor.kl_loss_coef=0.01",
            "actor_rollout_ref.actor.kl_loss_type=low_var_kl",
            "actor_rollout_ref.rollout.n=4",
            "+actor_rollout_ref.rollout.engine_kwargs.vllm.disable_mm_preprocessor_cache=True",
            "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
            "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8",
            "trainer.logger=console",
            "trainer.default_local_dir=" + root(name).string(),
            "trainer.val_before_train=False",
            "trainer.total_training_steps=2",
            "trainer.test_freq=2",
            "trainer.save_freq=2",
            "rlcore.threads=1"};
  }
  static program::result train(const std::string& name, const arguments& more = {}) {
    const program::result r = program::run("grpo_trainer", command(name) + more);
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  }
  static void expect_same(const std::string& a, const std::string& b) {
    EXPECT_FALSE(weights(root(a), 2).empty());
    EXPECT_TRUE(weights(root(a), 2) == weights(root(b), 2)) << a << " and " << b << ": other weights";
    EXPECT_EQ(rows(root(a)), rows(root(b)));
  }
  /// The bytes of the tensors whose names begin with `prefix`.
  static std::string tensors(const fs::path& file, const std::string& prefix) {
    const std::string bytes = scratch::read(file);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    const auto header = nlohmann::json::parse(bytes.substr(8, length));
    std::string all;
    for (const auto& [name, tensor] : header.items())
      if (name.starts_with(prefix)) {
        const std::size_t first = tensor["data_offsets"][0], last = tensor["data_offsets"][1];
        all += bytes.substr(8 + length + first, last - first);
      }
    return all;
  }

  static inline std::unique_ptr<scratch::folder> place;
  static inline program::kept_task shared;
};

TEST_F(vision_trainers, grpo_has_the_same_bits_however_it_is_run) {
  const auto r = train("one");
  EXPECT_NE(r.out.find("64 of them have images, the largest of 56 x 56 pixels and 4 tokens"), std::string::npos)
      << r.out;
  const auto first = nlohmann::json::parse(rows(root("one")).front());
  EXPECT_EQ(first.at("critic/score/max"), 1) << "the rewards differ";
  EXPECT_EQ(first.at("critic/score/min"), 0);
  EXPECT_GT(first.at("actor/grad_norm").get<double>(), 0.01);
  EXPECT_NE(tensors(actor(root("one"), 2) / "huggingface" / "model.safetensors", "visual."),
            tensors(task() / "model" / "model.safetensors", "visual."));
  train("threads",
        {"rlcore.threads=2", "rlcore.image_cache_mb=0", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
         "actor_rollout_ref.rollout.max_num_seqs=5"});
  expect_same("one", "threads");
  train("scored_again", {"rlcore.recompute_old_log_prob=True"});
  EXPECT_TRUE(weights(root("one"), 2) == weights(root("scored_again"), 2)) << "recorded log-probs are training's";
  for (const char* zero : {"0", "3"}) {
    const std::string name = std::string("ranks") + zero;
    train(name, {"trainer.n_gpus_per_node=2", std::string("rlcore.zero_stage=") + zero});
    expect_same("one", name);
  }
  EXPECT_EQ(program::run("compare_runs", {root("one").string(), root("ranks3").string(), "--threshold", "0"}).code, 0);
  EXPECT_NE(scratch::read(root("one") / "report.html").find("<img alt="), std::string::npos);
}

TEST_F(vision_trainers, responses_go_on_with_the_next_weights) {
  const arguments stale{"async_training.staleness_threshold=1",
                        "async_training.trigger_parameter_sync_step=1",
                        "async_training.require_batches=2",
                        "data.max_response_length=150",
                        "actor_rollout_ref.rollout.n=2",
                        "actor_rollout_ref.rollout.temperature=4",
                        "actor_rollout_ref.actor.ppo_mini_batch_size=3",
                        "reward_model.reward_manager=dapo",
                        "reward_model.overlong_buffer.enable=True",
                        "reward_model.overlong_buffer.len=149",
                        "reward_model.overlong_buffer.penalty_factor=1",
                        "trainer.logger=file"};
  train("stale", stale);
  train("stale_ranks", stale + arguments{"trainer.n_gpus_per_node=3", "rlcore.image_cache_mb=0"});
  const auto last = nlohmann::json::parse(rows(root("stale")).back());
  EXPECT_GT(last.at("fully_async/partial/total_partial_num"), 0);
  EXPECT_GT(last.at("actor/grad_norm"), 0);
  expect_same("stale", "stale_ranks");
}

TEST_F(vision_trainers, a_frozen_tower_keeps_every_byte) {
  train("frozen", {"actor_rollout_ref.actor.freeze_vision_tower=True"});
  const fs::path after = actor(root("frozen"), 2) / "huggingface" / "model.safetensors",
                 before = task() / "model" / "model.safetensors";
  EXPECT_FALSE(tensors(before, "visual.").empty());
  EXPECT_TRUE(tensors(after, "visual.") == tensors(before, "visual."));
  EXPECT_FALSE(tensors(after, "model.") == tensors(before, "model."));
}

TEST_F(vision_trainers, adapters_with_and_without_the_tower) {
  const arguments lora{"actor_rollout_ref.model.lora_rank=4", "actor_rollout_ref.model.lora_alpha=8",
                       "actor_rollout_ref.model.target_modules=all-linear"};
  train("lora", lora);
  train("lora_of_words", lora + arguments{"actor_rollout_ref.model.exclude_modules=.*visual.*"});
  const auto has_tower = [&](const std::string& name) {
    return scratch::read(actor(root(name), 2) / "lora_adapter" / "adapter_model.safetensors").find("visual.") !=
           std::string::npos;
  };
  EXPECT_TRUE(has_tower("lora"));
  EXPECT_FALSE(has_tower("lora_of_words"));
}

TEST_F(vision_trainers, other_estimators_and_a_critic) {
  for (const char* estimator : {"gae", "reinforce_plus_plus", "rloo", "remax"}) {
    arguments more{std::string("algorithm.adv_estimator=") + estimator, "trainer.total_training_steps=1"};
    if (std::string(estimator) == "gae")
      more = more + arguments{"critic.model.path=" + (task() / "model").string(), "critic.optim.lr=1e-3",
                              "critic.ppo_micro_batch_size_per_gpu=4"};
    const auto r = program::run("ppo_trainer", command(estimator) + more);
    EXPECT_EQ(r.code, 0) << estimator << ": " << r.err;
  }
  const auto dapo = program::run("dapo_trainer", command("dapo") + arguments{"trainer.total_training_steps=1"});
  EXPECT_EQ(dapo.code, 0) << dapo.err;
}

TEST_F(vision_trainers, evaluate_and_sft_read_the_same_rows) {
  const arguments evaluation{"model.path=" + (task() / "model").string(),
                             "data.files=" + (task() / "data" / "test.jsonl").string(),
                             "data.limit=5",
                             "data.max_response_length=4",
                             "rollout.n=2",
                             "rollout.temperature=1"};
  for (const char* cache : {"0", "64"})
    ASSERT_EQ(
        program::run("evaluate", evaluation + arguments{std::string("rlcore.image_cache_mb=") + cache,
                                                        "output_dir=" + root(std::string("scores") + cache).string()})
            .code,
        0);
  EXPECT_EQ(scratch::read(root("scores0") / "generations.jsonl"),
            scratch::read(root("scores64") / "generations.jsonl"));

  std::string conversations;
  for (const auto& row : rlcore::data::read_jsonl(task() / "data" / "test.jsonl")) {
    auto messages = row["prompt"];
    messages.push_back({{"role", "assistant"}, {"content", row["extra_info"]["answer"]}});
    conversations += nlohmann::json{{"messages", messages}, {"images", row["images"]}}.dump() + "\n";
  }
  scratch::write(*place / "sft.jsonl", conversations);
  const auto learn = [&](const std::string& name, const arguments& more) {
    const auto r = program::run(
        "sft_trainer", arguments{"data.train_files=" + (*place / "sft.jsonl").string(),
                                 "data.val_files=" + (*place / "sft.jsonl").string(), "data.multiturn.enable=True",
                                 "data.train_batch_size=20", "data.max_length=80", "optim.lr=1e-3",
                                 "model.partial_pretrain=" + (task() / "model").string(),
                                 "trainer.default_local_dir=" + root(name).string(), "trainer.total_training_steps=10",
                                 "trainer.logger=console"} +
                           more);
    EXPECT_EQ(r.code, 0) << r.err;
  };
  learn("sft", {"data.micro_batch_size_per_gpu=20"});
  learn("sft_in_parts", {"data.micro_batch_size_per_gpu=3", "rlcore.threads=2"});
  EXPECT_EQ(rows(root("sft")), rows(root("sft_in_parts")));
  const auto first = nlohmann::json::parse(rows(root("sft")).front()),
             last = nlohmann::json::parse(rows(root("sft")).back());
  EXPECT_LT(last.at("train/loss").get<double>(), first.at("train/loss").get<double>());
}

/// The rows of the task with the columns of OpenRLHF's trainers: the truth, and the digit after it.
std::string judged_digits(const fs::path& task) {
  std::string lines;
  for (const auto& row : rlcore::data::read_jsonl(task / "data" / "test.jsonl")) {
    if (std::count(lines.begin(), lines.end(), '\n') == 24) break;
    const std::string right = row["extra_info"]["answer"],
                      wrong = "#### " + std::to_string((right.back() - '0' + 1) % 10);
    const std::string question = row["prompt"][0]["content"];
    const bool good = std::count(lines.begin(), lines.end(), '\n') % 2 == 0;
    lines += nlohmann::json{{"prompt", row["prompt"]},     {"chosen", right},
                            {"rejected", wrong},           {"output", good ? right : wrong},
                            {"label", good ? 1 : 0},       {"steps", question + " " + (good ? right : wrong) + "!"},
                            {"value", {good ? "+" : "-"}}, {"images", row["images"]}}
                 .dump() +
             "\n";
  }
  return lines;
}

TEST_F(vision_trainers, preferences_and_rewards_are_learnt_by_name) {
  scratch::write(*place / "judged.jsonl", judged_digits(task()));
  const std::string file = (*place / "judged.jsonl").string();
  const std::map<std::string, arguments> own{
      {"dpo_trainer", {"--prompt_key", "prompt", "--apply_chat_template"}},
      {"kto_trainer", {"--input_key", "prompt", "--output_key", "output", "--apply_chat_template"}},
      {"rm_trainer", {"--prompt_key", "prompt", "--apply_chat_template"}},
      {"prm_trainer",
       {"--input_key", "steps", "--label_key", "value", "--placeholder_token", "!", "--reward_tokens", "+", "-"}},
      {"sft_trainer", {"--input_key", "prompt", "--output_key", "chosen", "--apply_chat_template"}}};
  for (const auto& [name, columns] : own) {
    const auto learn = [&, &columns = columns, &name = name](const std::string& run, const arguments& more) {
      const auto r = program::run(
          name, arguments{"--pretrain", (task() / "model").string(), "--dataset", file, "--eval_dataset", file,
                          "--train_batch_size", "8", "--max_len", "96", "--learning_rate", "1e-3", "--ckpt_path",
                          root(run).string(), "--save_path", root(run + "_model").string(), "--image_key", "images"} +
                    columns + more);
      EXPECT_EQ(r.code, 0) << name << ": " << r.err;
      return r;
    };
    const auto r = learn(name, {"--micro_train_batch_size", "8", "--max_epochs", "4", "rlcore.eval_before_train=True"});
    const std::string said =
        name == "sft_trainer" ? "train  24 rows" : "24 of them have images, the largest of 56 x 56";
    EXPECT_NE(r.out.find(said), std::string::npos) << r.out;
    learn(name + "_in_parts", {"--micro_train_batch_size", "3", "--max_epochs", "4", "rlcore.eval_before_train=True",
                               "rlcore.threads=2", "rlcore.image_cache_mb=0"});
    const auto all = rows(root(name));
    EXPECT_EQ(all, rows(root(name + "_in_parts"))) << name;
    const auto first = nlohmann::json::parse(all.front()), last = nlohmann::json::parse(all.back());
    EXPECT_LT(last.at("eval/eval_loss").get<double>(), first.at("eval/eval_loss").get<double>()) << name;
    const fs::path trained = root(name + "_model") / "model.safetensors";
    EXPECT_TRUE(scratch::read(trained) == scratch::read(root(name + "_in_parts_model") / "model.safetensors")) << name;
    EXPECT_NE(tensors(trained, "visual."), tensors(task() / "model" / "model.safetensors", "visual.")) << name;
  }
}

TEST_F(vision_trainers, preference_rows_that_cannot_be_are_one_line) {
  const auto refused = [&](const std::string& rows, const arguments& more, const std::string& part) {
    scratch::write(*place / "bad.jsonl", rows);
    const auto r = program::run("dpo_trainer", arguments{"--pretrain", (task() / "model").string(), "--dataset",
                                                         (*place / "bad.jsonl").string(), "--prompt_key", "prompt",
                                                         "--apply_chat_template", "--ckpt_path", root("bad").string()} +
                                                   more);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(root("bad")));
  };
  refused(R"({"prompt": "Read <|image_pad|>.", "chosen": "a", "rejected": "b"})"
          "\n",
          {}, "1 image tokens for 0 images; <|image_pad|> may not stand in a message");
  refused(R"({"prompt": "<image>?", "chosen": "a", "rejected": "b", "images": ["none.png"]})"
          "\n",
          {}, "none.png");
  refused(judged_digits(task()), {"--image_key", "pictures"}, "no column 'pictures'");
}

TEST_F(vision_trainers, what_cannot_be_is_said_in_one_line) {
  const auto refused = [&](const arguments& more, const std::string& part) {
    const auto r = program::run("grpo_trainer", command("refused") + more);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(root("refused") / "global_step_2"));
  };
  const tiny_model::files words = tiny_model::make(*place / "words");
  refused({"actor_rollout_ref.model.path=" + words.model.string()},
          "reads no images: its config.json has no vision_config");
  refused({"data.image_key=pictures"}, "no column 'pictures'");
  refused({"data.max_prompt_length=12", "data.filter_overlong_prompts=False", "data.truncation=left"},
          "images are not truncated");
  refused({"data.mm_processor_kwargs.max_pixel=3"}, "did you mean");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
