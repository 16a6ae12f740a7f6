// The tool-calling loop: whenever replies arrive, on one rank or on several.
#include "agent/scripted_turns.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace scripted_turns;

/// Scripts that can be led at the same time.
std::vector<std::vector<const script*>> companies() {
  std::map<std::string, std::vector<const script*>> by_company;
  for (const script& s : scripts())
    if (s.differs().empty()) by_company[s.company()].push_back(&s);
  std::vector<std::vector<const script*>> all;
  for (auto& [name, together] : by_company) all.push_back(std::move(together));
  return all;
}

/// The tools, late by a time that differs from call to call.
function late(random_key key) {
  return [key](const tool_request& r) {
    std::this_thread::sleep_for(std::chrono::microseconds(key.child(r.row).below(1000, r.number)));
    return use(r);
  };
}

TEST(conversations, late_replies_in_any_order_change_no_token) {
  std::size_t largest = 0;
  for (const auto& together : companies()) {
    largest = std::max(largest, together.size());
    for (const std::int64_t workers : {1, 2, 8}) {
      const played p = lead(together, workers, late(random_key{static_cast<std::uint64_t>(workers)}));
      for (std::size_t i = 0; i < together.size(); ++i) {
        SCOPED_TRACE(together[i]->kind() + ", " + std::to_string(workers) + " workers");
        expect_golden(*together[i], p.responses[i], p.records[i]);
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(largest, 20U);
}

/// A turn that calls a tool with a text, or says something.
ids turn(const std::string& text) {
  ids said = tokenizer().encode(text);
  said.push_back(end_mark());
  return said;
}
std::string calling(const std::string& text) {
  const ordered_json call{{"name", "echo"}, {"arguments", {{"text", text}}}};
  return "<tool_call>\n" + call.dump() + "\n</tool_call>";
}
ids echo(const std::string& text) { return turn(calling(text)); }

/// Conversations with one tool, `echo`, that `f` runs.
struct one_tool {
  toolbox tools;
  agent::reply_tokens replies = replies_of("qwen2.5");
  explicit one_tool(const function& f) : tools(f) {}
  std::function<agent::row_setup(std::uint32_t)> of_row() {
    return [this](std::uint32_t) { return agent::row_setup{{tools.at("echo")}}; };
  }
};
constexpr agent::conversation_settings plain{.max_response_length = 1000};

TEST(conversations, a_broken_tool_ends_the_run_or_becomes_text) {
  one_tool broken([](const tool_request& r) -> tool_reply {
    if (r.arguments.at("text") == "broken") throw error("the host is gone");
    if (r.arguments.at("text") == "failed") throw agent::tool_error("no such page");
    return {"fine"};
  });
  const std::vector<rollout::request> requests(1);
  const std::vector<std::vector<ids>> lines{{echo("failed"), echo("fine"), echo("broken"), turn("42")}};
  agent::conversation_settings settings = plain;
  settings.failures_as_text = false;
  conversations ends(tokenizer(), &broken.replies, settings, broken.of_row());
  EXPECT_EQ(thrown_by([&] { play(ends, requests, lines, 1000); }), "the host is gone");

  conversations goes_on(tokenizer(), &broken.replies, plain, broken.of_row());
  const rollout::response r = play(goes_on, requests, lines, 1000)[0];
  const auto texts = run_texts(r.tokens, scripted_turns::runs(r));
  ASSERT_EQ(texts.size(), 7U);
  EXPECT_THAT(texts[1], HasSubstr("\n<tool_response>\nError executing tool 'echo': no such page\n</tool_response>"));
  EXPECT_THAT(texts[3], HasSubstr("\n<tool_response>\nfine\n</tool_response>"));
  EXPECT_THAT(texts[5],
              HasSubstr("\n<tool_response>\nError executing tool 'echo': the host is gone\n</tool_response>"));
  EXPECT_EQ(goes_on.records()[0].failures, 2);
  EXPECT_EQ(goes_on.records()[0].calls, 3);
}

TEST(conversations, three_hundred_at_once_end) {
  std::atomic<int> running = 0, most = 0;
  one_tool slow([&](const tool_request& r) -> tool_reply {
    for (int now = ++running, seen = most; now > seen && !most.compare_exchange_weak(seen, now);) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(random_key{5}.child(r.row).below(500, r.number)));
    --running;
    return {r.arguments.at("text").get<std::string>(), 1};
  });
  std::vector<rollout::request> requests(300);
  std::vector<std::vector<ids>> lines(300);
  for (std::uint32_t i = 0; i < 300; ++i) {
    requests[i].prompt_number = i;
    for (std::uint32_t k = 0; k < i % 7; ++k) lines[i].push_back(echo(std::to_string(i * 10 + k)));
    lines[i].push_back(turn("the answer"));
  }
  conversations turns(tokenizer(), &slow.replies, plain, slow.of_row());
  const auto responses = play(turns, requests, lines, 1000);
  for (std::uint32_t i = 0; i < 300; ++i) {
    ASSERT_EQ(responses[i].context.size(), i % 7) << i;
    ASSERT_EQ(turns.records()[i].tool_reward, i % 7) << i;
    const auto texts = run_texts(responses[i].tokens, scripted_turns::runs(responses[i]));
    for (std::uint32_t k = 0; k < i % 7; ++k)
      ASSERT_THAT(texts[2 * k + 1], HasSubstr("\n" + std::to_string(i * 10 + k) + "\n")) << i;
  }
  EXPECT_LE(most, 8);
  EXPECT_GE(most, 2);
}

TEST(conversations, end_with_calls_whose_replies_are_not_taken) {
  std::atomic<int> started = 0;
  one_tool slow([&](const tool_request&) -> tool_reply {
    ++started;
    std::this_thread::sleep_for(30ms);
    return {"late"};
  });
  agent::conversation_settings settings = plain;
  settings.workers = 2;
  {
    conversations turns(tokenizer(), &slow.replies, settings, slow.of_row());
    const std::vector<rollout::request> requests(60);
    turns.begin(requests);
    rollout::response r;
    r.tokens = echo("x");
    for (std::size_t i = 0; i < requests.size(); ++i) turns.end_turn(i, r, 0);
    EXPECT_FALSE(turns.next(false));
  }
  EXPECT_LT(started, 60);
}

TEST(conversations, tools_see_where_they_are_called_and_records_count_what_happened) {
  std::mutex mutex;
  std::vector<std::vector<std::uint32_t>> places;
  one_tool some([&](const tool_request& r) -> tool_reply {
    std::this_thread::sleep_for(2ms);
    const std::lock_guard lock(mutex);
    places.push_back({r.row, r.sample, r.number});
    if (r.arguments.at("text") == "fail") throw agent::tool_error("no");
    return {"ok", 0.5};
  });
  const std::vector<rollout::request> requests{{.prompt = {}, .prompt_number = 7, .sample = 1},
                                               {.prompt = {}, .prompt_number = 9, .sample = 3}};
  const std::string broken = "<tool_call>\nno json\n</tool_call>";
  const ids both = turn(calling("a") + broken + calling("fail"));
  agent::conversation_settings settings = plain;
  settings.max_parallel_calls = 2, settings.workers = 1;
  conversations turns(tokenizer(), &some.replies, settings, some.of_row());
  play(turns, requests, {{both, echo("b"), turn("42")}, {turn(broken)}}, 1000);
  play(turns, std::span(requests).last(1), {{echo("c"), turn("42")}}, 1000);  // a second call of generate()
  std::ranges::sort(places);
  EXPECT_EQ(places, (std::vector<std::vector<std::uint32_t>>{{7, 1, 0}, {7, 1, 1}, {7, 1, 2}, {9, 3, 0}}));
  ASSERT_EQ(turns.records().size(), 3U);
  const auto numbers = [&](std::size_t i) {
    const agent::conversation_record& r = turns.records()[i];
    return std::vector{r.assistant_turns, r.user_turns, r.calls, r.failures, r.unread};
  };
  EXPECT_THAT(numbers(0), ElementsAre(3, 2, 3, 1, 1));
  EXPECT_THAT(numbers(1), ElementsAre(1, 0, 0, 0, 1));
  EXPECT_THAT(numbers(2), ElementsAre(2, 1, 1, 0, 0));
  EXPECT_EQ(turns.records()[0].tool_reward, 1);
  EXPECT_GE(turns.records()[0].seconds, 0.006);
  EXPECT_EQ(turns.records()[1].seconds, 0);
  EXPECT_GE(turns.records()[2].seconds, 0.002);
}

TEST(conversations, of_a_group_of_ranks_run_tools_on_the_first_alone) {
  for (const auto& together : companies()) {
    if (together.size() < 4) continue;
    std::vector<played> all(3);
    std::atomic<int> elsewhere = 0;
    parallel::run_ranks(
        3,
        [&](parallel::thread_rank& rank) {
          parallel::any_communicator_of<parallel::thread_rank&> c(rank);
          const function f = rank.rank() == 0 ? late(random_key{3}) : [&](const tool_request& r) {
            ++elsewhere;
            return use(r);
          };
          all[static_cast<std::size_t>(rank.rank())] = lead(together, 4, f, false, &c);
        },
        1min);
    EXPECT_EQ(elsewhere + all[1].unknown + all[2].unknown, 0);
    for (const played& p : all)
      for (std::size_t i = 0; i < together.size(); ++i) {
        SCOPED_TRACE(together[i]->kind());
        expect_golden(*together[i], p.responses[i], p.records[i]);
        EXPECT_EQ(p.records[i].seconds, all[0].records[i].seconds);
        EXPECT_EQ(p.records[i].failures, all[0].records[i].failures);
        EXPECT_EQ(p.responses[i].context, all[0].responses[i].context);
      }
    if (HasFailure()) return;
  }
}

TEST(conversations, of_a_group_of_ranks_end_together) {
  const auto run = [] {
    parallel::run_ranks(
        3,
        [](parallel::thread_rank& rank) {
          parallel::any_communicator_of<parallel::thread_rank&> c(rank);
          one_tool broken([](const tool_request&) -> tool_reply { throw error("the host is gone"); });
          agent::conversation_settings settings = plain;
          settings.failures_as_text = false;
          conversations turns(tokenizer(), &broken.replies, settings, broken.of_row(), &c);
          const std::vector<rollout::request> requests(2);
          play(turns, requests, {{turn("42")}, {echo("x"), turn("42")}}, 1000);
        },
        1min);
  };
  EXPECT_EQ(thrown_by(run), "the host is gone");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
