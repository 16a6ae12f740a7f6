// The tool-calling loop: token for token what verl's own loop makes of the same turns (tests/reference/tool_loop.py).
#include "agent/scripted_turns.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace scripted_turns;

TEST(conversations, prompts_are_those_of_verl) {
  expect_prompts("tool_loop.json");
  expect_prompts("tool_loop_random.json");
}

/// Leads all of `those` that differ in nothing; returns why they ended.
std::set<std::string> expect_all(const std::vector<script>& those) {
  std::set<std::string> stops;
  for (const script& s : those) {
    if (!s.differs().empty()) continue;
    SCOPED_TRACE(s.kind() + " " + s.json->dump().substr(0, 400));
    const played p = lead(s);
    expect_golden(s, p.responses[0], p.records[0]);
    EXPECT_EQ(p.records[0].failures + p.unknown, s.json->value("failures", 0));
    stops.insert(s.json->value("stop", "single turn"));
    if (testing::Test::HasFailure()) break;
  }
  return stops;
}

TEST(conversations, ids_masks_and_turns_are_those_of_verl) {
  EXPECT_EQ(scripts().size() + random_scripts().size(), 1000U);
  const auto every_stop = ElementsAre("assistant turns", "length", "no call", "no room", "single turn", "user turns");
  EXPECT_THAT(expect_all(scripts()), every_stop);
  EXPECT_THAT(expect_all(random_scripts()), every_stop);
}

TEST(conversations, differ_from_verl_only_where_it_is_meant) {
  int seen = 0;
  for (const script& s : scripts()) {
    if (s.differs().empty()) continue;
    SCOPED_TRACE(s.kind() + " " + s.json->dump().substr(0, 400));
    ++seen;
    const played p = lead(s);
    const rollout::response& r = p.responses[0];
    if (s.kind() == "no tools") {  // verl parses the turn and answers that the tool is unknown
      EXPECT_EQ(r.tokens, s.turns[0]);
      EXPECT_EQ(p.records[0].calls, 0);
      continue;
    }
    const auto lengths = s.json->at("mask").get<std::vector<std::int64_t>>();
    std::vector<std::string> expected = run_texts(s.json->at("response").get<ids>(), lengths);
    for (std::size_t i = 1; i < expected.size(); i += 2) expected[i] = as_here(s, expected[i]);
    EXPECT_EQ(run_texts(r.tokens, scripted_turns::runs(r)), expected);
    EXPECT_EQ(p.records[0].user_turns + p.records[0].assistant_turns + 1, s.json->at("num_turns"));
    if (s.kind() != "special tokens in a reply") continue;
    EXPECT_NE(r.tokens, s.json->at("response").get<ids>());  // the same text without forged tokens
    const played as_verl = lead(s, true);
    expect_golden(s, as_verl.responses[0], as_verl.records[0]);
  }
  EXPECT_GE(seen, 20);
}

TEST(conversations, an_unknown_tool_is_answered_by_the_names_of_those_there_are) {
  int seen = 0;
  for (const script& s : scripts()) {
    if (s.kind() != "unknown tools" && s.kind() != "selection") continue;
    if (s.replies().empty()) continue;
    ++seen;
    const played p = lead(s, false, false);
    const auto texts = run_texts(p.responses[0].tokens, scripted_turns::runs(p.responses[0]));
    const std::string name = s.replies().begin().key();
    std::string names;
    for (const ordered_json& known : s.prompt().at("tools"))
      names += (names.empty() ? "" : ", ") + known.get<std::string>();
    const std::string answer =
        "Error executing tool '" + name + "': there is no tool of this name; the tools are: " + names;
    EXPECT_TRUE(std::ranges::any_of(texts, [&](const std::string& t) { return t.find(answer) != t.npos; }))
        << testing::PrintToString(texts);
    EXPECT_EQ(p.records[0].failures, s.json->at("failures"));
    EXPECT_EQ(p.records[0].user_turns + p.records[0].assistant_turns + 1, s.json->at("num_turns"));
  }
  EXPECT_EQ(seen, 6);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
