// build/bin/grpo_trainer with the command lines of public verl documents, only paths and sizes added at the end.
#include <cmath>
#include <set>

#include "grpo_trainer.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/telemetry/metric_names.hpp"
#include "rlcore/telemetry/report/sample_answers.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

arguments command_line(const char* name) {
  return nlohmann::json::parse(scratch::read(RLCORE_REFERENCE_DIR "/trainer_command_lines.json"))
      .at(name)
      .get<arguments>();
}

/// verl's rule: split at " - ", then at the last ":". The numbers as text, "step" included.
std::map<std::string, std::string> parse_console(const std::string& line) {
  std::map<std::string, std::string> values;
  for (std::size_t first = 0; first <= line.size();) {
    const std::size_t end = std::min(line.find(" - ", first), line.size());
    const std::string part = line.substr(first, end - first);
    const std::size_t colon = part.rfind(':');
    EXPECT_NE(colon, std::string::npos) << part;
    EXPECT_TRUE(values.emplace(part.substr(0, colon), part.substr(colon + 1)).second) << part << " stands twice";
    first = end + 3;
  }
  return values;
}

/// Every name that applies to a run with a KL to a reference in the loss.
std::vector<std::string> names_of_a_step() {
  std::vector<std::string> names;
  for (const char* quantity :
       {"critic/score", "critic/rewards", "critic/advantages", "critic/returns", "response_length", "prompt_length"})
    for (const char* which : {"mean", "max", "min"}) names.push_back(std::string(quantity) + "/" + which);
  for (const char* name : {"training/global_step",
                           "training/epoch",
                           "actor/entropy",
                           "actor/pg_loss",
                           "actor/pg_clipfrac",
                           "actor/pg_clipfrac_lower",
                           "actor/ppo_kl",
                           "actor/kl_loss",
                           "actor/kl_coef",
                           "actor/grad_norm",
                           "actor/lr",
                           "response_length/clip_ratio",
                           "prompt_length/clip_ratio",
                           "timing_s/gen",
                           "timing_s/reward",
                           "timing_s/old_log_prob",
                           "timing_s/ref",
                           "timing_s/adv",
                           "timing_s/update_actor",
                           "timing_s/step",
                           "timing_per_token_ms/gen",
                           "timing_per_token_ms/ref",
                           "timing_per_token_ms/adv",
                           "timing_per_token_ms/update_actor",
                           "perf/total_num_tokens",
                           "perf/time_per_step",
                           "perf/throughput",
                           "perf/cpu_memory_used_gb"})
    names.emplace_back(name);
  return names;
}

/// Checks every console line; returns the steps that were logged.
std::vector<std::string> check_console(const std::string& out, const std::string& last_step) {
  std::vector<std::string> steps;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("step:")) continue;
    const auto values = parse_console(line);
    steps.push_back(values.at("step"));
    for (const auto& [name, text] : values) {
      char* end = nullptr;
      EXPECT_TRUE(std::isfinite(std::strtod(text.c_str(), &end)) && *end == '\0') << name << ":" << text;
      EXPECT_TRUE(name == "step" || rlcore::train::is_defined_metric(name)) << name;
    }
    if (steps.back() != "0") {
      for (const std::string& name : names_of_a_step()) EXPECT_TRUE(values.contains(name)) << name;
    }
    if (steps.back() == "0" || steps.back() == last_step) {
      EXPECT_TRUE(values.contains("val-core/openai/gsm8k/reward/mean@1")) << line;
    }
    EXPECT_EQ(values.contains("timing_s/save_checkpoint"), steps.back() == last_step);
  }
  return steps;
}

class command_lines : public trainer_test {
 protected:
  arguments sizes() const {
    return {"data.train_files=" + files.train.string(),
            "data.val_files=" + files.val.string(),
            "data.train_batch_size=4",
            "data.max_prompt_length=128",
            "data.max_response_length=6",
            "actor_rollout_ref.model.path=" + files.model.string(),
            "actor_rollout_ref.actor.ppo_mini_batch_size=2",
            "trainer.default_local_dir=" + root("run").string(),
            "trainer.total_training_steps=2",
            "trainer.save_freq=2"};
  }
  void runs(const char* name, const std::string& note, const arguments& more = {}) {
    const program::result r = program::run("grpo_trainer", command_line(name) + sizes() + more);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err, "");
    EXPECT_NE(r.out.find(note), std::string::npos) << r.out;
    EXPECT_EQ(check_console(r.out, "2"), (std::vector<std::string>{"0", "1", "2"}));
    EXPECT_NE(r.out.find("  20  4 prompts x 5 samples"), std::string::npos) << r.out;
  }
  /// Layout of spec "Checkpoints": verl's names, our formats. Several ranks have the moments in shards.
  void check_folder(int ranks = 1) {
    const fs::path step = root("run") / "global_step_2", inside = step / "actor";
    EXPECT_EQ(scratch::read(root("run") / "latest_checkpointed_iteration.txt"), "2");
    const std::set<std::string> expected{"actor", "checkpoint.json", "data.json"};
    std::set<std::string> there;
    for (const auto& entry : fs::directory_iterator(step)) there.insert(entry.path().filename().string());
    EXPECT_EQ(there, expected);
    for (const char* file :
         {ranks == 1 ? "optim.safetensors" : "shards/manifest.json", "extra_state.json", "fsdp_config.json",
          "huggingface/model.safetensors", "huggingface/config.json", "huggingface/tokenizer.json",
          "huggingface/tokenizer_config.json", "huggingface/generation_config.json"})
      EXPECT_TRUE(fs::exists(inside / file)) << file;
    EXPECT_EQ(nlohmann::json::parse(scratch::read(inside / "fsdp_config.json")),
              (nlohmann::json{{"FSDP_version", 1}, {"world_size", ranks}}));
    EXPECT_EQ(nlohmann::json::parse(scratch::read(step / "data.json"))["step"], 2);
    EXPECT_EQ(rows(root("run")).size(), 3u);
    const std::string report = scratch::read(root("run") / "report.html");
    EXPECT_NE(report.find("critic/rewards/mean"), std::string::npos);
    for (const char* outside : {"src=\"http", "href=\"http", "@import", "url(http"})
      EXPECT_EQ(report.find(outside), std::string::npos) << outside;  // self-contained
  }
};

TEST_F(command_lines, quickstart) {
  runs("quickstart", "its numbers are modelled, no hardware",
       {"trainer.device=npu_emulator", "trainer.n_gpus_per_node=1"});
  check_folder();
  // The checkpoint is a model folder: a new run starts from it.
  train("next", {"actor_rollout_ref.model.path=" + (actor(root("run"), 2) / "huggingface").string()});
}

TEST_F(command_lines, quickstart_with_a_list_of_loggers) {
  runs("quickstart_logger_list", "trainer.device=cuda", {"trainer.device=cuda"});
}

TEST_F(command_lines, sixteen_devices) {
  // Two machines would need mpirun: here the eight devices of one, as threads. The small model has two key heads, so
  // that no more than two ranks can share it while they sample.
  runs("sixteen_devices", "wandb is not written to; these files hold the run, and this sends it there:\n  python3 -c ",
       {"trainer.nnodes=1", "actor_rollout_ref.rollout.tensor_model_parallel_size=2"});
  check_folder(8);
}

/// Nothing but paths and the length of the run: batch of 16 with mini-batches of 64, as published.
TEST_F(command_lines, sixteen_devices_with_its_own_batch) {
  const program::result r = program::run(
      "grpo_trainer", command_line("sixteen_devices") +
                          arguments{"data.train_files=" + files.train.string(), "data.val_files=" + files.val.string(),
                                    "data.max_prompt_length=128", "data.max_response_length=6",
                                    "actor_rollout_ref.model.path=" + files.model.string(),
                                    "trainer.default_local_dir=" + root("run").string(),
                                    "trainer.total_training_steps=1", "trainer.nnodes=1", "trainer.n_gpus_per_node=2",
                                    "actor_rollout_ref.rollout.tensor_model_parallel_size=2"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("warning: ppo_mini_batch_size=64 is larger than train_batch_size=16"), std::string::npos)
      << r.out;
  EXPECT_FALSE(fs::exists(root("run") / "global_step_1"));  // trainer.save_freq=-1
}

TEST_F(command_lines, parquet_and_jsonl_give_the_same_run) {
  if (!rlcore::data::has_parquet) GTEST_SKIP() << "this build has no Parquet";
#ifdef RLCORE_HAS_PARQUET
  rlcore::data::write_parquet(place / "train.parquet", rlcore::data::read_jsonl(files.train));
  rlcore::data::write_parquet(place / "val.parquet", rlcore::data::read_jsonl(files.val));
#endif
  train("jsonl");
  train("parquet", {"data.train_files=" + (place / "train.parquet").string(),
                    "data.val_files=" + (place / "val.parquet").string()});
  expect_same("jsonl", "parquet");
}

TEST_F(command_lines, rollouts_are_written_and_validation_alone_trains_nothing) {
  train("run", {"trainer.rollout_data_dir=" + (place / "rollouts").string(), "trainer.total_training_steps=2"});
  std::istringstream lines(scratch::read(place / "rollouts" / "2.jsonl"));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_EQ(row["step"], 2);
    EXPECT_NE(row["input"].get<std::string>().find("How many are left?"), std::string::npos);
    const std::string truth = "#### " + row["gts"].get<std::string>();
    EXPECT_EQ(row["score"] == 1.0,
              row["output"].get<std::string>().rfind(truth) != std::string::npos &&
                  row["output"].get<std::string>().rfind(truth) == row["output"].get<std::string>().rfind("#### ") &&
                  row["output"]
                          .get<std::string>()
                          .substr(row["output"].get<std::string>().rfind(truth) + truth.size(), 1)
                          .find_first_of("0123456789.,") == std::string::npos)
        << line;
  }
  EXPECT_EQ(count, 12u);
  const auto r = train("only", {"trainer.val_before_train=True", "trainer.val_only=True"});
  EXPECT_NE(r.out.find("step:0 - val-core/openai/gsm8k/reward/mean@1:"), std::string::npos) << r.out;
  EXPECT_FALSE(fs::exists(root("only") / "global_step_4"));
}

TEST_F(command_lines, an_empty_list_of_validation_files_means_no_validation) {
  train("with", {"trainer.val_before_train=True"});
  const auto r = train("without", {"data.val_files=[]", "trainer.val_before_train=True"});
  EXPECT_NE(r.out.find("val    none: data.val_files is empty"), std::string::npos) << r.out;
  EXPECT_EQ(scratch::read(root("without") / "metrics.jsonl").find("val-"), std::string::npos);
  EXPECT_TRUE(weights(root("with"), 4) == weights(root("without"), 4)) << "other weights";
}

TEST_F(command_lines, a_fresh_run_keeps_the_metrics_of_an_earlier_one) {
  const std::string rollouts = (place / "rollouts").string(), dump = "trainer.rollout_data_dir=" + rollouts;
  train("run", {"trainer.total_training_steps=2", dump, "trainer.logger=[console,tensorboard]"});
  const std::string before = scratch::read(root("run") / "metrics.jsonl"), first = scratch::read(rollouts + "/1.jsonl");
  EXPECT_FALSE(first.empty());
  const auto r = train("run", {"trainer.total_training_steps=2", "trainer.resume_mode=disable", dump, "rlcore.seed=7",
                               "trainer.save_freq=1", "trainer.logger=[console,tensorboard]"});
  EXPECT_EQ(scratch::read(rollouts + "/earlier.1/1.jsonl"), first);
  EXPECT_NE(scratch::read(rollouts + "/1.jsonl"), first);
  EXPECT_NE(r.out.find("responses of an earlier run are in " + rollouts + "/earlier.1 now"), std::string::npos)
      << r.out;
  EXPECT_NE(r.out.find("its event files in " + (root("run") / "tensorboard" / "earlier.1").string()), std::string::npos)
      << r.out;
  EXPECT_NE(r.out.find("metrics.1.jsonl"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("trainer.resume_mode=auto goes on from step 2 instead"), std::string::npos) << r.out;
  EXPECT_EQ(scratch::read(root("run") / "metrics.1.jsonl"), before);
  // Going on from an earlier step keeps what is made anew.
  const std::string second = scratch::read(rollouts + "/2.jsonl");
  fs::remove_all(root("run") / "global_step_2");
  scratch::write(root("run") / "latest_checkpointed_iteration.txt", "1");
  const auto again = train("run", {"trainer.total_training_steps=2", dump, "rlcore.seed=7"});
  EXPECT_NE(again.out.find("note: the metrics of the steps after 1 are in " +
                           (root("run") / "metrics.2.jsonl").string() + " now"),
            std::string::npos)
      << again.out;
  EXPECT_EQ(scratch::read(rollouts + "/earlier.2/2.jsonl"), second);
  EXPECT_EQ(scratch::read(rollouts + "/2.jsonl"), second);
  EXPECT_FALSE(fs::exists(fs::path(rollouts) / "earlier.2" / "1.jsonl"));
}

TEST_F(command_lines, a_run_without_a_signal_is_told_so_once) {
  const auto r = train("mute", {"data.max_response_length=1", "trainer.total_training_steps=3", "trainer.test_freq=-1",
                                "trainer.save_freq=-1"});
  const std::string note = "note: all responses to a prompt score alike, in every group";
  const std::size_t at = r.out.find(note);
  ASSERT_NE(at, std::string::npos) << r.out;
  EXPECT_EQ(r.out.find(note, at + 1), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("cut at data.max_response_length=1 ("), std::string::npos) << r.out;
}

/// Published commands save nothing: such a run says so, and a folder for the trained model gets that of the last step,
/// not of a checkpoint that an interruption left.
TEST_F(command_lines, the_trained_model_is_kept_or_a_note_says_that_it_is_not) {
  const arguments unsaved{"trainer.save_freq=-1", "trainer.test_freq=-1"};
  const auto lost = train("lost", unsaved);
  EXPECT_NE(lost.out.find("note: trainer.save_freq=-1: the trained model is not kept; rlcore.export_path=FOLDER"),
            std::string::npos)
      << lost.out;
  train("kept", {"trainer.total_training_steps=2"});
  const std::string model = (place / "model_of_kept").string();
  const auto kept = train("kept", unsaved + arguments{"rlcore.export_path=" + model});
  EXPECT_EQ(kept.out.find("is not kept"), std::string::npos) << kept.out;
  EXPECT_FALSE(weights(root("kept"), 4).empty());
  EXPECT_TRUE(scratch::read(fs::path(model) / "model.safetensors") == weights(root("kept"), 4));
}

/// Best and worst answers of the first and the last validation, which a run that goes on does not forget.
TEST_F(command_lines, the_report_shows_answers_of_validations) {
  const auto steps = [&] {
    std::string out;
    for (const auto& a : rlcore::train::read_sample_answers(root("run"))) out += std::to_string(a.step) + " ";
    return out;
  };
  train("run", {"trainer.total_training_steps=2", "trainer.val_before_train=True"});
  EXPECT_EQ(steps(), "0 0 0 0 2 2 2 2 ");
  train("run", {"trainer.val_before_train=True"});
  EXPECT_EQ(steps(), "0 0 0 0 4 4 4 4 ");
  const std::string report = scratch::read(root("run") / "report.html");
  for (const char* title : {"<h3>step 0<small>reward", "<h3>step 4<small>reward", "How many are left?"})
    EXPECT_NE(report.find(title), std::string::npos) << title;
  const auto kept = rlcore::train::read_sample_answers(root("run"));
  EXPECT_GE(kept[4].score, kept[7].score);
  train("run", {"trainer.total_training_steps=2", "trainer.resume_mode=disable"});  // anew: nothing of the earlier run
  EXPECT_EQ(steps(), "2 2 2 2 ");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
