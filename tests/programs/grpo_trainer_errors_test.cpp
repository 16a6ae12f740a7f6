// build/bin/grpo_trainer: bad input gives exit code 1 and one line, and touches nothing.
#include "grpo_trainer.hpp"
#include "rlcore/data/table.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;
using trainer_errors = grpo::trainer_test;

TEST_F(trainer_errors, command_line) {
  refused({"data.train_batchsize=4"}, "unknown key 'data.train_batchsize' (did you mean 'data.train_batch_size'");
  refused({"+trainer.new_key=1"}, "trainer.new_key");
  refused({"data.train_batch_size=many"}, "data.train_batch_size=many: expected an integer");
  refused({"data.truncation=errror"}, "did you mean 'error'?");
  refused({"reward_model.enable=True"}, "reward_model.enable=True: reward_model.model.path is not given");
  refused({"trainer.device=tpu"}, "expected cpu, npu, npu_emulator, cuda");
  refused({"data.train_batch_size=40", "actor_rollout_ref.actor.ppo_mini_batch_size=40"},
          "the training set has only 18 prompts");
  refused({"data.max_prompt_length=1200"}, "is more than the model's 1024 positions");
  refused({"actor_rollout_ref.rollout.temperature=0"}, "temperature");
  refused({"actor_rollout_ref.rollout.gpu_memory_utilization=1e-9"},
          "one sequence of data.max_prompt_length + data.max_response_length = 134 tokens need");
  refused({"trainer.resume_mode=resume_path", "trainer.resume_from_path=" + (place / "global_step_7").string()},
          "no folder");
}

TEST_F(trainer_errors, data_files) {
  const auto with = [&](const char* name, const std::string& bytes) {
    scratch::write(place / name, bytes);
    return "data.train_files=" + (place / name).string();
  };
  auto row = tiny_model::problem(0, "train");
  const std::string good = tiny_model::rows(6, "train");
  refused({"data.train_files=" + (place / "nosuch.jsonl").string()}, "nosuch.jsonl: cannot open: No such file");
  refused({"data.train_files=" + (place / "nosuch").string()}, "nosuch: no file or folder of this name");
  refused({"rlcore.export_path=" + files.train.string()}, "rlcore.export_path " + files.train.string() + ": ");
  refused({"data.val_files=" + (place / "nosuch.jsonl").string()}, "nosuch.jsonl: cannot open: No such file");
  refused({with("empty.jsonl", "")}, "empty.jsonl: no rows");
  refused({with("cut.jsonl", good + "{\"data_source\": ")}, "cut.jsonl: line 7: not valid JSON");
  refused({with("raw.jsonl", "{\"question\": \"1+1?\", \"answer\": \"#### 2\"}\n")}, "gsm8k_preprocess");
  refused({"data.prompt_key=text"}, "no column 'text'");
  auto no_source = row;
  no_source.erase("data_source");
  refused({with("no_source.jsonl", good + no_source.dump() + "\n")}, "no_source.jsonl: row 6: no column 'data_source'");
  auto unknown = row;
  unknown["data_source"] = "openai/gsm9k";
  refused({with("unknown.jsonl", good + unknown.dump() + "\n")}, "openai/gsm9k");
  auto no_truth = row;
  no_truth["reward_model"].erase("ground_truth");
  refused({with("no_truth.jsonl", no_truth.dump() + "\n")}, "ground_truth");
  refused({"data.max_prompt_length=8", "data.truncation=error"}, "data.max_prompt_length");
  refused({"data.max_prompt_length=8", "data.filter_overlong_prompts=True"}, "longer than data.max_prompt_length 8");
  if (rlcore::data::has_parquet) {
    refused({with("no.parquet", "PAR1 or not")}, "no.parquet");
  } else {
    refused({with("no.parquet", "PAR1")}, "pyarrow");
  }
}

TEST_F(trainer_errors, model_folder) {
  const std::string model = "actor_rollout_ref.model.path=";
  refused({model + (place / "nosuch").string()}, "nosuch");

  const fs::path copy = place / "copy";
  const auto fresh = [&] {
    fs::remove_all(copy);
    fs::copy(files.model, copy);
    return model + copy.string();
  };
  const std::string bytes = scratch::read(files.model / "model.safetensors");
  const auto config_with = [&](const char* key, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(scratch::read(files.model / "config.json"));
    json[key] = value;
    if (json["vocab_size"] == 300) {
      json["eos_token_id"] = json["pad_token_id"] = 299;
      fs::remove(copy / "generation_config.json");
    }
    scratch::write(copy / "config.json", json.dump());
  };
  std::string path = fresh();
  for (const std::size_t n : {std::size_t{0}, std::size_t{5}, std::size_t{100}, bytes.size() - 1}) {
    scratch::write(copy / "model.safetensors", bytes.substr(0, n));
    refused({path}, "model.safetensors");
  }
  scratch::write(copy / "model.safetensors", bytes + "x");
  refused({path}, "model.safetensors");

  path = fresh();
  config_with("intermediate_size", 64);
  refused({path}, "intermediate_size is 64, but tensor 'model.layers.0.mlp.gate_proj.weight' has shape [48, 32]");
  config_with("num_hidden_layers", 3);
  refused({path}, "num_hidden_layers is 3, but the weights have no tensor '...layers.2....'");
  config_with("num_hidden_layers", 1);
  refused({path}, "is not part of the model");
  config_with("tie_word_embeddings", false);
  refused({path}, "lm_head.weight");
  config_with("num_attention_heads", 5);
  refused({path}, "config.json");
  config_with("model_type", "gpt17");
  refused({path}, "gpt17");
  config_with("vocab_size", 300);
  refused({path}, "vocab_size is 300, but tensor 'model.embed_tokens.weight' has shape [340, 32]");
  scratch::write(copy / "config.json", "{");
  refused({path}, "config.json");
  fs::remove(copy / "config.json");
  refused({path}, "config.json");

  path = fresh();
  fs::remove(copy / "tokenizer.json");
  refused({path}, "tokenizer.json");
  path = fresh();
  fs::remove(copy / "model.safetensors");
  refused({path}, "no weights");
}

TEST_F(trainer_errors, checkpoint_that_is_damaged) {
  train("run", {"trainer.total_training_steps=2"});
  const fs::path inside = actor(root("run"), 2);
  const std::string moments = scratch::read(inside / "optim.safetensors");
  scratch::write(inside / "optim.safetensors", moments.substr(0, moments.size() - 4));
  refused({}, "optim.safetensors", "run");
  scratch::write(inside / "optim.safetensors", moments);
  const std::string weights = scratch::read(inside / "huggingface" / "model.safetensors");
  scratch::write(inside / "huggingface" / "model.safetensors", weights.substr(0, 1000));
  refused({}, "model.safetensors", "run");
  scratch::write(inside / "huggingface" / "model.safetensors", weights);
  const std::string extra = scratch::read(inside / "extra_state.json");
  fs::remove(inside / "extra_state.json");
  refused({}, "extra_state.json", "run");
  scratch::write(inside / "extra_state.json", extra);
  scratch::write(root("run") / "latest_checkpointed_iteration.txt", "two");
  refused({}, "expected the number of a step", "run");
  scratch::write(root("run") / "latest_checkpointed_iteration.txt", "2");
  train("run");
}

TEST_F(trainer_errors, settings_other_than_the_run_in_the_folder_began_with) {
  train("run");
  refused({"actor_rollout_ref.actor.optim.lr=1e-3"}, "actor_rollout_ref.actor.optim.lr was 0.003 and is 0.001", "run");
  refused({"actor_rollout_ref.rollout.n=2"}, "actor_rollout_ref.rollout.n was 3 and is 2", "run");
  refused({"actor_rollout_ref.rollout.n=2"}, "trainer.resume_mode=disable or in another trainer.default_local_dir",
          "run");
  std::string fewer = scratch::read(files.train);
  fewer.resize(fewer.rfind('\n', fewer.size() - 2) + 1);
  scratch::write(place / "fewer.jsonl", fewer);
  refused({"data.train_files=" + (place / "fewer.jsonl").string()}, "the training data were 18 prompts, fingerprint ",
          "run");
  fs::create_directories(place / "elsewhere");  // a folder with the same rows may take the place of the file
  fs::copy(files.train, place / "elsewhere" / "train.jsonl");
  train("run", {"data.train_files=" + (place / "elsewhere").string()});
  train("run", {"trainer.total_training_steps=5", "rlcore.threads=2", "trainer.save_freq=1",
                "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"});
  train("run", {"actor_rollout_ref.rollout.n=2", "trainer.resume_mode=disable"});
}

TEST_F(trainer_errors, folder_that_cannot_be_written) {
  scratch::write(place / "file", "in the way");
  refused({}, "file", "file/run");
}

TEST_F(trainer_errors, answers_without_training) {
  for (const arguments& a : {arguments{"--help"}, arguments{"--version"}, arguments{"--cfg", "job"}}) {
    const auto before = program::snapshot(place.path());
    const auto r = program::run("grpo_trainer", settings(files, root("none")) + a);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_FALSE(r.out.empty());
    EXPECT_TRUE(program::snapshot(place.path()) == before);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
