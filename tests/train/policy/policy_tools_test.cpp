// Which tools the rows of a run may call.
#include "rlcore/train/policy/tools.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/text/train_bpe.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

const std::string rollout = "actor_rollout_ref.rollout.", turns = rollout + "multi_turn.";

agent::tools three() {
  agent::tools all;
  for (const char* name : {"a", "b", "c"})
    all.push_back(agent::make_tool(agent::function_schema(name, "A tool.", {}),
                                   [](const agent::tool_request&) { return std::string(); }));
  return all;
}

train::policy_tools open(const std::vector<std::string>& arguments) {
  const std::vector<std::string> special{"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
      corpus{"system user assistant"};
  const text::tokenizer tokenizer = text::train_bpe(corpus, 260, special);
  const std::vector<std::int32_t> eos{*tokenizer.eos_id()};
  const auto opt = train::options::parse(arguments, train::main_ppo_registry());
  return {train::read_tool_settings(opt), three(), text::chat_template::named("qwen2.5"), tokenizer, eos};
}

std::string names(const train::policy_tools& tools, const std::string& agent, const data::row& extra = {}) {
  data::prompt p;
  p.agent = agent, p.extra = extra;
  std::string all;
  for (const agent::tool* t : tools.of(p).tools) all += t->name();
  return all;
}

TEST(policy_tools, are_called_by_the_rows_that_say_so) {
  const train::policy_tools turn = open({turns + "enable=True"}), async = open({rollout + "mode=async"}),
                            both = open({rollout + "mode=async", rollout + "agent.default_agent_loop=tool_agent"});
  EXPECT_EQ(names(turn, ""), "abc");
  EXPECT_EQ(names(async, ""), "");
  EXPECT_EQ(names(both, ""), "abc");
  for (const auto* tools : {&turn, &async, &both}) {
    EXPECT_EQ(names(*tools, "tool_agent"), "abc");
    EXPECT_EQ(names(*tools, "single_turn_agent"), "");
    EXPECT_THAT([&] { names(*tools, "tool_agnet"); },
                testing::ThrowsMessage<data_error>(testing::HasSubstr("did you mean 'tool_agent'")));
  }
}

/// As in verl: in the order of the selection, unknown names left out, an empty list selects all.
TEST(policy_tools, are_selected_by_a_row) {
  const train::policy_tools tools = open({turns + "enable=True"});
  EXPECT_EQ(names(tools, "", {{"tool_selection", {"c", "x", "a", "c"}}}), "ca");
  EXPECT_EQ(names(tools, "", {{"tool_selection", data::row::array()}}), "abc");
  EXPECT_EQ(names(tools, "", {{"tool_selection", nullptr}}), "abc");
}

TEST(policy_tools, of_the_caller_are_called_by_all_rows_unless_the_command_line_speaks_of_tools) {
  const std::vector<std::string> special{"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
      corpus{"system user assistant"};
  const text::tokenizer tokenizer = text::train_bpe(corpus, 260, special);
  const std::vector<std::int32_t> eos{*tokenizer.eos_id()};
  const auto opened = [&](const std::vector<std::string>& arguments, agent::tools own) {
    const auto opt = train::options::parse(arguments, train::main_ppo_registry());
    return train::open_policy_tools(train::read_tool_settings(opt), std::move(own),
                                    text::chat_template::named("qwen2.5"), tokenizer, eos);
  };
  EXPECT_EQ(opened({}, {}), nullptr);
  EXPECT_EQ(opened({turns + "enable=True"}, {}), nullptr);
  EXPECT_EQ(names(*opened({}, three()), ""), "abc");
  EXPECT_EQ(names(*opened({}, three()), "single_turn_agent"), "");
  EXPECT_EQ(names(*opened({rollout + "mode=async"}, three()), ""), "");
}

TEST(policy_tools, get_the_arguments_of_their_row) {
  const train::policy_tools tools = open({turns + "enable=True"});
  data::prompt p;
  p.extra = {{"tools_kwargs", {{"b", {{"create_kwargs", {{"ground_truth", "7"}}}}}, {"c", nullptr}}}};
  const agent::row_setup row = tools.of(p);
  ASSERT_EQ(row.kwargs.size(), 3u);
  EXPECT_EQ(row.kwargs[0], nullptr);
  ASSERT_NE(row.kwargs[1], nullptr);
  EXPECT_EQ(*row.kwargs[1], (data::row{{"ground_truth", "7"}}));
  EXPECT_EQ(row.kwargs[2], nullptr);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
