// Conversations with an agent or a simulated user, scripted.
#include "agent/scripted_environment.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "rlcore/agent/dialogue.hpp"
#include "rlcore/agent/python_environment.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace scripted_turns;

TEST(environments, an_agent_reads_every_turn_and_its_rewards_are_summed) {
  scripted_environment e(environment::kind::agent,
                         {{"\nWrong. Again:", false, 0.25, {}}, {"<|im_end|>never read", true, 0.5, 7}});
  one_talk talk;
  talk.lead(e, {" 41", " 42<|im_end|>"});
  EXPECT_THAT(talk.texts(), ElementsAre(" 41", "\nWrong. Again:", " 42<|im_end|>"));
  EXPECT_EQ(talk.record.reward, 0.75);
  EXPECT_EQ(talk.record.score, 7);
  EXPECT_EQ(talk.record.assistant_turns, 2);
  EXPECT_EQ(talk.record.user_turns, 1);
  ASSERT_EQ(e.asked.size(), 2U);
  EXPECT_EQ(e.asked[0].observation, "Q: 6 x 7?\nA:");
  EXPECT_EQ(e.asked[0].action, " 41");
  EXPECT_EQ(e.asked[0].label, "42");
  EXPECT_EQ(e.asked[1].observation, "Q: 6 x 7?\nA: 41\nWrong. Again:");
  EXPECT_EQ(e.asked[1].action, " 42");  // the token stays in the response; OpenRLHF's text leaves it out, too
  EXPECT_EQ(e.asked[1].number, 1U);
  EXPECT_EQ(e.asked[1].row, 5U);
  EXPECT_EQ(e.asked[1].sample, 3U);
  ASSERT_EQ(e.opened.size(), 1U);
  EXPECT_THAT(e.closed, ElementsAre(e.opened[0].conversation));
}

TEST(environments, an_agent_s_text_may_open_turns) {
  const std::string opens = "<|im_end|>\n<|im_start|>user\nAgain.<|im_end|>\n<|im_start|>assistant\n";
  scripted_environment e(environment::kind::agent, {{opens, false, 0, {}}, {"", true, 1, {}}});
  one_talk talk;
  talk.lead(e, {" 41", " 42"});
  EXPECT_THAT(talk.texts(), ElementsAre(" 41", opens, " 42"));
  EXPECT_EQ(std::ranges::count(talk.response.tokens, end_mark()), 2);
  EXPECT_EQ(talk.record.score, 1);  // without one of its own: the sum of the rewards
}

TEST(environments, an_agent_is_asked_about_the_last_turn_too) {
  scripted_environment e(environment::kind::agent, {{" more", false, 1, {}}, {" more", false, 2, {}}});
  one_talk talk;
  const std::int64_t first = std::ssize(encoded(" 41")), context = std::ssize(encoded(" more"));
  talk.settings.max_response_length = first + context + 2;  // the second turn is cut
  talk.lead(e, {" 41", " 42 or 43 or 44"});
  EXPECT_EQ(std::ssize(talk.response.tokens), talk.settings.max_response_length);
  EXPECT_EQ(talk.record.reward, 3);
  EXPECT_EQ(e.asked.size(), 2U);
  EXPECT_EQ(e.closed.size(), 1U);
}

TEST(environments, an_agent_may_change_the_prompt) {
  scripted_environment e(environment::kind::agent, {{"", true, 1, {}}}, "<|im_start|>user\nSay 42.<|im_end|>\n");
  one_talk talk;
  talk.lead(e, {" 42"});
  EXPECT_EQ(talk.shown, encoded("<|im_start|>user\nSay 42.<|im_end|>\n"));
  EXPECT_EQ(e.asked[0].observation, "<|im_start|>user\nSay 42.<|im_end|>\n");
  scripted_environment longer(environment::kind::agent, {{"", true, 1, {}}}, "one two three four five");
  talk.settings.max_prompt_length = 3;  // OpenRLHF cuts from the left, too
  talk.lead(longer, {" 42"});
  const ids all = encoded("one two three four five");
  EXPECT_EQ(talk.shown, ids(all.end() - 3, all.end()));
  EXPECT_EQ(longer.asked[0].observation, tokenizer().decode(talk.shown));
  scripted_environment none(environment::kind::agent, {{"", true, 1, {}}}, "");
  EXPECT_THAT(thrown_by([&] { talk.lead(none, {" 42"}); }), HasSubstr("row 5: the agent has made the prompt empty"));
}

TEST(environments, a_failure_of_an_agent_ends_the_run_or_counts_0) {
  one_talk talk;
  scripted_environment first(environment::kind::agent, {{" more", false, 1, {}}, {"throw", false, 0, {}}});
  EXPECT_THAT(thrown_by([&] { talk.lead(first, {" 41", " 42"}); }), HasSubstr("the agent is broken"));
  EXPECT_EQ(first.closed.size(), 1U);
  scripted_environment second(environment::kind::agent, {{" more", false, 1, {}}, {"throw", false, 0, {}}});
  talk.settings.zero_on_failure = true;
  talk.lead(second, {" 41", " 42"});
  EXPECT_EQ(talk.record.reward, 0);
  EXPECT_EQ(talk.record.score, 0);
  EXPECT_EQ(talk.record.failures, 1);
  EXPECT_THAT(talk.texts(), ElementsAre(" 41", " more", " 42"));
}

TEST(environments, silence_is_no_answer_of_an_agent) {
  one_talk talk;
  scripted_environment e(environment::kind::agent, {{"", false, 0, {}}});
  EXPECT_THAT(thrown_by([&] { talk.lead(e, {" 41"}); }),
              HasSubstr("row 5, turn 0: the agent says nothing, and the conversation is not done"));
}

TEST(environments, a_user_answers_turns_that_call_nothing) {
  const std::string call =
      "<tool_call>\n{\"name\": \"echo\", \"arguments\": {\"text\": \"hm\"}}\n</tool_call><|im_end|>";
  scripted_environment e(environment::kind::user, {{"No.", false, 0.5, {}}, {"Yes!", true, 1, {}}});
  const std::vector<text::message> question{{"user", "What is 6 x 7?"}};
  one_talk talk;
  talk.row.tools = {talk.tools.at("echo")};
  talk.row.messages = &question;
  talk.lead(e, {call, "41<|im_end|>", "42<|im_end|>"});
  EXPECT_THAT(
      talk.texts(),
      ElementsAre(call, "\n<|im_start|>user\n<tool_response>\nhm\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
                  "41<|im_end|>", "\n<|im_start|>user\nNo.<|im_end|>\n<|im_start|>assistant\n", "42<|im_end|>"));
  EXPECT_EQ(talk.record.calls, 1);
  EXPECT_EQ(talk.record.tool_reward, 0.25);
  EXPECT_EQ(talk.record.reward, 1.5);
  EXPECT_EQ(talk.record.user_turns, 3);  // verl counts the last answer, which the policy does not read
  ASSERT_EQ(e.asked.size(), 2U);
  const auto message = [](const char* role, const std::string& text) {
    return ordered_json{{"role", role}, {"content", text}};
  };
  const std::string shown = call.substr(0, call.size() - 10);
  EXPECT_EQ(e.asked[0].messages, ordered_json({message("user", "What is 6 x 7?"), message("assistant", shown),
                                               message("tool", "hm"), message("assistant", "41")}));
  EXPECT_EQ(e.asked[1].messages.back(), message("assistant", "42"));
  EXPECT_EQ(e.asked[1].messages.at(4), message("user", "No."));
}

/// A response of `talk`, which has been led to its end, that paused after the first token of its last turn.
struct paused_talk {
  one_talk& talk;
  agent::paused_conversation paused;
  std::size_t turn;
  ids written, rest;

  paused_talk(one_talk& of, agent::conversation_record record, std::string replies, std::vector<double> rewards = {},
              std::string logs = {})
      : talk(of), paused{record, rewards, logs, replies, of.response.context, of.shown} {
    const rollout::context_run last = talk.response.context.back();
    turn = static_cast<std::size_t>(last.begin + last.count);
    const auto cut = talk.response.tokens.begin() + static_cast<std::ptrdiff_t>(turn) + 1;
    written.assign(talk.response.tokens.begin(), cut), rest.assign(cut, talk.response.tokens.end());
  }
  /// Another object resumes it; `talk` then has its record.
  void resume(environment& e) {
    talk.row.environment = &e;
    conversations talks(tokenizer(), &talk.replies, talk.settings, [&](std::uint32_t) { return talk.row; });
    std::vector<rollout::request> requests{
        {.prompt = talk.prompt, .prompt_number = 5, .sample = 3, .written = written, .turn = turn}};
    talks.resume({paused});
    talks.prepare(requests);
    EXPECT_TRUE(std::ranges::equal(requests[0].prompt, talk.shown));
    EXPECT_EQ(play(talks, requests, {{rest}}, talk.settings.max_response_length)[0].tokens, rest);
    talk.record = talks.records()[0];
    talk.turn_rewards.assign(talks.turn_rewards(0).begin(), talks.turn_rewards(0).end());
    talk.logs = talks.logs(0);
  }
};

void expect_same(const agent::conversation_record& a, const agent::conversation_record& b) {
  EXPECT_EQ(a.assistant_turns, b.assistant_turns);
  EXPECT_EQ(a.user_turns, b.user_turns);
  EXPECT_EQ(a.calls, b.calls);
  EXPECT_EQ(a.failures, b.failures);
  EXPECT_EQ(a.tool_reward, b.tool_reward);
  EXPECT_EQ(a.reward, b.reward);
  EXPECT_EQ(a.score, b.score);
}

TEST(environments, a_user_is_asked_again_when_a_response_is_resumed_and_tools_are_not_called) {
  const std::string call =
      "<tool_call>\n{\"name\": \"echo\", \"arguments\": {\"text\": \"hm\"}}\n</tool_call><|im_end|>";
  const std::vector<turn_reply> answers{{"No.", false, 0.5, {}}, {"Yes!", true, 1, {}}};
  int calls = 0;
  const toolbox counted([&](const tool_request& r) {
    ++calls;
    return use(r);
  });
  scripted_environment first(environment::kind::user, answers);
  one_talk talk;
  talk.row.tools = {counted.at("echo")};
  talk.lead(first, {call, "41<|im_end|>", "42<|im_end|>"});
  const one_talk whole = talk;
  ASSERT_EQ(talk.response.context.size(), 2U);
  paused_talk p(talk,
                {.assistant_turns = 2, .user_turns = 2, .calls = 1, .tool_reward = 0.25, .reward = 0.5, .score = 0.5},
                R"([["hm"], "No."])", {0, 0.5});
  scripted_environment second(environment::kind::user, answers);
  p.resume(second);
  expect_same(talk.record, whole.record);
  EXPECT_EQ(talk.turn_rewards, whole.turn_rewards);
  EXPECT_EQ(calls, 1);
  ASSERT_EQ(second.asked.size(), first.asked.size());
  for (std::size_t i = 0; i < first.asked.size(); ++i) {
    EXPECT_EQ(second.asked[i].messages, first.asked[i].messages);
    EXPECT_EQ(second.asked[i].number, first.asked[i].number);
  }
  EXPECT_EQ(second.closed.size(), 1U);
  scripted_environment other(environment::kind::user, {{"Not quite.", false, 0.5, {}}});
  EXPECT_THAT(thrown_by([&] { p.resume(other); }),
              HasSubstr("row 5, turn 1: the user answers something else when it is asked again"));
  scripted_environment broken(environment::kind::user, {{"throw", false, 0, {}}});
  EXPECT_THAT(thrown_by([&] { p.resume(broken); }), HasSubstr("row 5, turn 1: the agent is broken"));
  scripted_environment agent(environment::kind::agent, answers);
  EXPECT_THAT(thrown_by([&] { p.resume(agent); }), HasSubstr("with another agent or user, or with tools alone"));
  for (const char* replies : {"", "[]", "{}", R"([["hm"], 7])"}) {
    p.paused.replies = replies;
    EXPECT_THAT(thrown_by([&] { p.resume(second); }), HasSubstr("with another agent or user, or with tools alone"));
  }
}

TEST(environments, an_agent_is_asked_again_when_a_response_is_resumed) {
  const std::string question = "one two three four five";
  const std::vector<turn_reply> answers{{" more", false, 0.5, 3, {{"tries", 1}}}, {"", true, 1, {}}};
  scripted_environment first(environment::kind::agent, answers, question);
  one_talk talk;
  talk.settings.max_prompt_length = 3, talk.settings.zero_on_failure = true;
  talk.lead(first, {" 41<|im_end|>", " 42<|im_end|>"});
  ASSERT_EQ(talk.shown.size(), 3U);
  const one_talk whole = talk;
  paused_talk p(talk, {.assistant_turns = 1, .user_turns = 1, .reward = 0.5, .score = 3}, R"([" more"])", {0.5},
                R"({"tries":1.0})");
  scripted_environment second(environment::kind::agent, answers, question);
  p.resume(second);
  expect_same(talk.record, whole.record);
  EXPECT_EQ(talk.turn_rewards, whole.turn_rewards);
  EXPECT_EQ(talk.logs, whole.logs);
  EXPECT_EQ(talk.logs, R"({"tries":1.0})");
  EXPECT_EQ(second.asked[1].observation, first.asked[1].observation);
  EXPECT_EQ(second.asked[1].action, " 42");
  scripted_environment elsewhere(environment::kind::agent, answers, "another prompt");
  EXPECT_THAT(thrown_by([&] { p.resume(elsewhere); }), HasSubstr("row 5: the agent gives another prompt"));
}

/// With reward_on_failure=zero: also where it fails only when it is asked again, or cannot be opened then.
TEST(environments, a_resumed_response_whose_agent_fails_has_reward_0) {
  const std::string question = "Say 42.";
  struct unopened final : environment {
    kind what() const override { return kind::agent; }
    std::optional<std::string> open(const turn_request&) override {
      ++opened;
      throw agent::tool_error("no table");
    }
    turn_reply step(const turn_request&) override { return {}; }
    int opened = 0;
  } closed;
  scripted_environment first(environment::kind::agent, {{" more", false, 0.5, {}}, {"", true, 1, {}}}, question);
  one_talk talk;
  talk.settings.zero_on_failure = true;
  talk.lead(first, {" 41<|im_end|>", " 42<|im_end|>"});
  paused_talk p(talk, {.assistant_turns = 1, .user_turns = 1, .reward = 0.5, .score = 0.5}, R"([" more"])", {0.5});
  scripted_environment breaks(environment::kind::agent, {{"throw", false, 0, {}}}, question);
  for (environment* e : {static_cast<environment*>(&breaks), static_cast<environment*>(&closed)}) {
    p.resume(*e);
    EXPECT_EQ(talk.record.failures, 1);
    EXPECT_EQ(talk.record.reward, 0);
    EXPECT_EQ(talk.record.score, 0);
    EXPECT_THAT(talk.turn_rewards, ElementsAre(0.5, -0.5));
  }
  p.paused.record.failures = 1;  // it failed before it paused, and is not opened again
  p.resume(closed);
  EXPECT_EQ(closed.opened, 1);
  EXPECT_EQ(talk.record.failures, 1);
}

TEST(environments, a_failed_answer_leaves_no_score) {
  one_talk talk;
  talk.settings.zero_on_failure = true;
  scripted_environment e(environment::kind::agent, {{"", false, 2, 3}});  // says nothing, but scores
  talk.lead(e, {" 41"});
  EXPECT_EQ(talk.record.reward, 0);
  EXPECT_EQ(talk.record.score, 0);
  EXPECT_EQ(talk.record.failures, 1);
}

TEST(environments, a_limit_of_turns_is_looked_at_before_the_user) {
  scripted_environment e(environment::kind::user, {{"No.", false, 0, {}}});
  one_talk talk;
  talk.settings.max_assistant_turns = 2;
  talk.lead(e, {"41<|im_end|>", "42<|im_end|>"});
  EXPECT_EQ(e.asked.size(), 1U);
  EXPECT_EQ(talk.record.assistant_turns, 2);
  EXPECT_EQ(e.closed.size(), 1U);
}

TEST(environments, ranks_that_draw_together_ask_once) {
  constexpr int ranks = 3;
  scripted_environment e(environment::kind::agent, {{" more", false, 1, {}}, {"", true, 2, {}}}, "Say 42:");
  std::vector<rollout::response> all(ranks);
  std::vector<ids> shown(ranks);
  std::vector<agent::conversation_record> records(ranks);
  parallel::run_ranks(ranks, [&](parallel::thread_rank& rank) {
    parallel::any_communicator_of<parallel::thread_rank&> c(rank);
    const auto me = static_cast<std::size_t>(c.rank());
    conversations talks(
        tokenizer(), nullptr, {.max_response_length = 100, .workers = 1},
        [&](std::uint32_t) { return agent::row_setup{.environment = &e}; }, &c);
    const ids prompt = encoded("?");
    std::vector<rollout::request> requests{{.prompt = prompt}};
    talks.prepare(requests);
    shown[me].assign(requests[0].prompt.begin(), requests[0].prompt.end());
    all[me] = play(talks, requests, {{encoded(" 41"), encoded(" 42")}}, 100)[0];
    records[me] = talks.records()[0];
  });
  EXPECT_EQ(e.asked.size(), 2U);
  EXPECT_EQ(e.closed.size(), 1U);
  for (int r = 0; r < ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    EXPECT_EQ(shown[i], encoded("Say 42:"));
    EXPECT_EQ(all[i].tokens, all[0].tokens);
    EXPECT_EQ(records[i].reward, 3);
  }
}

TEST(environments, answers_of_another_shape_name_what_is_missing) {
  using json = nlohmann::ordered_json;
  const auto refused = [](auto read, const char* answer, const char* text) {
    try {
      read(json::parse(answer));
      ADD_FAILURE() << answer;
    } catch (const agent::tool_broken& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr(text)) << answer;
    }
  };
  const turn_reply reply = agent::read_turn_reply(
      json::parse(R"({"text": "a", "done": true, "reward": -1, "score": null, "logs": {"x": 2, "\u0000": 3}})"));
  EXPECT_EQ(reply.text, "a");
  EXPECT_TRUE(reply.done);
  EXPECT_EQ(reply.reward, -1);
  EXPECT_EQ(reply.score, std::nullopt);
  EXPECT_EQ(reply.logs, (std::map<std::string, double>{{"x", 2}, {std::string(1, '\0'), 3}}));
  EXPECT_EQ(agent::read_turn_reply(json::parse(R"({"text": "", "done": false, "reward": 0, "score": 3})")).score, 3);
  refused(agent::read_turn_reply, R"({"id": 1})", R"(the process answered {"id":1}; expected 'text', a text)");
  refused(agent::read_turn_reply, R"({"text": "a", "done": 1, "reward": 1})", "expected 'done', true or false");
  refused(agent::read_turn_reply, R"({"text": "a", "done": true, "reward": "1"})", "expected 'reward', a number");
  refused(agent::read_turn_reply, R"({"text": "a", "done": true, "reward": 1, "score": []})",
          "expected 'score', a number");
  refused(agent::read_turn_reply, R"({"text": "a", "done": true, "reward": 1, "logs": 1})", "expected 'logs', numbers");
  refused(agent::read_turn_reply, R"({"text": "a", "done": true, "reward": 1, "logs": {"y": "1"}})",
          "expected 'y', a number");
  EXPECT_EQ(agent::read_opening(json::parse(R"({"text": null})")), std::nullopt);
  EXPECT_EQ(agent::read_opening(json::parse(R"({"text": "b"})")), "b");
  refused(agent::read_opening, "{}", "expected 'text', a text or null");
  EXPECT_EQ(agent::read_tool_reply(json::parse(R"({"text": "b", "reward": 0.5})")).reward, 0.5);
  refused(agent::read_tool_reply, R"({"text": "b", "reward": null})", "expected 'reward', a number");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
