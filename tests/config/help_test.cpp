// The page of --help of every program: short, within the width, filtered by topic.
#include "rlcore/config/help.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "rlcore/config/programs/evaluate.hpp"
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/config/programs/plan.hpp"
#include "rlcore/config/programs/preference_keys.hpp"
#include "rlcore/config/programs/sft.hpp"
#include "rlcore/config/programs/tools.hpp"
#include "rlcore/core/error.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
using testing::HasSubstr;
using testing::Not;

std::vector<registry> programs() {
  return {grpo_trainer_registry(),
          ppo_trainer_registry(),
          dapo_registry(),
          reinforce_plus_plus_trainer_registry(),
          sft_registry(),
          openrlhf_sft_registry(),
          dpo_registry(),
          kto_registry(),
          rm_registry(),
          prm_registry(),
          evaluate_registry(),
          plan_registry(),
          calibrate_registry(),
          compare_runs_registry(),
          geo3k_preprocess_registry(),
          gsm8k_preprocess_registry(),
          gsm8k_solutions_registry(),
          model_merger_registry(),
          npu_doctor_registry(),
          cuda_doctor_registry(),
          npu_golden_registry(),
          random_model_registry(),
          variants_registry()};
}

std::vector<std::string> lines_of(const std::string& text) { return split_words(text, '\n'); }

TEST(help, has_at_most_sixty_lines_within_the_width) {
  for (const registry& known : programs())
    for (const std::size_t width : {80u, 120u}) {
      const std::string text = help_text(known, "", width);
      EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 60) << known.program << " at " << width;
      for (const std::string& line : lines_of(text)) EXPECT_LE(detail::columns_of(line), width) << line;
    }
}

TEST(help, of_all_names_every_key_and_has_no_empty_section) {
  for (const registry& known : programs()) {
    const std::string text = "\n" + help_text(known, "all", 100);
    for (const detail::help_group& group : detail::groups_of(known))
      for (const key* k : group.keys) {
        const std::string shown = detail::typed(known, *k, group.name);
        EXPECT_THAT(text, HasSubstr(k->use == disposition::honoured ? "\n  " + shown : std::string(k->name)));
      }
    const std::vector<std::string> lines = lines_of(text);
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (lines[i].ends_with(':') && !lines[i].starts_with(' ') && i > 2) {
        EXPECT_TRUE(i + 1 < lines.size() && lines[i + 1].starts_with("  ")) << known.program << ": " << lines[i];
      }
    EXPECT_THAT(text, Not(HasSubstr("\n\n\n"))) << known.program;
  }
}

/// A word of the tables that no program has is a spelling or a key that is gone.
TEST(help, topics_list_keys_that_exist) {
  const auto all = programs();
  const auto known_somewhere = [&](const std::string& name) {
    return name.starts_with("quickstart.") ||
           std::any_of(all.begin(), all.end(), [&](const registry& r) { return r.find(name) != nullptr; });
  };
  for (const std::span<const help_topic> topics :
       {std::span<const help_topic>(keys::verl_topics), std::span<const help_topic>(keys::openrlhf_topics),
        std::span<const help_topic>(keys::plan_topics)})
    for (const help_topic& topic : topics) {
      for (const std::string& word : detail::blank_words(topic.keys))
        EXPECT_TRUE(known_somewhere(std::string(topic.name) + "." + word)) << topic.name << "." << word;
      for (const std::string& word : detail::blank_words(topic.flags)) EXPECT_TRUE(known_somewhere(word)) << word;
    }
  for (const registry& known : all)
    for (const detail::help_group& group : detail::groups_of(known))
      EXPECT_FALSE(known.topics.size() > 0 && group.name == "options") << known.program << ": " << group.keys[0]->name;
}

TEST(help, of_a_topic_holds_its_keys_alone) {
  const registry known = grpo_trainer_registry();
  const std::string data = help_text(known, "data", 80);
  EXPECT_THAT(data, testing::StartsWith("data.*: "));
  EXPECT_THAT(data, HasSubstr("\n  max_prompt_length=512 "));
  EXPECT_THAT(data, HasSubstr("without effect on this device:\n  data.val_batch_size"));
  EXPECT_THAT(data, Not(HasSubstr("actor_rollout_ref.actor")));
  for (const std::string& line : lines_of(data)) EXPECT_LE(detail::columns_of(line), 80u) << line;
  EXPECT_EQ(help_text(known, "data.*", 80), data);

  const std::string rate = help_text(known, "actor_rollout_ref.actor.optim.lr=1e-6", 80);
  EXPECT_EQ(rate,
            "actor_rollout_ref.actor.*: the policy's loss, updates and optimizer\n"
            "  optim.lr=1e-6  AdamW learning rate\n");
  EXPECT_EQ(help_text(known, "actor.optim.lr", 80), rate);
  EXPECT_THAT(help_text(known, "optim", 80), HasSubstr("\ncritic.*: "));
  EXPECT_THAT(help_text(known, "data.max_p", 80), HasSubstr("max_prompt_length=512"));
  EXPECT_THAT(help_text(known, "--n_samples_per_prompt", 80), HasSubstr("\n  --n_samples_per_prompt 1"));
  EXPECT_THAT(help_text(known, "bf16", 120), HasSubstr("also --bf16 (bfloat16)"));
  EXPECT_THAT(help_text(known, "data.val_batch_size", 80), HasSubstr("val_batch_size=null"));
  EXPECT_THAT(help_text(openrlhf_sft_registry(), "optimizer", 80), HasSubstr("\n  --adam_betas 0.9 0.95 "));
}

TEST(help, of_no_topic_is_refused_with_its_neighbours) {
  const auto refusal = [](const char* topic) {
    try {
      return help_text(dpo_registry(), topic, 80);
    } catch (const rlcore::config_error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(refusal("optimiser"),
            "--help optimiser: no key or topic begins so (did you mean 'optimizer'?); --help lists the topics, --help "
            "all every key");
  EXPECT_THAT(refusal("learning_rat3"), HasSubstr("did you mean 'learning_rate'"));
  EXPECT_THAT(refusal("zzzzzz"), HasSubstr("no key or topic begins so; --help lists"));
}

TEST(help, shows_a_line_break_of_a_default_as_it_is_written) {
  EXPECT_THAT(help_text(kto_registry(), "input_template", 80),
              HasSubstr("--input_template 'User: {}\\nAssistant: '\n"));
  EXPECT_THAT(help_text(openrlhf_sft_registry(), "all", 80), HasSubstr("'User: {}\\nAssistant: '"));
}

TEST(help, of_sft_trainer_finds_the_command_line_that_has_the_word) {
  const auto answer = [](const char* topic) {
    const char* const line[] = {"sft_trainer", "--help", topic};
    return *options::parse(3, line, sft_registry(3, line)).answer();
  };
  EXPECT_THAT(answer("data"), HasSubstr("train_files="));
  EXPECT_THAT(answer("learning_rate"), HasSubstr("--learning_rate 5e-6"));
}

TEST(help, is_as_wide_as_the_terminal_but_readable) {
  const char* before = std::getenv("COLUMNS");
  const std::string kept = before != nullptr ? before : "";
  const auto width = [](const char* columns) { return setenv("COLUMNS", columns, 1), help_width(); };
  EXPECT_EQ(width("80"), 80u);
  EXPECT_EQ(width("101"), 101u);
  EXPECT_EQ(width("160"), 120u);
  EXPECT_EQ(width("20"), 60u);
  before != nullptr ? setenv("COLUMNS", kept.c_str(), 1) : unsetenv("COLUMNS");
}

TEST(help, breaks_the_lines_of_a_program) {
  EXPECT_EQ(detail::details_text("A sentence that is\nbroken here and goes on.\nAnother.\n", 24),
            "A sentence that is\nbroken here and goes on.\nAnother.\n");
  EXPECT_EQ(detail::details_text("  tool --key one --other two\n", 20), "  tool --key one \\\n      --other two\n");
  EXPECT_EQ(detail::details_text("  tool   what the tool does\n", 18), "  tool   what the\n         tool does\n");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
