// Conversations with an agent: token for token what OpenRLHF's own executor makes of the same turns
// (tests/reference/agent_loop.py). On purpose rlcore differs in this:
//   a response has a budget of its own, of at least one token; OpenRLHF has one for prompt and response;
//   feedback that does not fit, or that comes with `done`, is left out: a row ends with a token of the policy;
//   an agent that says nothing has to be done; OpenRLHF draws on behind the turn's end;
//   the token that ended a turn is never in the text of the turn; in OpenRLHF it depends on include_stop_str_in_output;
//   a prompt that no agent changes comes as tokens, cut by the data set: the agent reads what they decode to.
#include <array>

#include "agent/scripted_environment.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace scripted_turns;

const std::vector<ordered_json>& all_scripts() {
  static const auto all = golden("agent_loop.json").at("scripts").get<std::vector<ordered_json>>();
  return all;
}

std::string with(std::string text, const std::string& name, const std::string& value) {
  for (std::size_t at = 0; (at = text.find(name, at)) != text.npos; at += value.size())
    text.replace(at, name.size(), value);
  return text;
}

/// A row as OpenRLHF makes it.
struct openrlhf_row {
  const ordered_json& json;
  std::vector<ids> turns = json.at("turns").get<std::vector<ids>>();
  ids tokens = json.at("tokens").get<ids>(), prompt_ids = json.at("prompt_ids").get<ids>();
  std::vector<std::array<std::int64_t, 2>> actions = json.at("actions").get<std::vector<std::array<std::int64_t, 2>>>();
  std::vector<std::array<std::string, 2>> steps = json.at("steps").get<std::vector<std::array<std::string, 2>>>();
  bool include_stop = json.at("include_stop");

  std::string label() const { return json.at("label"); }
  /// What reset() makes of the prompt; none: the prompt as it is.
  std::optional<std::string> observation() const {
    const ordered_json& agent = json.at("agent");
    if (!agent.contains("observation")) return {};
    return with(with(agent.at("observation"), "{prompt}", json.at("prompt")), "{label}", label());
  }
  /// The tokens before the first turn.
  std::int64_t prompt_length() const { return actions[0][0]; }
  ids prompt() const { return ids(tokens.begin(), tokens.begin() + prompt_length()); }
  /// From the first token of the policy to its last one.
  ids response() const { return ids(tokens.begin() + prompt_length(), tokens.begin() + actions.back()[1]); }
  std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> all;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (i > 0) all.push_back(actions[i][0] - actions[i - 1][1]);
      all.push_back(actions[i][1] - actions[i][0]);
    }
    return all;
  }
  bool ended(std::size_t turn) const {
    const std::int32_t last = tokens[static_cast<std::size_t>(actions[turn][1] - 1)];
    return last == end_mark() || last == *tokenizer().id_of("<|endoftext|>");
  }
  /// The token that ended a turn, if its text has it.
  std::string end_in_text(std::size_t turn) const {
    if (!include_stop || !ended(turn)) return "";
    return std::string(tokenizer().token_of(tokens[static_cast<std::size_t>(actions[turn][1] - 1)]));
  }
  /// True for a prompt that no agent changes and that is no normal form: rlcore knows its tokens alone.
  bool begins_as_data() const {
    return !observation() && prompt() == prompt_ids && tokenizer().decode(prompt_ids) != json.at("prompt");
  }
  /// What each step() reads, without the tokens that ended turns.
  std::vector<std::array<std::string, 2>> read() const {
    std::vector<std::array<std::string, 2>> all;
    std::string so_far = begins_as_data() ? tokenizer().decode(prompt_ids) : steps[0][0];
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::string& shown = steps[i][1];
      all.push_back({so_far, shown.substr(0, shown.size() - end_in_text(i).size())});
      if (i + 1 < steps.size()) so_far += all[i][1] + steps[i + 1][0].substr(steps[i][0].size() + shown.size());
    }
    return all;
  }
};

/// The reference program's agent.
scripted_environment::answering agent_of(const openrlhf_row& row) {
  return [&row](const turn_request& r, std::size_t n) {
    const ordered_json &agent = row.json.at("agent"), &replies = agent.at("replies");
    const ordered_json& reply = replies.at(std::min(n, replies.size() - 1));
    const std::string action = r.action + row.end_in_text(n);
    const bool found = agent.value("stop_at_label", false) && action.find(r.label) != action.npos;
    turn_reply answer;
    answer.text = with(with(reply.at("feedback"), "{label}", r.label), "{action}", action);
    answer.done = found || reply.at("done").get<bool>();
    answer.reward = static_cast<double>(found ? 1.0F : reply.at("reward").get<float>());
    if (reply.contains("score")) answer.score = reply.at("score").get<double>();
    answer.logs = {{"steps", static_cast<double>(n + 1)}};
    return answer;
  };
}

/// The conversation here. `observation`: another prompt, if the agent gives one.
struct with_agent {
  scripted_environment played;
  one_talk talk;

  with_agent(const openrlhf_row& row, std::optional<std::string> observation)
      : played(environment::kind::agent, agent_of(row), std::move(observation)) {
    const ordered_json& turn = row.json.at("max_new_tokens");
    const std::int64_t most = row.json.at("max_length");
    talk.settings.max_prompt_length = most - (turn.is_null() ? 1 : turn.get<std::int64_t>());
    talk.settings.max_response_length = most - row.prompt_length();
    talk.row.label = row.label();
    talk.prompt = row.prompt_ids;
  }
};

void expect_agent(const openrlhf_row& row, with_agent& here) {
  here.talk.lead_ids(here.played, row.turns);
  const agent::conversation_record& record = here.talk.record;
  EXPECT_EQ(here.talk.shown, row.prompt());
  EXPECT_EQ(here.talk.response.tokens, row.response());
  EXPECT_EQ(scripted_turns::runs(here.talk.response), row.lengths());
  EXPECT_EQ(record.assistant_turns, std::ssize(row.actions));
  EXPECT_EQ(record.user_turns, std::ssize(row.actions) - 1);
  EXPECT_EQ(record.reward, row.json.at("reward").get<double>());
  EXPECT_EQ(record.score, row.json.at("scores").get<double>());
  EXPECT_EQ(ordered_json::parse(here.talk.logs), row.json.at("extra_logs"));
  std::vector<std::array<std::string, 2>> read;
  for (const turn_request& r : here.played.asked) {
    read.push_back({r.observation, r.action});
    EXPECT_EQ(r.label, row.label());
  }
  EXPECT_EQ(read, row.read());
  EXPECT_EQ(here.played.closed.size(), 1U);
}

TEST(reference_agents, ids_actions_rewards_and_what_the_agent_reads_are_those_of_openrlhf) {
  EXPECT_EQ(all_scripts().size(), 81U);
  std::map<std::string, int> differ;
  for (const ordered_json& json : all_scripts()) {
    const openrlhf_row row{json};
    SCOPED_TRACE(json.dump().substr(0, 600));
    EXPECT_EQ(encoded(json.at("prompt")), row.prompt_ids);
    if (row.actions.empty()) {
      ++differ["no room"];  // the prompt has all of max_length
      continue;
    }
    std::optional<std::string> observation = row.observation();
    const bool cut = !observation && row.prompt_length() < std::ssize(row.prompt_ids);
    if (cut) observation = json.at("prompt");
    with_agent here(row, observation);
    if (cut) here.talk.prompt = encoded("as if the agent had changed this one");
    differ["cut"] += cut;
    differ["end in the text"] += row.include_stop;
    differ["no normal form"] += row.begins_as_data();
    if (json.at("kind") == "feedback: empty") {
      ++differ["empty feedback"];
      EXPECT_THAT(thrown_by([&] { here.talk.lead_ids(here.played, row.turns); }), HasSubstr("the agent says nothing"));
      continue;
    }
    expect_agent(row, here);
    if (HasFailure()) return;
  }
  EXPECT_EQ(differ,
            (std::map<std::string, int>{
                {"no room", 1}, {"cut", 7}, {"end in the text", 12}, {"empty feedback", 1}, {"no normal form", 2}}));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
