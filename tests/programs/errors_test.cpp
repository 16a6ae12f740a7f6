// What users get wrong, for every program: exit code 1, one line that says what, where and how to put it right, before
// any work. The command lines are those of first_steps.json, which run, with one thing changed.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <ostream>

#include "first_steps.hpp"
#include "rlcore/data/table.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;
using words = std::vector<std::string>;

/// `added` goes behind the arguments of `of`, a case of first_steps.json, or is all that the program `of` gets. In it
/// {files} is a folder of damaged rows.
struct mistake {
  const char *of, *name;
  words added, said;
};
std::ostream& operator<<(std::ostream& out, const mistake& m) { return out << m.of << ": " << m.name; }

std::vector<rlcore::data::row> rows(const char* file) {
  return rlcore::data::read_jsonl(RLCORE_REFERENCE_DIR "/first_steps/" + std::string(file));
}
void write(const fs::path& path, const std::vector<rlcore::data::row>& rows) {
  std::string text;
  for (const auto& row : rows) text += row.dump() + "\n";
  scratch::write(path, text);
}

/// The last of the rows lacks a column, comes from an unknown source, is no JSON, is no row.
void damage(const fs::path& folder) {
  fs::create_directories(folder);
  EXPECT_EQ(::mkfifo((folder / "pipe.jsonl").c_str(), 0600), 0);
  for (const char* file : {"sft", "turns", "pairs", "unpaired", "steps", "prompts"}) {
    const auto good = rows((std::string(file) + ".jsonl").c_str());
    auto all = good;
    for (const char* column : {"prompt", "chosen", "output", "label", "value", "messages", "data_source"}) {
      if (!good.back().contains(column)) continue;
      all.back() = good.back();
      all.back().erase(column);
      write(folder / (std::string(file) + "_no_" + column + ".jsonl"), all);
    }
    all.back() = good.back();
    all.back()["data_source"] = "openai/gsm9k";
    write(folder / (std::string(file) + "_source.jsonl"), all);
    scratch::write(folder / (std::string(file) + "_cut.jsonl"), "{\"prompt\": ");
    scratch::write(folder / (std::string(file) + "_empty.jsonl"), "");
#ifdef RLCORE_HAS_PARQUET
    all.back() = good.back();
    rlcore::data::write_parquet(folder / (std::string(file) + ".parquet"), all);
#endif
  }
}

class errors : public testing::TestWithParam<mistake> {};

TEST_P(errors, end_with_one_line) {
  const mistake& wrong = GetParam();
  const auto& all = first_steps::cases();
  const bool case_of = all.contains(wrong.of);
  const auto name = case_of ? all.at(wrong.of)["program"].get<std::string>() : std::string(wrong.of);
  if (!fs::exists(program::path_of(name))) GTEST_SKIP() << "no case or program " << name;
  const scratch::folder place;
  words line = case_of ? first_steps::arguments(wrong.of, place.path()) : words{};
  damage(place / "files");
  for (std::string text : wrong.added) {
    first_steps::replace(text, "{files}", (place / "files").string());
    if (text.find(".parquet") != std::string::npos && !rlcore::data::has_parquet) GTEST_SKIP() << "without Parquet";
    line.push_back(text);
  }
  const auto before = program::snapshot(place.path());
  const program::result r = program::run(name, line);
  EXPECT_EQ(r.code, 1) << r.out;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_TRUE(r.err.starts_with(name + ": ")) << r.err;
  for (const std::string& part : wrong.said) EXPECT_NE(r.err.find(part), std::string::npos) << part << "\n" << r.err;
  EXPECT_TRUE(program::snapshot(place.path()) == before) << "files were written";
}

std::vector<mistake> mistakes() {
  std::vector<mistake> all;
  const auto add = [&](const char* of, const char* name, words added, words said) {
    all.push_back({of, name, std::move(added), std::move(said)});
  };
  for (const char* of : {"grpo", "ppo", "dapo"}) {
    add(of, "misspelt_key", {"data.train_batchsize=4"}, {"'data.train_batchsize'", "'data.train_batch_size'"});
    add(of, "unknown_flag", {"--config-nam=x"}, {"--config-nam", "--config-name"});
    add(of, "bad_enum", {"actor_rollout_ref.actor.loss_agg_mode=token-men"},
        {"loss_agg_mode=token-men", "'token-mean'"});
    add(of, "not_a_number", {"actor_rollout_ref.rollout.n=three"}, {"actor_rollout_ref.rollout.n=three", "integer"});
    add(of, "more_than_memory", {"actor_rollout_ref.rollout.n=100000000"},
        {"actor_rollout_ref.rollout.n=100000000: ", "trajectories of at least", "of memory are available"});
    add(of, "more_than_memory_to_validate", {"actor_rollout_ref.rollout.val_kwargs.n=100000000", "trainer.test_freq=1"},
        {"actor_rollout_ref.rollout.val_kwargs.n=100000000: ", "of memory are available"});
    add(of, "prompt_too_long", {"data.max_prompt_length=20", "data.truncation=error"},
        {"prompts.jsonl", "data.max_prompt_length"});
    add(of, "no_column", {"data.prompt_key=text"}, {"prompts.jsonl", "no column 'text'"});
    add(of, "no_column_parquet", {"data.train_files={files}/prompts.parquet", "data.prompt_key=text"},
        {"prompts.parquet", "no column 'text'"});
    add(of, "no_column_in_one_row", {"data.train_files={files}/prompts_no_data_source.jsonl"},
        {"prompts_no_data_source.jsonl", "row 7", "'data_source'"});
    add(of, "unknown_source", {"data.train_files={files}/prompts_source.jsonl"},
        {"prompts_source.jsonl", "openai/gsm9k"});
    add(of, "cut_file", {"data.train_files={files}/prompts_cut.jsonl"}, {"prompts_cut.jsonl", "line 1"});
    add(of, "no_file", {"data.train_files={files}/nosuch.jsonl"}, {"nosuch.jsonl"});
    add(of, "no_file_behind_enough_rows",
        {"data.train_files=[{files}/prompts_no_data_source.jsonl,{files}/nosuch.jsonl]", "data.train_max_samples=4"},
        {"data.train_files: ", "nosuch.jsonl: cannot open"});
    add(of, "no_validation_file", {"data.train_files={files}/prompts_cut.jsonl", "data.val_files={files}/nosuch.jsonl"},
        {"data.val_files: ", "nosuch.jsonl: cannot open"});
    add(of, "no_training_file", {"data.train_files=[]"}, {"data.train_files is empty"});
    add(of, "nothing_to_validate", {"data.val_files=[]", "trainer.val_only=True"},
        {"trainer.val_only=True", "data.val_files is empty"});
    add(of, "no_model", {"actor_rollout_ref.model.path={files}/nosuch"}, {"nosuch"});
    add(of, "pipe", {"data.train_files={files}/pipe.jsonl"},
        {"data.train_files: ", "pipe.jsonl", "it is a named pipe"});
  }
  add("ppo", "no_critic", {"critic.model.path={files}/nosuch"}, {"nosuch"});

  add("sft", "misspelt_key", {"data.train_batchsize=4"}, {"'data.train_batchsize'", "'data.train_batch_size'"});
  add("sft", "bad_enum", {"optim.lr_scheduler=cosin"}, {"optim.lr_scheduler=cosin", "'cosine'"});
  add("sft", "bad_truncation", {"data.truncation=errror"}, {"data.truncation=errror", "'error'"});
  add("sft", "not_a_number", {"data.train_batch_size=many"}, {"data.train_batch_size=many", "integer"});
  add("sft", "row_too_long", {"data.max_length=58"}, {"sft.jsonl", "data.max_length", "58"});
  add("sft", "no_column", {"data.prompt_key=text"}, {"sft.jsonl", "no column 'text'"});
  add("sft", "no_column_parquet", {"data.train_files={files}/sft.parquet", "data.prompt_key=text"},
      {"sft.parquet", "no column 'text'"});
  add("sft", "no_key_in_the_column", {"data.prompt_dict_keys=[querstion]"}, {"sft.jsonl", "querstion"});
  add("sft", "batch_larger_than_data", {"data.train_batch_size=17"}, {"17", "16"});
  add("sft", "no_file", {"data.train_files={files}/nosuch.jsonl"}, {"nosuch.jsonl"});
  add("sft", "no_validation_file", {"data.train_files={files}/sft_cut.jsonl", "data.val_files={files}/nosuch.jsonl"},
      {"data.val_files: ", "nosuch.jsonl: cannot open"});
  add("sft", "no_model", {"model.partial_pretrain={files}/nosuch"}, {"nosuch"});
  add("sft_trainer", "no_model_given", {"data.train_files={files}/sft_cut.jsonl"},
      {"model.partial_pretrain is not given"});
  add("sft_multiturn", "no_column", {"data.train_files={files}/turns_no_messages.jsonl"},
      {"turns_no_messages.jsonl", "row 11", "'messages'"});

  add("openrlhf_sft", "misspelt_flag", {"--learnign_rate", "1e-3"}, {"--learnign_rate", "--learning_rate"});
  add("openrlhf_sft", "no_column", {"--output_key", "text"}, {"unpaired.jsonl", "no column 'text'"});
  for (const char* of : {"openrlhf_reinforce_plus_plus", "openrlhf_ppo"}) {
    add(of, "misspelt_flag", {"--init_kl_coeff", "0.1"}, {"--init_kl_coeff", "--init_kl_coef"});
    add(of, "bad_enum", {"--advantage_estimator", "reinforc"}, {"advantage_estimator", "reinforc", "'reinforce'"});
    add(of, "not_a_number", {"--rollout_batch_size", "many"}, {"rollout_batch_size", "many", "integer"});
    add(of, "no_column", {"--input_key", "text"}, {"prompts.jsonl", "no column 'text'"});
    add(of, "no_file", {"--prompt_data", "{files}/nosuch.jsonl"}, {"--prompt_data: ", "nosuch.jsonl: cannot open"});
    add(of, "unknown_source", {"--prompt_data", "{files}/prompts_source.jsonl"}, {"prompts_source", "openai/gsm9k"});
    add(of, "no_source", {"--prompt_data", "{files}/prompts_no_data_source.jsonl"},
        {"prompts_no_data_source.jsonl: row", "no column 'data_source'", "rlcore.data_source=openai/gsm8k",
         "--remote_rm_url FILE", "--reward_pretrain FOLDER"});
    add(of, "too_few_positions", {"--prompt_max_len", "100000000"},
        {"--prompt_max_len + --generate_max_len = ", "max_position_embeddings"});
  }
  for (const char* of : {"dpo", "kto", "rm", "prm"}) {
    add(of, "misspelt_flag", {"--learnign_rate", "1e-3"}, {"--learnign_rate", "--learning_rate"});
    add(of, "not_a_number", {"--train_batch_size", "many"}, {"train_batch_size", "many", "integer"});
    add(of, "out_of_range", {"--zero_stage", "7"}, {"zero_stage", "7"});
    add(of, "no_file", {"--dataset", "{files}/nosuch.jsonl"}, {"nosuch.jsonl"});
    add(of, "no_second_file", {"--dataset", "{files}/pairs_cut.jsonl,{files}/nosuch.jsonl"}, {"nosuch.jsonl"});
    add(of, "no_evaluation_file", {"--dataset", "{files}/pairs_cut.jsonl", "--eval_dataset", "{files}/nosuch.jsonl"},
        {"nosuch.jsonl"});
    add(of, "no_model", {"--pretrain", "{files}/nosuch"}, {"nosuch"});
    add(of, "batch_larger_than_data", {"--train_batch_size", "64"}, {"64", "12"});
  }
  for (const char* of : {"dpo", "rm"}) {
    add(of, "no_column", {"--rejected_key", "text"}, {"pairs.jsonl", "no column 'text'"});
    add(of, "no_column_parquet", {"--dataset", "{files}/pairs.parquet", "--rejected_key", "text"},
        {"pairs.parquet", "no column 'text'"});
    add(of, "no_column_in_one_row", {"--dataset", "{files}/pairs_no_chosen.jsonl"},
        {"pairs_no_chosen.jsonl", "row 11", "'chosen'"});
  }
  add("prm", "bad_enum", {"--lr_scheduler", "cosine_with_min_l"}, {"cosine_with_min_l", "'cosine_with_min_lr'"});
  add("rm", "bad_enum", {"--loss", "sigmod"}, {"sigmod", "sigmoid"});
  add("kto", "no_column", {"--output_key", "text"}, {"unpaired.jsonl", "no column 'text'"});
  add("kto", "no_column_in_one_row", {"--dataset", "{files}/unpaired_no_label.jsonl"},
      {"unpaired_no_label.jsonl", "row 11", "'label'"});
  add("prm", "no_column", {"--label_key", "text"}, {"steps.jsonl", "no column 'text'"});
  add("prm", "unknown_label", {"--reward_tokens", "+", "x"}, {"steps.jsonl", "row", "'-'"});
  add("prm", "placeholder_of_two_tokens", {"--placeholder_token", "two words"}, {"placeholder_token", "two words"});

  const words model{"model.path={files}", "data.files={files}/prompts_empty.jsonl"};
  const auto with = [](words a, const words& b) { return a.insert(a.end(), b.begin(), b.end()), a; };
  add("evaluate", "misspelt_key", with(model, {"data.promt_key=x"}), {"'data.promt_key'", "'data.prompt_key'"});
  add("evaluate", "bad_enum", with(model, {"data.form=aime2023"}), {"data.form=aime2023", "'aime2024'"});
  add("evaluate", "no_model", {"model.path={files}/nosuch", "data.files={files}/prompts_empty.jsonl"}, {"nosuch"});
  add("evaluate", "no_second_file",
      {"model.path={files}", "data.files=[{files}/prompts_cut.jsonl,{files}/nosuch.jsonl]"},
      {"data.files: ", "nosuch.jsonl: cannot open"});
  add("evaluate", "no_responses", {"responses=[{files}/prompts_cut.jsonl,{files}/nosuch.jsonl]"},
      {"responses: ", "nosuch.jsonl: cannot open"});
  add("model_merger", "bad_operation", {"merg"}, {"'merg'", "'merge'"});
  add("model_merger", "misspelt_flag", {"merge", "--target_dri", "x"}, {"--target_dri", "--target_dir"});
  add("model_merger", "bad_enum", {"merge", "--backend", "fsdpp"}, {"fsdpp", "'fsdp'"});
  add("model_merger", "no_folder", {"merge", "--backend", "fsdp", "--local_dir", "{files}/nosuch"}, {"nosuch"});
  add("compare_runs", "misspelt_flag", {"--thresold", "1", "a", "b"}, {"--thresold", "--threshold"});
  add("compare_runs", "not_a_number", {"--threshold", "x", "a", "b"}, {"--threshold=x", "number"});
  add("compare_runs", "pipe", {"{files}/pipe.jsonl", "{files}/prompts.jsonl"}, {"pipe.jsonl", "it is a named pipe"});
  add("compare_runs", "no_run", {"{files}/nosuch", "{files}/nosuch"}, {"nosuch", "cannot open"});
  add("geo3k_preprocess", "misspelt_flag", {"--local_dri", "x"}, {"--local_dri", "--local_dir"});
  add("gsm8k_preprocess", "misspelt_flag", {"--input_dri", "x"}, {"--input_dri", "--input_dir"});
  return all;
}

TEST(errors, a_file_beyond_ulimit_is_an_error_and_no_signal) {
  if (!fs::exists(program::path_of("random_model"))) GTEST_SKIP() << "no program";
  const scratch::folder place;
  const words line{"--tokenizer",   RLCORE_REFERENCE_DIR "/first_steps/tokenizer",
                   "--output",      (place / "m").string(),
                   "--hidden_size", "16",
                   "--layers",      "1"};
  EXPECT_EQ(program::run("random_model", line).code, 0);
  fs::remove_all(place / "m");
  const program::result r = program::run("random_model", line, "ulimit -f 8;");  // 4 or 8 KiB: the shell's blocks
  EXPECT_EQ(r.code, 1) << r.out;
  EXPECT_TRUE(r.err.starts_with("random_model: ") && r.err.ends_with("File too large\n")) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
}

INSTANTIATE_TEST_SUITE_P(programs, errors, testing::ValuesIn(mistakes()),
                         [](const auto& one) { return std::string(one.param.of) + "_" + one.param.name; });

}  // namespace
}  // namespace RLCORE_TEST_ID
