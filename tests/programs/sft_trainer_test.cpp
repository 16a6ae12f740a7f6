// build/bin/sft_trainer: what a run prints and leaves, what must not show in a result, resuming after a kill.
#include "sft_trainer.hpp"

#include "rlcore/data/table.hpp"
#include "support/kill.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace sft;
using sft_trainer = sft::trainer_test;

TEST_F(sft_trainer, losses_fall_and_checkpoints_have_the_layout_of_verl) {
  const program::result r = train("a", {"trainer.val_before_train=True"});
  for (const char* line : {"train  18 rows, ", "  steps per epoch   4  2 rows are left out of each epoch",
                           "  total steps       8  2 epochs", "step:8 - train/loss:", " - train/tokens:",
                           " - train/grad_norm:", " - train/lr(1e-3):", " - train/time(s):", " - val/loss:",
                           "\ntrain/loss  ", "\nval/loss    ", "/global_step_8/huggingface\n"})
    EXPECT_NE(r.out.find(line), std::string::npos) << line << "\n" << r.out;
  const auto losses = curve(root("a"), "train/loss"), held_out = curve(root("a"), "val/loss");
  ASSERT_EQ(losses.size(), 8u);
  ASSERT_EQ(held_out.size(), 5u);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_LT(held_out.back(), held_out.front());
  EXPECT_EQ(curve(root("a"), "train/lr(1e-3)")[0], 3.0);  // int(0.1 * 8) = 0 steps of warm-up
  EXPECT_EQ(scratch::read(root("a") / "latest_checkpointed_iteration.txt"), "8");
  for (const int step : {2, 4, 6, 8}) {
    const auto files_of = state(root("a"), step);
    for (const char* name : {"data.json", "extra_state.json", "fsdp_config.json", "optim.safetensors",
                             "huggingface/config.json", "huggingface/model.safetensors", "huggingface/tokenizer.json"})
      EXPECT_TRUE(files_of.contains(name)) << name;
  }
  EXPECT_TRUE(fs::exists(root("a") / "report.html"));
}

/// verl saves the tokenizer with its custom_chat_template; LLaMA-Factory adds the token that ends training answers to
/// EOS.
TEST_F(sft_trainer, the_saved_folder_has_the_template_and_the_end_that_were_taught) {
  const fs::path config = files.model / "config.json", generation = files.model / "generation_config.json";
  auto json = nlohmann::json::parse(scratch::read(config));
  const int taught = json["eos_token_id"], other = taught == 0 ? 1 : 0;
  json["eos_token_id"] = other, json["bos_token_id"] = other, json["mine"] = {1, 2};
  scratch::write(config, json.dump());
  const nlohmann::json sampling{{"eos_token_id", other}, {"bos_token_id", other}, {"temperature", 0.6}};
  scratch::write(generation, sampling.dump());
  const std::string mine =
      "{%- for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{%- endfor %}"
      "{%- if add_generation_prompt %}<|im_start|>assistant: {%- endif %}";
  scratch::write(place / "mine.jinja", mine);
  const auto r = train("run", {"rlcore.chat_template=" + (place / "mine.jinja").string(), "trainer.save_freq=-1"});
  EXPECT_NE(r.out.find("note: answers end with <|im_end|>, which is no EOS in config.json"), std::string::npos)
      << r.out;
  const fs::path saved = root("run") / "global_step_8" / "huggingface";
  EXPECT_EQ(nlohmann::json::parse(scratch::read(saved / "tokenizer_config.json"))["chat_template"], mine);
  EXPECT_EQ(scratch::read(saved / "chat_template.jinja"), mine);
  const auto model = nlohmann::json::parse(scratch::read(saved / "config.json")),
             ends = nlohmann::json::parse(scratch::read(saved / "generation_config.json"));
  EXPECT_EQ(model["bos_token_id"], other);
  EXPECT_EQ(model["mine"], json["mine"]);
  for (const nlohmann::json& file : {model, ends}) EXPECT_EQ(file["eos_token_id"], (nlohmann::json{other, taught}));
  EXPECT_EQ(ends["temperature"], 0.6);

  train("again", {"model.partial_pretrain=" + saved.string(), "trainer.total_training_steps=1"});
  EXPECT_EQ(scratch::read(root("again") / "global_step_1" / "huggingface" / "generation_config.json"),
            scratch::read(saved / "generation_config.json"));
}

TEST_F(sft_trainer, ends_early_saves_the_last_step_and_keeps_as_many_as_asked) {
  train("run", {"trainer.total_training_steps=3", "trainer.save_freq=-1", "trainer.test_freq=-1"});
  EXPECT_EQ(curve(root("run"), "val/loss").size(), 1u);
  EXPECT_FALSE(state(root("run"), 3).empty());
  EXPECT_TRUE(state(root("run"), 2).empty());
  train("few", {"trainer.save_freq=1", "trainer.max_ckpt_to_keep=2"});
  EXPECT_TRUE(state(root("few"), 6).empty());
  EXPECT_FALSE(state(root("few"), 7).empty());
  train("other_seed", {"trainer.seed=2"});
  EXPECT_NE(rows(root("other_seed")), rows(root("few")));
}

const arguments variants[] = {{},
                              {"rlcore.sft_loss=dft", "optim.lr_scheduler=wsd", "rlcore.compute=bfloat16",
                               "data.truncation=left", "data.max_length=40"},
                              {"model.lora_rank=4", "model.target_modules=[q_proj,v_proj]"}};

/// Neither does packing: rows of a pass are never padded, so there is nothing it could save.
TEST_F(sft_trainer, threads_passes_packing_and_memory_do_not_show) {
  const arguments ways[] = {
      {"rlcore.threads=2"},
      {"data.micro_batch_size_per_gpu=1", "rlcore.threads=2"},
      {"data.micro_batch_size_per_gpu=100", "data.packing=True", "use_remove_padding=True"},
      {"model.enable_gradient_checkpointing=False", "rlcore.logits_memory_mb=1", "data.micro_batch_size_per_gpu=2"},
      {"data.balance_dp_token=True", "trainer.n_gpus_per_node=1", "trainer.checkpoint.save_contents=[model,hf_model]"}};
  for (std::size_t v = 0; v < std::size(variants); ++v) {
    const std::string base = "base" + std::to_string(v);
    const arguments at_the_end{"trainer.save_freq=-1"};
    train(base, variants[v] + at_the_end);
    for (std::size_t w = 0; w < std::size(ways); ++w) {
      SCOPED_TRACE(base + " " + ways[w][0]);
      const std::string name = base + "_" + std::to_string(w);
      train(name, variants[v] + at_the_end + ways[w]);
      expect_same(base, name);
    }
  }
}

TEST_F(sft_trainer, resumed_run_equals_an_uninterrupted_one) {
  for (std::size_t v = 1; v < std::size(variants); ++v) {
    const std::string whole = "whole" + std::to_string(v), cut = "cut" + std::to_string(v);
    train(whole, variants[v]);
    train(cut, variants[v] + arguments{"trainer.total_training_steps=2"});
    const auto second = train(cut, variants[v]);
    EXPECT_NE(second.out.find("resumed after step 2"), std::string::npos) << second.out;
    expect_same(whole, cut);
    const auto third = train(cut, variants[v]);
    EXPECT_NE(third.out.find("note: all 8 steps are done; a larger trainer.total_epochs or "), std::string::npos)
        << third.out;
    expect_same(whole, cut);
  }
  train("whole");
  const std::string from = "trainer.resume_from_path=" + (root("whole") / "global_step_4").string();
  train("other", {from});
  EXPECT_TRUE(state(root("other"), 8) == state(root("whole"), 8));
  const auto refusal = [&](const arguments& more, const std::string& part, const std::string& folder = "whole") {
    const auto r = program::run("sft_trainer", settings(files, root(folder)) + more);
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  refusal({"trainer.seed=5", "data.train_batch_size=5"},
          "holds a run with other settings: data.train_batch_size was 4 and is 5, trainer.seed was 1 and is 5");
  std::string lines = scratch::read(files.train);
  const std::size_t second = lines.find('\n') + 1;
  scratch::write(place / "rotated.jsonl", lines.substr(second) + lines.substr(0, second));
  refusal({"data.train_files=" + (place / "rotated.jsonl").string()}, "the training data were 18 rows, fingerprint ");
  tiny_model::make_for_tokenizer(place / "other_model", files.model, 12);
  refusal({"model.partial_pretrain=" + (place / "other_model").string()},
          "holds a run with other settings: model.partial_pretrain was a model with other weights; go on with");
  fs::copy(files.model, place / "moved_model");
  train("whole", {"model.partial_pretrain=" + (place / "moved_model").string()});
  refusal({from, "trainer.seed=5"}, "was saved by a run with seed 1, this run has 5", "new");
  refusal({from, "data.train_batch_size=5"}, "was saved by a run with train_batch_size 4, this run has 5", "new");
  refusal({from, "data.train_max_samples=12"},
          "was saved by a run with a training set of so many rows: 18, this run has 12", "new");
}

TEST_F(sft_trainer, killed_at_any_instant_it_resumes_to_the_same_bits) {
  const arguments longer{"trainer.total_epochs=5", "trainer.save_freq=1", "trainer.max_ckpt_to_keep=2"};
  train("whole", longer);
  int kills = 0;
  for (int attempt = 0, delay = 12; attempt < 100 && kills < 6; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    if (program::kill_when("sft_trainer", settings(files, root("cut")) + longer,
                           [&] { return std::chrono::steady_clock::now() - start > std::chrono::milliseconds(delay); }))
      ++kills, delay += 13;
    else  // it was done before this process came to kill it
      fs::remove_all(root("cut")), delay = 12;
  }
  EXPECT_EQ(kills, 6);
  train("cut", longer);
  expect_same("whole", "cut", 20);

  // While a checkpoint is being written, if the poll is quick enough to meet it.
  program::kill_when("sft_trainer", settings(files, root("inside")) + longer, [&] {
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(root("inside"), gone))
      if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
    return false;
  });
  train("inside", longer);
  expect_same("whole", "inside", 20);
  for (const auto& entry : fs::directory_iterator(root("inside")))
    EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();
}

TEST_F(sft_trainer, a_second_run_in_the_folder_is_refused) {
  const arguments longer{"trainer.total_epochs=5"};
  program::result second{};
  EXPECT_TRUE(program::kill_in(root("run"), root("run") / "global_step_20", "sft_trainer",
                               settings(files, root("run")) + longer, [&] {
                                 if (scratch::read(root("run") / "metrics.jsonl").empty()) return false;
                                 second = program::run("sft_trainer", settings(files, root("run")) + longer);
                                 return true;
                               }));
  EXPECT_EQ(second.code, 1);
  EXPECT_NE(second.err.find("another run works in this folder: process "), std::string::npos) << second.err;
  EXPECT_NE(second.err.find("wait for its end, or name another trainer.default_local_dir"), std::string::npos);
  train("run", longer);  // the lock of the killed run is free
  EXPECT_FALSE(fs::exists(root("run") / "run.lock"));
}

TEST_F(sft_trainer, several_files_and_conversations) {
  std::string turns;
  for (int i = 0; i < 8; ++i) {
    const auto row = tiny_model::problem(static_cast<std::size_t>(i), "train");
    turns += nlohmann::json{{"messages",
                             {row["prompt"][0], {{"role", "assistant"}, {"content", row["extra_info"]["answer"]}}}}}
                 .dump() +
             "\n";
  }
  scratch::write(place / "turns.jsonl", turns);
  const std::string file = (place / "turns.jsonl").string();
  const program::result r = train(
      "turns", {"data.train_files=[" + file + "," + file + "]", "data.val_files=[]", "data.multiturn.enable=True"});
  EXPECT_NE(r.out.find("train  16 rows"), std::string::npos) << r.out;
  EXPECT_TRUE(curve(root("turns"), "val/loss").empty());
  EXPECT_EQ(rows(root("turns")).size(), 8u);
}

TEST_F(sft_trainer, shows_what_is_learnt_and_stops) {
  const auto before = program::snapshot(place.path());
  const program::result r = train("none", {"rlcore.show_mask=2"});
  EXPECT_TRUE(program::snapshot(place.path()) == before);
  EXPECT_NE(r.out.find("+ learnt, - not learnt; | between tokens\nrow 0: "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("<|im_start|>|"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("#### 1|<|im_end|>\n"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("row 1: "), std::string::npos);
  EXPECT_EQ(r.out.find("row 2: "), std::string::npos);
}
/// The command of verl's SFT-PEFT example, as its script has it: parquet (JSON Lines in a build without), a model by
/// its id, `+` keys, a space or none before the backslash, and overrides in the middle, where $@ stands.
TEST_F(sft_trainer, runs_the_peft_script_of_verl) {
  const std::string extension = rlcore::data::has_parquet ? "parquet" : "jsonl";
  const fs::path data = place / "data" / "gsm8k";
  fs::create_directories(data);
  std::vector<rlcore::data::row> problems;
  for (std::size_t i = 0; i < 520; ++i) problems.push_back(tiny_model::problem(i, "train"));
  for (const char* name : {"train.", "test."}) {
#ifdef RLCORE_HAS_PARQUET
    rlcore::data::write_parquet(data / (name + extension), problems);
#else
    scratch::write(data / (name + extension), rlcore::data::to_jsonl(problems));
#endif
    problems.resize(8);
  }
  fs::create_directories(place / "Qwen");
  fs::copy(files.model, place / "Qwen" / "Qwen2.5-0.5B-Instruct");
  scratch::write(place / "run.sh", R"(save_path=$1
shift 1
exec "$PROGRAM" \
    data.train_files=$HOME/data/gsm8k/train.)" +
                                       extension + R"( \
    data.val_files=$HOME/data/gsm8k/test.)" +
                                       extension + R"( \
    data.prompt_key=extra_info \
    data.response_key=extra_info \
    data.train_batch_size=512 \
    optim.lr=1e-4 \
    +data.prompt_dict_keys=['question'] \
    +data.response_dict_keys=['answer'] \
    data.micro_batch_size_per_gpu=4 \
    model.partial_pretrain=Qwen/Qwen2.5-0.5B-Instruct \
    trainer.default_local_dir=$save_path \
    trainer.project_name=gsm8k-sft \
    trainer.experiment_name=gsm8k-sft-qwen-2.5-0.5b-instruct \
    trainer.logger=['console'] \
    trainer.total_epochs=1 \
    trainer.default_hdfs_dir=null $@ \
    model.lora_rank=32\
    model.lora_alpha=16 \
    model.target_modules=all-linear
)");
  const std::string environment = "HOME='" + place.path().string() + "' RLCORE_MODEL_DIR='" + place.path().string() +
                                  "' PROGRAM='" + program::path_of("sft_trainer").string() + "'";
  const auto run = [&](const std::string& more) {
    return std::system((environment + " bash '" + (place / "run.sh").string() + "' '" + root("peft").string() + "' " +
                        more + " > '" + (place / "out.txt").string() + "' 2>&1")
                           .c_str());
  };
  ASSERT_EQ(run("optim.lr=1e-3 model.lora_rank=2"), 0) << scratch::read(place / "out.txt");
  const std::string out = scratch::read(place / "out.txt");
  EXPECT_NE(out.find("LoRA of rank 32, alpha 16"), std::string::npos) << out;  // behind $@: not the caller's
  EXPECT_NE(out.find("step:1 - train/loss:"), std::string::npos) << out;
  EXPECT_EQ(curve(root("peft"), "train/lr(1e-3)"), std::vector<double>{1});
  const auto saved = state(root("peft"), 1);
  ASSERT_TRUE(saved.contains("lora_adapter/adapter_model.safetensors"));
  const auto config = nlohmann::json::parse(saved.at("lora_adapter/adapter_config.json"));
  EXPECT_EQ(config["r"], 32);
  EXPECT_EQ(config["lora_alpha"], 16);
  EXPECT_EQ(config["base_model_name_or_path"], "Qwen/Qwen2.5-0.5B-Instruct");
  EXPECT_EQ(config["target_modules"].size(), 7u);
  EXPECT_TRUE(saved.contains("huggingface/model.safetensors"));
}

TEST_F(sft_trainer, flags_of_openrlhf) {
  std::string raw;
  for (std::size_t i = 0; i < 10; ++i) {
    const auto row = tiny_model::problem(i, "train");
    raw += nlohmann::json{{"q", row["extra_info"]["question"]}, {"a", row["extra_info"]["answer"]}}.dump() + "\n";
  }
  scratch::write(place / "raw.jsonl", raw);
  const std::string file = (place / "raw.jsonl").string();
  const auto run = [&](const std::string& name, const arguments& more) {
    const program::result r = program::run("sft_trainer", arguments{"--pretrain",
                                                                    files.model.string(),
                                                                    "--dataset",
                                                                    file,
                                                                    "--eval_dataset",
                                                                    file,
                                                                    "--input_key",
                                                                    "q",
                                                                    "--output_key=a",
                                                                    "--train_batch_size",
                                                                    "4",
                                                                    "--max_epochs",
                                                                    "3",
                                                                    "--micro_train_batch_size",
                                                                    "2",
                                                                    "--learning_rate",
                                                                    "2e-3",
                                                                    "--save_steps",
                                                                    "3",
                                                                    "--ckpt_path",
                                                                    root(name).string(),
                                                                    "--save_path",
                                                                    (place / (name + "_model")).string(),
                                                                    "--packing_samples",
                                                                    "--flash_attn",
                                                                    "rlcore.threads=1"} +
                                                              more);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return r.out;
  };
  for (const arguments& how : {arguments{}, arguments{"--apply_chat_template"}, arguments{"--pretrain_mode"}}) {
    SCOPED_TRACE(how.empty() ? "" : how[0]);
    const std::string name = "run" + (how.empty() ? "" : how[0]), cut = name + "_cut";
    const std::string out = run(name, how);
    EXPECT_NE(out.find("  total steps       7  3 epochs"), std::string::npos) << out;  // 30 rows in steps of 4
    EXPECT_EQ(curve(root(name), "eval/eval_loss").size(), 3u);                         // one for each epoch
    EXPECT_LT(curve(root(name), "eval/eval_loss").back(), curve(root(name), "train/loss").front());
    EXPECT_EQ(scratch::read(place / (name + "_model") / "model.safetensors"),
              state(root(name), 7)["huggingface/model.safetensors"]);
    fs::create_directories(root(cut));
    fs::copy(root(name) / "global_step_3", root(cut) / "global_step_3", fs::copy_options::recursive);
    scratch::write(root(cut) / "latest_checkpointed_iteration.txt", "3");
    run(cut, how + arguments{"--load_checkpoint", "--micro_train_batch_size", "4"});
    EXPECT_TRUE(state(root(cut), 7) == state(root(name), 7));
  }
}

TEST_F(sft_trainer, refuses_wrong_input_before_any_work) {
  refused({"data.train_batchsize=4"}, "did you mean 'data.train_batch_size'");
  refused({"+data.prompt_dict_key=['question']"}, "data.prompt_dict_keys");
  refused({"data.prompt_key=extra_inf"}, "train.jsonl: row 0: no column 'extra_inf'; it has data_source, prompt");
  refused({"data.prompt_dict_keys=[questoin]"}, "did you mean 'question'?");
  refused({"data.max_length=20"}, "tokens, but data.max_length is 20 and data.truncation is error");
  refused({"data.max_length=8", "data.truncation=right"}, "nothing of the response is left within data.max_length 8");
  refused({"data.truncation=middle"}, "expected error, left, right");
  refused({"data.train_batch_size=19"}, "the training set has only 18 rows, not one full step of 19");
  refused({"optim.betas=[0.9]"}, "optim.betas=[0.9]: expected two numbers");
  refused({"optim.lr_scheduler=cosin"}, "did you mean 'cosine'?");
  refused({"trainer.default_hdfs_dir=/x"}, "trainer.default_hdfs_dir=/x is not in this build yet");
  refused({"data.train_files=" + (place / "nosuch.jsonl").string()}, "nosuch.jsonl: cannot open: No such file");
  refused({"trainer.resume_mode=resume_path"}, "needs trainer.resume_from_path");
  scratch::write(place / "empty.jsonl", "{\"extra_info\": {\"question\": \"1\", \"answer\": \"\"}}\n");
  refused({"data.train_files=" + (place / "empty.jsonl").string()}, "empty.jsonl: row 0: the response");
  for (const arguments& a : {arguments{"--help"}, arguments{"--version"}, arguments{"--cfg", "job"}}) {
    const auto r = program::run("sft_trainer", settings(files, root("none")) + a);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_FALSE(r.out.empty());
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
