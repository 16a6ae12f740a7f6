// Who scores: rules, a function of the caller, and what verl's dapo manager adds.
#include "rlcore/train/policy/reward/reward_source.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/telemetry/metric_names.hpp"
#include "rlcore/text/train_bpe.hpp"
#include "rlcore/train/policy/settings.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::trajectory;
using arguments = std::vector<std::string>;

class reward_source : public testing::Test {
 protected:
  reward_source() {
    for (const char* truth : {"72", "5"}) {
      data::prompt p;
      p.data_source = "openai/gsm8k", p.ground_truth = truth, p.extra = {{"index", prompts.size()}};
      prompts.prompts.push_back(p);
    }
  }
  trajectory answer(std::uint32_t row, const std::string& text, bool with_end = true) const {
    trajectory t;
    t.row = row, t.tokens = {0, 1}, t.prompt_length = 2;
    const auto ids = tokenizer.encode(text);
    t.tokens.insert(t.tokens.end(), ids.begin(), ids.end());
    if (with_end) t.tokens.push_back(*tokenizer.eos_id());
    return t;
  }
  std::vector<trajectory> answers() const { return {answer(0, "#### 72"), answer(1, "#### 6"), answer(1, "5")}; }

  const text::tokenizer tokenizer =
      text::train_bpe(arguments{"#### 0123456789"}, 261, arguments{"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  data::prompt_dataset prompts;
};

train::reward_settings settings(const arguments& given) {
  return train::read_reward_settings(train::options::parse(given, train::main_ppo_registry()));
}
std::string refusal(const arguments& given) {
  try {
    settings(given);
  } catch (const config_error& e) {
    return e.what();
  }
  return "";
}

TEST_F(reward_source, rules_read_the_text_without_special_tokens) {
  auto batch = answers();
  train::rule_rewards().score(batch, prompts, tokenizer);
  EXPECT_EQ(batch[0].reward, 1);
  EXPECT_EQ(batch[1].reward, 0);
  EXPECT_EQ(batch[1].verdict.why, verify::reason::wrong);
  EXPECT_EQ(batch[2].verdict.why, verify::reason::no_match);
  EXPECT_FALSE(batch[0].accuracy);
  EXPECT_THROW(train::rule_rewards().check("openai/gsm9k"), data_error);
}

TEST_F(reward_source, a_function_gets_what_verl_gives) {
  train::function_rewards source([](const train::answer& a) {
    EXPECT_EQ(a.data_source, "openai/gsm8k");
    return static_cast<double>(a.solution_str.size()) + (a.ground_truth == "5" ? 10.5 : 0) +
           100 * a.extra_info["index"].get<double>();
  });
  auto batch = answers();
  source.score(batch, prompts, tokenizer);
  EXPECT_EQ(batch[0].reward, 7);  // "#### 72"
  EXPECT_EQ(batch[1].reward, 116.5);
  EXPECT_EQ(batch[2].reward, 111.5);
  source.check("anything");

  train::function_rewards verdicts([](const train::answer&) {
    return verify::verdict{.score = -1, .why = verify::reason::undecided, .acc = false, .pred = "x"};
  });
  verdicts.score(batch, prompts, tokenizer);
  EXPECT_EQ(batch[2].reward, -1);
  EXPECT_EQ(batch[2].accuracy, 0.0);
  EXPECT_EQ(batch[2].verdict.pred, "x");

  train::function_rewards infinite([](const train::answer&) { return std::numeric_limits<double>::infinity(); });
  EXPECT_THROW(infinite.score(batch, prompts, tokenizer), data_error);
}

// Lengths and penalties as verl's dapo manager has them: -1 in full at the limit, the score of the rule beneath.
TEST_F(reward_source, the_dapo_manager_adds_accuracy_and_penalty) {
  const auto s = settings({"reward_model.reward_manager=dapo", "reward_model.overlong_buffer.enable=True",
                           "reward_model.overlong_buffer.len=4096", "reward_model.overlong_buffer.penalty_factor=1.0",
                           "data.max_response_length=20480"});
  train::rule_rewards rules(s.dapo_manager);
  train::managed_rewards rewards(rules, s.overlong);
  auto batch = answers();
  const std::size_t length[] = {16384, 18000, 20480};
  for (std::size_t i = 0; i < 3; ++i) {
    batch[i].tokens.insert(batch[i].tokens.end() - 1, length[i] + 2 - batch[i].tokens.size(), *tokenizer.pad_id());
    ASSERT_EQ(batch[i].response_length(), static_cast<std::int64_t>(length[i]));
  }
  rewards.score(batch, prompts, tokenizer);
  EXPECT_EQ(batch[0].reward, 1);
  EXPECT_NEAR(batch[1].reward, -0.3945313, 1e-7);
  EXPECT_EQ(batch[2].reward, -1);
  EXPECT_EQ(batch[0].accuracy, 1.0);
  EXPECT_EQ(batch[2].accuracy, 0.0);  // the score of the rule, not with the penalty
  EXPECT_EQ(batch[2].verdict.score, 0);

  train::metrics m;
  rewards.report(m);
  EXPECT_NEAR(m.get("reward/overlong"), 2.0 / 3, 1e-15);
  EXPECT_EQ(m.get("reward/overlong_penalty/min"), -1);
  for (const auto& [name, x] : m) EXPECT_TRUE(train::is_defined_metric(name)) << name;
  train::metrics again;
  rewards.report(again);
  EXPECT_TRUE(again.empty());
}

TEST(reward_settings, every_spelling_of_a_key) {
  const std::string manager[] = {"reward_model.reward_manager=dapo", "reward.reward_manager.name=dapo"};
  const std::string overlong[] = {"reward_model.overlong_buffer.", "+reward_model.overlong_buffer.",
                                  "reward_model.reward_kwargs.overlong_buffer_cfg.",
                                  "reward.reward_kwargs.overlong_buffer_cfg."};
  const std::string limit[] = {"reward_model.max_resp_len=80", "+reward_model.max_resp_len=80",
                               "reward_model.reward_kwargs.max_resp_len=80", "reward.reward_kwargs.max_resp_len=80"};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto s = settings({manager[i / 3], overlong[i] + "enable=True", overlong[i] + "len=20",
                             overlong[i] + "penalty_factor=0.5", overlong[i] + "log=True", limit[i]});
    EXPECT_TRUE(s.dapo_manager && s.log_overlong && s.overlong) << overlong[i];
    EXPECT_EQ(s.overlong->penalty(70), -0.25);
    EXPECT_EQ(s.overlong->penalty(100), -1);  // beyond the limit it falls on, as in verl
  }
}

TEST(reward_settings, refuses_what_cannot_work) {
  const arguments dapo{"reward_model.reward_manager=dapo", "reward_model.overlong_buffer.enable=True"};
  const auto with = [&](const std::string& more) {
    arguments all = dapo;
    all.push_back(more);
    return refusal(all);
  };
  EXPECT_EQ(refusal(dapo),
            "reward_model.overlong_buffer.len=0: expected an integer from 1 to data.max_response_length = 512 with "
            "overlong_buffer.enable=True");
  EXPECT_NE(with("reward_model.overlong_buffer.len=513").find("to data.max_response_length = 512"), std::string::npos);
  EXPECT_EQ(with("reward_model.overlong_buffer.len=512"), "");
  EXPECT_NE(with("reward.reward_manager.name=naive").find("mean the same setting; keep one"), std::string::npos);
  EXPECT_NE(refusal({"reward_model.enable=True", "rlcore.reward_command=./score"}).find("one source of scores"),
            std::string::npos);
  EXPECT_NE(refusal({"reward_model.reward_manager=dappo"}).find("did you mean 'dapo'?"), std::string::npos);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
