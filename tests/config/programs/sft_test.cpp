// The two command lines of sft_trainer: verl's keys and defaults (options_sft_defaults.py), OpenRLHF's flags.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "data/scratch.hpp"
#include "rlcore/config/check_value.hpp"
#include "rlcore/train/supervised/sft_work.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;

options parse(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"sft_trainer"};
  for (const std::string& a : arguments) argv.push_back(a.c_str());
  const int argc = static_cast<int>(argv.size());
  return options::parse(argc, argv.data(), sft_registry(argc, argv.data()));
}

TEST(sft_registry, knows_every_key_of_verl_and_its_default) {
  const auto theirs = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/options_sft_defaults.json"));
  EXPECT_EQ(theirs.size(), 61u);
  const options opt = parse({});
  // Deliberate: the device is ours, no web tracker.
  const std::set<std::string> different = {"trainer.device", "trainer.logger"};
  for (const auto& [name, expected] : theirs.items()) {
    if (opt.known().is_section(name)) continue;  // a free-form map upstream; here its members are known
    ASSERT_NE(opt.known().find(name), nullptr) << name;
    const value& ours = opt.at(name);
    const std::string text = expected.is_boolean()  ? (expected.get<bool>() ? "True" : "False")
                             : expected.is_string() ? expected.get<std::string>()
                             : expected.is_array()  ? ""
                             : expected.is_null()   ? "null"
                                                    : "";
    bool same = inline_text(ours) == text;
    if (expected.is_number()) same = std::stod(inline_text(ours)) == expected.get<double>();
    if (expected.is_array()) {
      same = ours.as<value::list>() != nullptr && ours.as<value::list>()->size() == expected.size();
      for (std::size_t i = 0; same && i < expected.size(); ++i)
        same = expected[i].is_string()
                   ? scalar_text((*ours.as<value::list>())[i]) == expected[i].get<std::string>()
                   : std::stod(scalar_text((*ours.as<value::list>())[i])) == expected[i].get<double>();
    }
    EXPECT_EQ(same, !different.contains(name)) << name << "=" << inline_text(ours) << ", verl: " << expected;
  }
}

TEST(sft_registry, cpu_offload_moves_the_moments) {
  const std::string device = "trainer.device=npu_emulator";
  EXPECT_TRUE(read_sft_settings(parse({device, "model.fsdp_config.cpu_offload=True"})).training.adamw.moments.host);
  EXPECT_FALSE(read_sft_settings(parse({device})).training.adamw.moments.host);
}

TEST(sft_registry, verl_settings) {
  const sft_run_settings s = read_sft_settings(
      parse({"data.multiturn.enable=True", "optim.lr_scheduler=wsd", "optim.lr_warmup_steps_ratio=0.25",
             "optim.betas=[0.8,0.9]", "trainer.resume_from_path=x/global_step_3",
             "+data.apply_chat_template_kwargs.enable_thinking=False", "data.train_max_samples=7", "model.lora_rank=8",
             "model.target_modules=[q_proj,v_proj]", "trainer.seed=5"}));
  EXPECT_EQ(s.rows.layout, data::sft_layout::conversation);
  EXPECT_EQ(s.rows.max_rows, 7u);
  EXPECT_EQ(s.rows.enable_thinking, std::optional<bool>(false));
  EXPECT_EQ(s.run.schedule.kind, optim::schedule_kind::wsd);
  EXPECT_EQ(s.run.schedule.warmup_ratio, 0.25);
  EXPECT_EQ(s.run.resume_mode, "resume_path");
  EXPECT_EQ(s.run.at_epoch_end, epoch_end::drop);
  EXPECT_EQ(s.training.adamw.beta1, 0.8);
  EXPECT_EQ(s.training.adamw.weight_decay, 0.01);
  ASSERT_TRUE(s.training.lora);
  EXPECT_EQ(s.training.lora->modules, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(s.training.lora->seed, 5u);
}

TEST(sft_registry, one_flag_makes_the_command_line_openrlhfs) {
  EXPECT_FALSE(speaks_openrlhf(parse({"--show_mask", "3", "trainer.seed=2", "--use_tensorboard", "runs"})));
  EXPECT_EQ(parse({"--show_mask=3"}).get<std::int64_t>("rlcore.show_mask"), 3);
  EXPECT_FALSE(speaks_openrlhf(parse({"--help"})));
  const std::vector<std::string> shortest{"--pretrain", "m", "--dataset", "d", "--output_key", "response"};
  const options opt = parse(shortest);
  EXPECT_TRUE(speaks_openrlhf(opt));
  EXPECT_TRUE(speaks_openrlhf(parse({"pretrain=m", "dataset=d", "output_key=response"})));
  EXPECT_EQ(opt.get<double>("learning_rate"), 5e-6);
  EXPECT_EQ(opt.get<std::int64_t>("max_epochs"), 2);
  EXPECT_EQ(opt.get<std::int64_t>("max_len"), 2048);
  EXPECT_EQ(opt.get<std::int64_t>("train_batch_size"), 128);
  EXPECT_EQ(opt.get<std::string>("input_template"), "User: {}\nAssistant: ");
  const supervised_settings run = read_openrlhf_run(opt);
  EXPECT_EQ(run.schedule.kind, optim::schedule_kind::cosine);
  EXPECT_EQ(run.warmup_round_up, 0.03);

  const auto refused = [](std::vector<std::string> arguments, const std::string& part) {
    scratch::error_of<config_error>([&] { parse(arguments); }, {part});
  };
  refused({"--pretrain", "m", "--dataset", "d"}, "--output_key is needed");
  refused({"--pretrain", "m", "--dataset", "d", "--multiturn"}, "--multiturn needs --apply_chat_template");
  refused({"--pretrain", "m", "--output_key", "a"}, "--dataset is needed");
  refused({"--pretrain", "m", "--dataset", "d", "--ouput_key", "a"}, "did you mean '--output_key'");
  refused({"--pretrain", "m", "data.train_files=x"}, "unknown key 'data.train_files'");
}

TEST(sft_registry, openrlhf_rows) {
  const text::tokenizer tokenizer = text::tokenizer::parse(
      nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/sft_mask.json"))["tokenizer"].dump(),
      R"({"eos_token": "<|im_end|>"})");
  const std::vector<std::string> start{"--pretrain", "m", "--dataset", "d", "--input_key", "q"};
  const auto rows = [&](std::vector<std::string> more, const row_rules& rules) {
    more.insert(more.begin(), start.begin(), start.end());
    return read_openrlhf_rows(parse(more), rules);
  };
  row_rules rules{tokenizer};
  rules.input_template = "{{Q}} {}\nA:";
  data::sft_settings s = rows({"--output_key", "a"}, rules);
  EXPECT_EQ(s.layout, data::sft_layout::plain);
  EXPECT_EQ(s.before, "{Q} ");
  EXPECT_EQ(s.after, "\nA:");
  EXPECT_EQ(s.response_key, "a");
  EXPECT_EQ(s.max_length, rules.max_len);
  rules.input_template.reset();
  EXPECT_EQ(rows({"--pretrain_mode"}, rules).layout, data::sft_layout::text);
  rules.chat = text::chat_template::named("qwen2.5");
  s = rows({"--apply_chat_template"}, rules);
  EXPECT_EQ(s.layout, data::sft_layout::chat);
  EXPECT_EQ(s.learnt, data::learnt_turns::last);
  EXPECT_EQ(rows({"--apply_chat_template", "--multiturn"}, rules).learnt, data::learnt_turns::all);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
