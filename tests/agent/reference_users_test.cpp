// Conversations with a simulated user: token for token what verl's own loop makes of the same turns
// (tests/reference/interaction_loop.py). On purpose rlcore differs in this:
//   an answer that ends the conversation, or fills the row, is left out: a row ends with a token of the policy;
//   where an answer fills the row, verl draws once more, no token of which gets into the row, and counts that turn: its
//   num_turns is then greater by one;
//   special tokens that a user spells stay text;
//   a reward that is None is 0;
//   verl 0.7.0 leaves out the template's line end behind <|im_end|>, as rlcore does for it with newline = false, and
//   cuts the other end of a tool's reply than its option names, as verl has not done since 0.8.0.
#include "agent/scripted_environment.hpp"
#include "rlcore/agent/builtin_tools.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace scripted_turns;

constexpr const char* file = "interaction_loop.json";

/// A run of verl 0.7.0, or one that puts the template's line end between turns.
struct verl_run {
  ordered_json json;

  verl_run(const script& s, bool newline) : json(*s.json) {
    if (newline) json.update(s.json->at("newline"));
  }
  template <class T>
  std::vector<T> list(const char* name) const {
    return json.at(name).get<std::vector<T>>();
  }
  /// The response up to the last token of the policy.
  ids tokens() const {
    ids all = list<std::int32_t>("response");
    all.resize(json.at("policy_end").get<std::size_t>());
    return all;
  }
  /// Run lengths of these tokens.
  std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> all = list<std::int64_t>("mask");
    if (all.size() % 2 == 0) all.pop_back();
    return all;
  }
  std::int64_t turns() const { return (std::ssize(lengths()) + 1) / 2; }
  /// Turns of which no token gets into the row.
  std::int64_t turns_without_room() const { return std::ssize(json.at("drawn")) - turns(); }
  /// The messages that each call of generate_response() got.
  std::vector<ordered_json> heard(const ordered_json& prompt) const {
    std::vector<ordered_json> all;
    ordered_json so_far = prompt;
    for (const ordered_json& more : json.at("heard")) {
      so_far.insert(so_far.end(), more.begin(), more.end());
      all.push_back(so_far);
    }
    return all;
  }
};

/// The classes of the reference program, and ours for verl's own.
scripted_environment::answering user_of(const ordered_json& how) {
  if (how.at("name") == "gsm8k")
    return [](const turn_request& r, std::size_t) { return agent::gsm8k_interaction().step(r); };
  if (how.at("name") == "says")
    return [&lines = how.at("lines")](const turn_request&, std::size_t n) {
      const ordered_json& line = lines.at(std::min(n, lines.size() - 1));
      const ordered_json& reward = line.at("reward");
      return turn_reply{line.at("text"), line.at("stop"), reward.is_null() ? 0 : reward.get<double>(), {}};
    };
  return [&how](const turn_request& r, std::size_t n) {  // mirror
    std::string text;
    for (const ordered_json& m : r.messages)
      if (m.at("role") == "assistant") text = m.at("content");
    text = std::to_string(r.messages.size()) + " " + r.messages.back().at("role").get<std::string>() + " " + text;
    return turn_reply{text, n + 1 >= how.at("stop_after"), static_cast<double>(r.messages.size()) / 8, {}};
  };
}

/// As verl 0.7.0 cuts replies.
agent::conversation_settings settings_of(const script& s) {
  agent::conversation_settings settings = s.settings();
  if (settings.cut != agent::cut_side::middle)
    settings.cut = settings.cut == agent::cut_side::left ? agent::cut_side::right : agent::cut_side::left;
  return settings;
}

/// A conversation that is led here, and the user in it.
struct with_user {
  const script& s;
  const ordered_json& how = s.json->at("interaction");
  scripted_environment user{environment::kind::user, user_of(how)};
  std::vector<text::message> messages = s.messages();
  one_talk talk;

  with_user(const script& of, bool newline, bool special)
      : s(of),
        talk{.settings = settings_of(s),
             .replies = replies_of(s.chat(), special, newline),
             .prompt = s.prompt().at("ids").get<ids>()} {
    talk.row = s.tools(talk.tools);
    talk.row.environment_kwargs = &how;
    talk.row.messages = &messages;
    talk.lead_ids(user, s.turns);
  }
  const agent::conversation_record& record() const { return talk.record; }

  /// verl's turn_scores: rewards of the user, but for those that it does not give, which are 0 here.
  std::vector<double> scores() const {
    std::vector<double> given;
    for (std::size_t i = 0; i < user.asked.size(); ++i) {
      const bool says = how.at("name") == "says";
      if (says && how.at("lines").at(std::min(i, how.at("lines").size() - 1)).at("reward").is_null()) continue;
      given.push_back(talk.turn_rewards.at(user.asked[i].number));
    }
    return given;
  }
  std::string why_it_ended() const {
    const agent::conversation_settings& limits = talk.settings;
    const auto reached = [](std::int32_t turns, std::int64_t most) { return most > 0 && turns >= most; };
    const auto last = static_cast<std::uint32_t>(record().assistant_turns - 1);
    if (!user.asked.empty() && user.asked.back().number == last)
      return user.said.back().done ? "terminated" : "length";  // the answer does not fit
    if (std::ssize(talk.response.tokens) >= limits.max_response_length) return "length";
    if (reached(record().assistant_turns, limits.max_assistant_turns)) return "assistant turns";
    return reached(record().user_turns, limits.max_user_turns) ? "user turns" : "no room";
  }
};

void expect_user(const with_user& here, const verl_run& verl) {
  const agent::conversation_record& record = here.record();
  EXPECT_EQ(record.assistant_turns, verl.turns());
  EXPECT_EQ(record.user_turns + record.assistant_turns + 1 + verl.turns_without_room(), verl.json.at("num_turns"));
  EXPECT_EQ(here.scores(), verl.list<double>("turn_scores"));
  double reward = 0, of_tools = 0;
  for (const double x : verl.list<double>("turn_scores")) reward += x;
  for (const double x : verl.list<double>("rewards")) of_tools += x;
  EXPECT_EQ(record.reward, reward);
  EXPECT_EQ(record.tool_reward, of_tools);
  EXPECT_EQ(record.failures, 0);
  std::vector<ordered_json> heard;
  for (const turn_request& r : here.user.asked) heard.push_back(r.messages);
  EXPECT_EQ(heard, verl.heard(here.s.prompt().at("messages")));
  EXPECT_EQ(here.why_it_ended(), verl.json.at("stop"));
  EXPECT_EQ(here.user.opened.size(), 1U);
  EXPECT_EQ(here.user.closed.size(), 1U);
}

TEST(reference_users, prompts_are_those_of_verl) {
  const toolbox tools;
  for (const ordered_json& schema : golden(file).at("tools"))
    EXPECT_EQ(tools.at(schema.at("function").at("name"))->schema(), schema);
  expect_prompts(file);
}

TEST(reference_users, ids_masks_rewards_and_what_the_user_hears_are_those_of_verl) {
  const std::vector<script> all = scripts_of(file);
  EXPECT_EQ(all.size(), 97U);
  std::set<std::string> stops;
  int without_room = 0;
  for (const script& s : all) {
    for (const bool newline : {false, true}) {
      SCOPED_TRACE(s.kind() + (newline ? " with " : " without ") + "newline " + s.json->dump().substr(0, 600));
      const verl_run verl(s, newline);
      const bool special = !s.differs().empty();  // tokens that the user spells, as verl takes them
      const with_user here(s, newline, special);
      EXPECT_EQ(here.talk.response.tokens, verl.tokens());
      EXPECT_EQ(scripted_turns::runs(here.talk.response), verl.lengths());
      expect_user(here, verl);
      stops.insert(here.why_it_ended());
      without_room += verl.turns_without_room() > 0;
      EXPECT_LE(verl.turns_without_room(), 1);
      if (HasFailure()) return;
    }
  }
  EXPECT_THAT(stops, ElementsAre("assistant turns", "length", "no room", "terminated", "user turns"));
  EXPECT_EQ(without_room, 31);
}

TEST(reference_users, special_tokens_that_a_user_spells_stay_text) {
  int seen = 0;
  for (const script& s : scripts_of(file)) {
    if (s.differs().empty()) continue;
    ++seen;
    SCOPED_TRACE(s.chat());
    const verl_run verl(s, true);
    const with_user here(s, true, false);
    EXPECT_EQ(here.talk.texts(), run_texts(verl.tokens(), verl.lengths()));
    EXPECT_NE(here.talk.response.tokens, verl.tokens());
    expect_user(here, verl);
  }
  EXPECT_EQ(seen, 3);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
