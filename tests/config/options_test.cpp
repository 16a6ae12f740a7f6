// The command lines of public verl documents must parse unchanged; mistakes must be named in one line.
#include "rlcore/config/options.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/config/programs/sft.hpp"
#include "rlcore/config/settings/async_options.hpp"
#include "rlcore/config/settings/batch_plan.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
using arguments = std::vector<std::string>;

options parse(arguments args) { return options::parse(args, main_ppo_registry()); }

std::string refusal(arguments args, const registry& known = main_ppo_registry()) {
  try {
    options::parse(std::move(args), known);
  } catch (const rlcore::config_error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  return "accepted";
}

bool has_note(const options& opt, const std::string& part) {
  for (const std::string& line : opt.notes())
    if (line.find(part) != std::string::npos) return true;
  return false;
}

arguments command_line(const char* name) {
  static const auto data = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/trainer_command_lines.json"));
  return data.at(name).get<arguments>();
}

TEST(options, quickstart_runs_unchanged) {
  const options opt = parse(command_line("quickstart"));
  EXPECT_EQ(opt.get<std::string>("algorithm.adv_estimator"), "grpo");
  EXPECT_EQ(opt.list("data.train_files"), arguments{"/home/user/data/gsm8k/train.parquet"});
  EXPECT_EQ(opt.get<std::int64_t>("data.train_batch_size"), 128);
  EXPECT_TRUE(opt.get<bool>("data.filter_overlong_prompts"));
  EXPECT_EQ(opt.get<std::string>("data.truncation"), "error");
  EXPECT_EQ(opt.get<std::string>("actor_rollout_ref.model.path"), "Qwen/Qwen2.5-0.5B-Instruct");
  EXPECT_EQ(opt.get<double>("actor_rollout_ref.actor.optim.lr"), 5e-7);
  EXPECT_EQ(opt.get<double>("actor_rollout_ref.actor.entropy_coeff"), 0.001);
  EXPECT_TRUE(opt.get<bool>("actor_rollout_ref.actor.use_kl_loss"));
  EXPECT_EQ(opt.get<std::int64_t>("actor_rollout_ref.rollout.n"), 5);
  EXPECT_EQ(opt.list("trainer.logger"), arguments{"console"});
  EXPECT_EQ(opt.get<std::string>("trainer.default_local_dir"),
            "checkpoints/verl_grpo_example_gsm8k/qwen2_7b_function_rm");
  EXPECT_EQ(opt.get<std::int64_t>("actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu"), 16384);
  EXPECT_TRUE(opt.is_set("trainer.save_freq"));
  EXPECT_FALSE(opt.is_set("trainer.resume_mode"));
  EXPECT_EQ(opt.find<std::int64_t>("trainer.total_training_steps"), std::nullopt);
  EXPECT_EQ(opt.get<std::string>("trainer.device"), "npu");
  EXPECT_TRUE(opt.get<bool>("rlcore.recompute_old_log_prob"));
  EXPECT_FALSE(has_note(opt, "actor_rollout_ref.rollout.tensor_model_parallel_size=2"));
  EXPECT_EQ(opt.get<double>("actor_rollout_ref.rollout.gpu_memory_utilization"), 0.6);
  EXPECT_FALSE(has_note(opt, "log_prob_micro_batch_size_per_gpu has no effect"));
  EXPECT_TRUE(has_note(opt, "algorithm.kl_ctrl.kl_coef has no effect"));
  EXPECT_FALSE(opt.answer().has_value());
}

TEST(options, other_published_command_lines_run_unchanged) {
  const options list = parse(command_line("quickstart_logger_list"));
  EXPECT_EQ(list.list("trainer.logger"), arguments{"console"});
  const options sixteen = parse(command_line("sixteen_devices"));
  EXPECT_EQ(sixteen.list("trainer.logger"), (arguments{"console", "wandb"}));
  EXPECT_EQ(sixteen.get<std::int64_t>("trainer.nnodes"), 2);
  EXPECT_TRUE(has_note(sixteen, "ppo_max_token_len_per_gpu has no effect"));
  EXPECT_TRUE(has_note(sixteen, "critic.optim.lr: no effect, algorithm.adv_estimator=grpo has no critic"));
}

TEST(options, overrides_at_the_end_win) {
  arguments args = command_line("quickstart");
  for (const char* more :
       {"data.train_batch_size=4", "actor_rollout_ref.rollout.n=2", "data.train_files=[a.jsonl,b.jsonl]"})
    args.emplace_back(more);
  const options opt = parse(args);
  EXPECT_EQ(opt.get<std::int64_t>("data.train_batch_size"), 4);
  EXPECT_EQ(opt.list("data.train_files"), (arguments{"a.jsonl", "b.jsonl"}));
}

TEST(options, coefficients_are_finite_and_not_negative) {
  const std::string actor = "actor_rollout_ref.actor.";
  EXPECT_NE(refusal({"algorithm.kl_ctrl.kl_coef=-0.1"}).find("algorithm.kl_ctrl.kl_coef=-0.1: expected a number >= 0"),
            std::string::npos);
  EXPECT_NE(refusal({actor + "kl_loss_coef=-0.1"}).find("kl_loss_coef=-0.1: expected a number >= 0"),
            std::string::npos);
  EXPECT_NE(
      refusal({"--init_kl_coef", "-0.1"}, grpo_trainer_registry()).find("--init_kl_coef=-0.1: expected a number >= 0"),
      std::string::npos);
  EXPECT_NE(refusal({actor + "optim.lr=inf"}).find("optim.lr=inf: expected a number >= 0, and finite"),
            std::string::npos);
  EXPECT_NO_THROW(parse({actor + "grad_clip=inf"}));
  EXPECT_NE(refusal({actor + "optim.lr=nan"}).find("optim.lr=nan: expected a number"), std::string::npos);
  EXPECT_EQ(parse({actor + "clip_ratio_c=inf"}).get<double>(actor + "clip_ratio_c"),
            std::numeric_limits<double>::infinity());
}

TEST(options, a_checkpoint_that_is_not_resumed_from_is_noted) {
  const std::string path = "trainer.resume_from_path=run/global_step_1",
                    note = "trainer.resume_from_path has no effect without trainer.resume_mode=resume_path";
  EXPECT_TRUE(has_note(parse({path}), note));
  EXPECT_FALSE(has_note(parse({path, "trainer.resume_mode=resume_path"}), note));
  EXPECT_TRUE(has_note(options::parse({path}, sft_registry()), note));
}

TEST(options, the_time_of_the_start_is_a_reference) {
  char today[32] = {};
  const std::time_t before = std::time(nullptr);
  std::strftime(today, sizeof today, "%Y", std::localtime(&before));
  const options opt =
      parse({"trainer.experiment_name=${now:%Y}", "trainer.default_local_dir=runs/${now:%H-%M-%S}/${now:%H-%M-%S}"});
  EXPECT_EQ(opt.get<std::string>("trainer.experiment_name"), today);
  const std::string folder = opt.get<std::string>("trainer.default_local_dir");
  EXPECT_EQ(folder.size(), 5u + 8 + 1 + 8) << folder;
  EXPECT_EQ(folder.substr(5, 8), folder.substr(14));
  EXPECT_NE(refusal({"trainer.experiment_name=${now:}"}).find("expected a format such as %Y-%m-%d"), std::string::npos);
  EXPECT_NE(refusal({"trainer.experiment_name=${tomorrow:%Y}"}).find("expected a key, oc.env:NAME or now:FORMAT"),
            std::string::npos);
  EXPECT_EQ(refusal({"hydra.run.dir=outputs/${hydra.job.name}/${now:%Y-%m-%d}"}), "accepted");
}

TEST(options, betas_are_two_numbers_below_1) {
  for (const std::string key : {"actor_rollout_ref.actor.optim.betas=", "critic.optim.betas="}) {
    EXPECT_EQ(refusal({key + "[0,0.99]"}), "accepted");
    for (const char* bad : {"[0.9,1]", "[-0.1,0.9]", "[0.9,nan]"})
      EXPECT_NE(refusal({key + bad}).find("expected two numbers"), std::string::npos) << bad;
    for (const char* bad : {"[0.9]", "0.9", "[0.9,a]", "[0.9,0.9,0.9]"})
      EXPECT_NE(refusal({key + bad}).find(bad + std::string(": expected two numbers (")), std::string::npos) << bad;
  }
  EXPECT_NE(refusal({"critic.optim.betas=[0.9,1]"}).find("two numbers from 0 to below 1"), std::string::npos);
  const options shown = parse({"actor_rollout_ref.actor.optim.betas=[0.9,0.95]", "--cfg", "job"});
  EXPECT_NE(shown.answer()->find("betas:\n      - 0.9\n      - 0.95\n"), std::string::npos) << *shown.answer();
}

TEST(options, keys_of_newer_versions_are_known) {
  const std::string correction = "algorithm.rollout_correction.", actor = "actor_rollout_ref.actor.";
  const options opt =
      parse({"+ray_kwargs.ray_init.num_cpus=8", "ray_kwargs.timeline_json_file=null", actor + "calculate_entropy=True",
             correction + "bypass_mode=True", "transfer_queue.enable=True"});
  EXPECT_TRUE(has_note(opt, "accepted, without effect on this device: " + actor + "calculate_entropy=True"));
  EXPECT_NE(
      refusal({correction + "bypass_mode=True", "rlcore.recompute_old_log_prob=True"}).find("contradict each other"),
      std::string::npos);
  EXPECT_TRUE(has_note(opt, "ray_kwargs={ray_init:{num_cpus:8},timeline_json_file:null}"));
  EXPECT_NE(refusal({"data.seed=7"}).find("it has null (seed of the order of rows; rlcore.seed is"), std::string::npos);
  EXPECT_NE(refusal({"actor_rollout_ref.rollout.seed=7"}).find("rlcore.seed is that of all"), std::string::npos);
  EXPECT_EQ(refusal({correction + "rollout_rs=null", "data.seed=null"}), "accepted");
}

TEST(options, a_setting_may_have_the_name_of_another_version) {
  const std::string actor = "actor_rollout_ref.actor.", clip = actor + "optim.clip_grad";
  const options opt = parse({clip + "=0.5", actor + "fsdp_config.ulysses_sequence_parallel_size=1",
                             actor + "optim.lr_scheduler_type=cosine", "critic.optim.clip_grad=2"});
  EXPECT_EQ(opt.get<double>(actor + "grad_clip"), 0.5);
  EXPECT_EQ(opt.get<std::string>(actor + "optim.warmup_style"), "cosine");
  EXPECT_EQ(opt.get<double>("critic.grad_clip"), 2);
  EXPECT_TRUE(opt.is_set(actor + "grad_clip"));
  // What follows the key follows its other names, too.
  EXPECT_EQ(parse({actor + "fsdp_config.strategy=fsdp2"}).get<std::string>("actor_rollout_ref.ref.strategy"), "fsdp2");
  EXPECT_EQ(parse({clip + "=0.5", actor + "grad_clip=0.5"}).get<double>(actor + "grad_clip"), 0.5);
  EXPECT_EQ(refusal({clip + "=0.5", actor + "grad_clip=1"}),
            actor + "grad_clip=1 and " + clip + "=0.5 mean the same setting; keep one");
  const std::string own = "custom_reward_function.path";
  EXPECT_FALSE(parse({"reward." + own + "=x", "~reward." + own}).find<std::string>(own));
  EXPECT_EQ(parse({own + "=y", "~" + own, "reward." + own + "=x"}).get<std::string>(own), "x");
  EXPECT_EQ(refusal({clip + "=-1"}), clip + "=-1: expected a number >= 0 (= grad_clip)");
}

TEST(options, a_part_that_is_not_here_stays_off) {
  const std::string prediction = "actor_rollout_ref.model.mtp.";
  EXPECT_TRUE(has_note(parse({prediction + "enable=False", prediction + "method=mtp"}), "known, but not used"));
  EXPECT_EQ(refusal({prediction + "enable=True"}),
            prediction + "enable=True is not in this build; expected False (prediction of several tokens)");
  EXPECT_EQ(refusal({"skip.rollout.enable=True"}),
            "skip.rollout.enable=True is not in this build; expected False (answers of an earlier run; see "
            "rlcore.replay)");
  EXPECT_EQ(refusal({"distillation={enabled:True}"}).find("distillation.enabled=True is not in this build"), 0u);
  EXPECT_EQ(refusal({"skip={rollout:{enable:False}}"}), "accepted");
}

TEST(options, a_map_for_the_optimizer_changes_no_number) {
  const std::string map = "+actor_rollout_ref.actor.optim.override_optimizer_config.";
  EXPECT_EQ(refusal({map + "optimizer_cpu_offload=True", map + "optimizer_offload_fraction=1"}), "accepted");
  EXPECT_NE(refusal({map + "eps=1e-6"}).find("override_optimizer_config.eps=1e-06: AdamW here has"), std::string::npos)
      << refusal({map + "eps=1e-6"});
  EXPECT_EQ(refusal({"critic.optim.override_optimizer_config=null"}), "accepted");
}

TEST(options, main_style_arguments) {
  const char* argv[] = {"grpo_trainer", "data.train_batch_size=4"};
  EXPECT_EQ(options::parse(2, argv, main_ppo_registry()).get<std::int64_t>("data.train_batch_size"), 4);
}

TEST(options, every_default_has_its_type) {
  const options opt = parse({});
  for (const key& k : opt.known().keys()) EXPECT_NO_THROW(check_value(k, opt.at(k.name))) << k.name;
  EXPECT_TRUE(opt.notes().empty() || has_note(opt, "rollout.n=1"));
  EXPECT_GT(opt.known().size(), 350u);
}

TEST(options, refuses_a_misspelt_key_and_names_its_neighbours) {
  EXPECT_EQ(refusal({"actor_rollout_ref.actor.ppo_minibatch_size=64"}).substr(0, 116),
            "unknown key 'actor_rollout_ref.actor.ppo_minibatch_size' (did you mean "
            "'actor_rollout_ref.actor.ppo_mini_batch_size'");
  EXPECT_NE(refusal({"data.train_batchsize=4"}).find("did you mean 'data.train_batch_size'"), std::string::npos);
  EXPECT_NE(refusal({"actor.optim.weight_decay=0"}).find("actor_rollout_ref.actor.optim.weight_decay"),
            std::string::npos);
  EXPECT_NE(refusal({"+trainer.new_key=1"}).find("only inside a free-form map"), std::string::npos);
  EXPECT_NE(refusal({"++trainer.new_key=1"}).find("unknown key"), std::string::npos);
  EXPECT_NE(refusal({"~trainer.new_key"}).find("unknown key"), std::string::npos);
  EXPECT_NE(refusal({"trainer={nodes:1}"}).find("unknown key 'trainer.nodes' (did you mean 'trainer.nnodes'?)"),
            std::string::npos);
  EXPECT_NE(refusal({"Data.shuffle=True"}).find("did you mean 'data.shuffle'"), std::string::npos);
  EXPECT_NE(refusal({"data=foo"}).find("is a section"), std::string::npos);
  EXPECT_NE(refusal({"data/sub=foo"}).find("groups"), std::string::npos);
  EXPECT_NE(refusal({"--hepl"}).find("did you mean '--help'"), std::string::npos);
}

TEST(options, refuses_wrong_types_and_words) {
  EXPECT_EQ(refusal({"data.train_batch_size=many"}),
            "data.train_batch_size=many: expected an integer (prompts per step; the last partial batch is dropped)");
  EXPECT_NE(refusal({"data.train_batch_size=0"}).find("expected an integer >= 1"), std::string::npos);
  EXPECT_NE(refusal({"data.train_batch_size=1.0"}).find("expected an integer"), std::string::npos);
  EXPECT_NE(refusal({"data.train_batch_size=null"}).find("expected an integer"), std::string::npos);
  EXPECT_NE(refusal({"data.shuffle=yes"}).find("expected True or False"), std::string::npos);
  EXPECT_NE(refusal({"actor_rollout_ref.actor.optim.lr=fast"}).find("expected a number"), std::string::npos);
  EXPECT_NE(refusal({"actor_rollout_ref.rollout.top_p=1.5"}).find("from 0 to 1"), std::string::npos);
  EXPECT_EQ(refusal({"data.truncation=errror"}),
            "data.truncation=errror: expected error, left, right, middle (did you mean 'error'?)");
  EXPECT_EQ(refusal({"algorithm.adv_estimator=tir_optimal_token_baseline"}), "accepted");
  EXPECT_TRUE(
      has_note(parse({"algorithm.adv_estimator=gigpo"}), "every response is one turn, so this is grpo, times 1 +"));
  EXPECT_TRUE(has_note(parse({"algorithm.gigpo.mode=mean_norm"}), "algorithm.gigpo.mode has no effect with"));
  const std::string mode = "actor_rollout_ref.actor.policy_loss.loss_mode=";
  EXPECT_EQ(refusal({"rlcore.verl=0.6.1", mode + "cispo"}),
            mode + "cispo is not in verl 0.6.1, which rlcore.verl asks for; expected rlcore.verl=0.8.0 or later");
  EXPECT_EQ(refusal({"rlcore.verl=0.8.0", mode + "dro", "actor_rollout_ref.actor.policy_loss.dro_beta=1"}),
            mode + "dro is not in verl 0.8.0, which rlcore.verl asks for; expected rlcore.verl=0.9.1");
  EXPECT_NE(refusal({"rlcore.verl=0.7.0"}).find("expected 2025-08, 0.6.1, 0.8.0, 0.9.1"), std::string::npos);
  EXPECT_NE(refusal({mode + "geo_mean", "algorithm.adv_estimator=remax"}).find("one advantage per response"),
            std::string::npos);
  EXPECT_NE(refusal({mode + "bypass_mode"}).find("not in this build yet"), std::string::npos);
  EXPECT_NE(refusal({mode + "gsop"}).find("did you mean 'gspo'"), std::string::npos);
  EXPECT_NE(refusal({"algorithm.adv_estimator=gpro"}).find("did you mean 'grpo'"), std::string::npos);
  EXPECT_NE(refusal({"actor_rollout_ref.actor.kl_loss_type=full"}).find("not in this build yet"), std::string::npos);
  EXPECT_NE(refusal({"actor_rollout_ref.rollout.name=triton"}).find("expected rlcore, vllm, sglang, hf"),
            std::string::npos);
  EXPECT_NE(refusal({"trainer.device=tpu"}).find("expected cpu, npu, npu_emulator, cuda"), std::string::npos);
  EXPECT_NE(refusal({"trainer.logger=[console,wnadb]"}).find("did you mean 'wandb'"), std::string::npos);
  EXPECT_NE(refusal({"data.train_files='hdfs://x/y'"}).find("copy the files first"), std::string::npos);
  EXPECT_NE(refusal({"trainer.default_hdfs_dir=/x"}).find("not in this build yet"), std::string::npos);
  const std::string model = "actor_rollout_ref.model.", rank = model + "lora_rank=8";
  EXPECT_EQ(refusal({rank, model + "lora_alpha=32", model + "target_modules=[q_proj,v_proj]"}), "accepted");
  EXPECT_NE(refusal({model + "lora_rank=-1"}).find("expected"), std::string::npos);
  EXPECT_NE(refusal({rank, model + "lora_alpha=0"}).find("LoRA: alpha is 0"), std::string::npos);
  EXPECT_NE(refusal({rank, model + "target_modules=[q_proj,vproj]"}).find("did you mean 'v_proj'"), std::string::npos);
  EXPECT_NE(refusal({rank, model + "target_modules=q_proj", model + "exclude_modules=[q_proj]"}).find("leaves no"),
            std::string::npos);
  EXPECT_EQ(refusal({rank, model + "exclude_modules='.*visual.*'"}), "accepted");
  EXPECT_EQ(refusal({rank, model + "exclude_modules=[attn.proj,mlp.0]"}), "accepted");
  EXPECT_NE(refusal({rank, model + "exclude_modules=[visual]"}).find("excluded module 'visual' is not one of"),
            std::string::npos);
  EXPECT_NE(refusal({rank, model + "exclude_modules=['.*visual.*',q_proj]"}).find("expected it alone, or names"),
            std::string::npos);
  EXPECT_NE(refusal({rank, model + "exclude_modules='.*visual('"}).find("cannot be compiled"), std::string::npos);
  EXPECT_NE(refusal({"--config-name", "dapo_trainer"}).find("is for another program"), std::string::npos);
  EXPECT_NE(refusal({"--config-name=pop_trainer"}).find("did you mean 'ppo_trainer'"), std::string::npos);
}

TEST(options, refuses_combinations_that_cannot_work) {
  const std::string actor = "actor_rollout_ref.actor.", rollout = "actor_rollout_ref.rollout.";
  EXPECT_NE(refusal({rollout + "val_kwargs.do_sample=True"}).find("temperature > 0"), std::string::npos);
  EXPECT_EQ(refusal({rollout + "val_kwargs.do_sample=True", rollout + "val_kwargs.temperature=0.6"}), "accepted");
  EXPECT_NE(refusal({rollout + "temperature=0"}).find("> 0"), std::string::npos);
  EXPECT_EQ(refusal({"+" + rollout + "repetition_penalty=1.05", "+" + rollout + "min_p=0.1",
                     "+" + rollout + "frequency_penalty=-2", "+" + rollout + "presence_penalty=2"}),
            "accepted");
  EXPECT_EQ(refusal({rollout + "repetition_penalty=0"}),
            rollout + "repetition_penalty=0: expected a number > 0; 1 penalises nothing");
  EXPECT_NE(refusal({rollout + "min_p=1.5"}).find("from 0 to 1"), std::string::npos);
  EXPECT_NE(refusal({rollout + "presence_penalty=2.5"}).find("from -2 to 2"), std::string::npos);
  EXPECT_NE(refusal({rollout + "frequency_penalty=-3"}).find("from -2 to 2"), std::string::npos);
  EXPECT_NE(refusal({rollout + "val_kwargs.min_p=0.1"}), "accepted") << "verl's val_kwargs have none";
  EXPECT_NE(refusal({actor + "clip_ratio_c=1"}).find("> 1"), std::string::npos);
  EXPECT_NE(refusal({rollout + "max_model_len=100"}).find("smaller"), std::string::npos);
  EXPECT_NE(refusal({rollout + "max_num_batched_tokens=1023"}).find("enable_chunked_prefill"), std::string::npos);
  EXPECT_EQ(refusal({rollout + "max_num_batched_tokens=1024"}), "accepted");
  EXPECT_NE(refusal({actor + "ppo_micro_batch_size=8", actor + "ppo_micro_batch_size_per_gpu=8"}).find("both"),
            std::string::npos);
  EXPECT_NE(refusal({"trainer.resume_mode=resume_path"}).find("resume_from_path"), std::string::npos);
  EXPECT_NE(refusal({"~data.train_files"}).find("needs the key"), std::string::npos);
}

TEST(options, plus_is_taken_where_it_makes_sense) {
  const options opt =
      parse({"+actor_rollout_ref.actor.megatron.override_transformer_config.use_flash_attn=True", "+data.shuffle=False",
             "++rlcore.seed=7", "+hydra.run.dir=/tmp/x", "trainer={nnodes:3,device:cpu}", "~trainer.rollout_data_dir"});
  EXPECT_FALSE(opt.get<bool>("data.shuffle"));
  EXPECT_EQ(opt.get<std::int64_t>("rlcore.seed"), 7);
  EXPECT_EQ(opt.get<std::int64_t>("trainer.nnodes"), 3);
  EXPECT_TRUE(opt.is_set("trainer.nnodes"));
  EXPECT_TRUE(has_note(opt, "+data.shuffle: the key is known"));
  EXPECT_TRUE(has_note(opt, "override_transformer_config={use_flash_attn:True}"));
  EXPECT_EQ(opt.find<std::string>("trainer.rollout_data_dir"), std::nullopt);
}

TEST(options, clip_ratio_reaches_both_sides) {
  const options opt = parse({"actor_rollout_ref.actor.clip_ratio=0.3", "actor_rollout_ref.actor.clip_ratio_high=0.4"});
  EXPECT_EQ(opt.get<double>("actor_rollout_ref.actor.clip_ratio_low"), 0.3);
  EXPECT_EQ(opt.get<double>("actor_rollout_ref.actor.clip_ratio_high"), 0.4);
}

TEST(options, interpolates_and_keeps_text) {
  const options opt =
      parse({"trainer.experiment_name=2024", "trainer.default_local_dir='out/${trainer.experiment_name}'",
             "rlcore.max_decode_batch=${actor_rollout_ref.rollout.max_num_seqs}"});
  EXPECT_EQ(opt.get<std::string>("trainer.default_local_dir"), "out/2024");
  EXPECT_EQ(opt.get<std::int64_t>("rlcore.max_decode_batch"), 1024);
  EXPECT_NE(refusal({"trainer.project_name=${trainer.nosuch}"}).find("does not exist"), std::string::npos);
  EXPECT_NE(refusal({"trainer.project_name=${trainer.default_local_dir}"}).find("circle"), std::string::npos);
}

TEST(options, programming_errors) {
  options opt = parse({});
  EXPECT_THROW(opt.get<bool>("data.nosuch"), std::invalid_argument);
  EXPECT_THROW(opt.get<bool>("data.train_batch_size"), std::invalid_argument);
  EXPECT_THROW(opt.get<std::int64_t>("trainer.total_training_steps"), std::invalid_argument);
  EXPECT_THROW(opt.list("data.train_batch_size"), std::invalid_argument);
  opt.set("data.train_batch_size", 3);
  EXPECT_EQ(opt.get<std::int64_t>("data.train_batch_size"), 3);
  EXPECT_FALSE(opt.is_set("data.train_batch_size"));
  EXPECT_THROW(opt.set("data.train_batch_size", "x"), rlcore::config_error);
}

TEST(options, answers_help_and_config) {
  const options help = parse({"--help", "data.nosuch=1"});
  ASSERT_TRUE(help.answer());
  EXPECT_NE(help.answer()->find("\n  actor_rollout_ref.actor.*: "), std::string::npos);
  EXPECT_NE(help.answer()->find("lr=1e-6"), std::string::npos);
  EXPECT_EQ(help.answer()->find("weight_decay"), std::string::npos) << "that is in --help all";
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"--help", "data"}, {"--help=data.*", "x.y=1"}}) {
    const options data = parse(line);
    EXPECT_EQ(data.answer()->find("data.*: "), 0u);
    EXPECT_EQ(data.answer()->find("optim.lr"), std::string::npos);
  }
  EXPECT_NE(parse({"--help", "all"}).answer()->find("optim.weight_decay=0.01"), std::string::npos);
  EXPECT_EQ(parse({"--help", "--version"}).answer()->find("grpo_trainer 0."), 0u) << "--version is no topic";
  EXPECT_EQ(refusal({"--help", "dta"}),
            "--help dta: no key or topic begins so (did you mean 'data'?); --help lists the topics, --help all every "
            "key");
  const options config = parse({"--cfg", "job", "rlcore.seed=9", "trainer.project_name='a: b'"});
  ASSERT_TRUE(config.answer());
  EXPECT_NE(config.answer()->find("\n  compute: null\n  threads: 0\n"), std::string::npos);
  EXPECT_NE(config.answer()->find("\n  seed: 9\n"), std::string::npos);
  EXPECT_NE(config.answer()->find("  project_name: 'a: b'\n"), std::string::npos);
  EXPECT_NE(parse({"--version"}).answer()->find("grpo_trainer 0."), std::string::npos);
}

TEST(options, config_names_of_conversations_are_defaults_below_the_command_line) {
  const std::string turns = "actor_rollout_ref.rollout.multi_turn.";
  const options opt = parse({"data.train_batch_size=8", "--config-name", "gsm8k_multiturn_grpo"});
  EXPECT_EQ(opt.get<std::int64_t>("data.train_batch_size"), 8);
  EXPECT_EQ(opt.get<std::int64_t>("data.max_response_length"), 1024);
  EXPECT_TRUE(opt.get<bool>(turns + "enable"));
  EXPECT_EQ(opt.find<std::int64_t>(turns + "max_assistant_turns"), 5);
  EXPECT_FALSE(opt.is_set(turns + "enable"));
  const options retool = parse({"--config-name=retool_multiturn_grpo", turns + "tool_config_path=t.yaml"});
  EXPECT_EQ(retool.get<std::string>("actor_rollout_ref.rollout.mode"), "async");
  EXPECT_EQ(retool.find<std::string>(turns + "tool_config_path"), "t.yaml");
  EXPECT_EQ(parse({"--config-name=gsm8k_multiturn_megatron_grpo"}).get<std::string>("actor_rollout_ref.actor.strategy"),
            "megatron");
}

TEST(options, config_name_of_one_step_off) {
  const options opt = parse({"--config-path=config", "--config-name=one_step_off_ppo_trainer.yaml", "rollout.nnodes=1",
                             "rollout.n_gpus_per_node=2", "actor_rollout_ref.hybrid_engine=False"});
  EXPECT_EQ(opt.get<std::int64_t>("rlcore.async_depth"), 1);
  EXPECT_TRUE(opt.get<bool>("rlcore.recompute_old_log_prob"));
  EXPECT_FALSE(opt.get<bool>("actor_rollout_ref.rollout.multi_turn.enable"));
  EXPECT_EQ(parse({"--config-name=one_step_off_ppo_megatron_trainer"}).get<std::string>("critic.strategy"), "megatron");
}

TEST(options, config_name_of_fully_async) {
  const std::string mini = "actor_rollout_ref.actor.ppo_mini_batch_size=";
  const std::vector<std::string> name{"--config-name=fully_async_ppo_trainer"};
  const async_settings verl = read_async_training(parse(name));
  EXPECT_TRUE(verl.enabled && verl.partial_rollout);
  EXPECT_EQ(verl.staleness_threshold, 0.1);
  EXPECT_EQ(verl.steps_per_copy, 4);
  const options opt = parse({name[0], "data.train_batch_size=0", "data.gen_batch_size=1", mini + "32", "rollout.n=8",
                             "async_training.require_batches=4", "rollout.total_rollout_steps=51200",
                             "rollout.total_epochs=3", "rollout.test_freq=10", "trainer.nnodes=1"});
  EXPECT_EQ(opt.get<std::int64_t>("actor_rollout_ref.rollout.n"), 8);
  EXPECT_EQ(opt.get<std::int64_t>("trainer.test_freq"), 40);
  EXPECT_FALSE(opt.get<bool>("rlcore.recompute_old_log_prob"));
  const batch_plan plan = make_batch_plan(opt, 17000);
  EXPECT_EQ(plan.prompts_per_step, 128);
  EXPECT_EQ(plan.updates_per_step, 4);
  EXPECT_EQ(plan.prompts_in_play, 563) << "128 x 4 x 1.1";
  EXPECT_EQ(plan.total_steps, 396) << "3 epochs of 132 steps are less than 51200 prompts";
  EXPECT_EQ(make_batch_plan(opt, 100000).total_steps, 400);
  EXPECT_TRUE(
      parse({name[0], "algorithm.rollout_correction.bypass_mode=False"}).get<bool>("rlcore.recompute_old_log_prob"));
}

TEST(options, asynchronous_training_begins_with_any_of_its_keys) {
  EXPECT_FALSE(read_async_training(parse({})).enabled);
  const async_settings s = read_async_training(parse({"async_training.partial_rollout=False"}));
  EXPECT_TRUE(s.enabled);
  EXPECT_EQ(s.staleness_threshold, 0.1);
  EXPECT_FALSE(s.partial_rollout);
  EXPECT_TRUE(has_note(parse({"rlcore.max_staleness=2"}), "rlcore.max_staleness has no effect without async_training"));
  EXPECT_TRUE(has_note(parse({"async_training.require_batches=2", "data.train_batch_size=100"}),
                       "data.train_batch_size has no effect with async_training"));
}

TEST(options, config_name_of_megatron) {
  const options opt = parse({"--config-path", "./config", "--config-name", "ppo_megatron_trainer.yaml"});
  EXPECT_EQ(opt.get<std::string>("actor_rollout_ref.actor.strategy"), "megatron");
  EXPECT_EQ(opt.get<std::string>("actor_rollout_ref.ref.strategy"), "megatron");
  EXPECT_TRUE(has_note(opt, "--config-path ./config"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
