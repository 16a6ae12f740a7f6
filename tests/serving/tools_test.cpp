// Calls of tools and thoughts in answers, whole and in pieces.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rlcore/serving/service.hpp"
#include "rlcore/serving/text_stream.hpp"
#include "serving/scripted_engine.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::serving;

struct parsed {
  std::string content;
  std::vector<called_tool> calls;
};
/// In pieces of `step` bytes.
parsed parse(const std::string& text, std::size_t step) {
  tool_call_parser p;
  parsed all;
  for (std::size_t at = 0; at <= text.size(); at += step) {
    auto [content, calls] = p.push(text.substr(at, step), at + step > text.size());
    all.content += content;
    all.calls.insert(all.calls.end(), calls.begin(), calls.end());
  }
  return all;
}

TEST(tool_calls, are_found_however_the_text_is_cut) {
  const std::string text =
      "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\", \"days\": "
      "2}}\n</tool_call>\n"
      "<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>";
  for (std::size_t step = 1; step <= text.size() + 1; ++step) {
    const parsed p = parse(text, step);
    EXPECT_EQ(p.content, "Let me see.\n");
    ASSERT_EQ(p.calls.size(), 2u) << step;
    EXPECT_EQ(p.calls[0].name, "weather");
    EXPECT_EQ(p.calls[0].arguments, R"({"city": "Köln", "days": 2})");
    EXPECT_EQ(p.calls[1].name, "time");
  }
}

/// As vLLM's Hermes parser writes them, but null, which models write for tools without parameters: no arguments.
TEST(tool_calls, arguments_are_always_json) {
  const auto arguments = [](const std::string& written) {
    return parse("<tool_call>{\"name\": \"f\", \"arguments\": " + written + "}</tool_call>", 7).calls.at(0).arguments;
  };
  EXPECT_EQ(arguments("null"), "{}");
  EXPECT_EQ(arguments("[1]"), "[1]");
  EXPECT_EQ(arguments(R"("Oslo")"), R"("Oslo")");
  EXPECT_EQ(arguments(R"("{\"city\": \"Oslo\"}")"), R"({"city": "Oslo"})");
}

TEST(tool_calls, a_block_that_is_no_call_stays_text) {
  for (const char* text : {"a <tool_call>not json</tool_call> b", "a <tool_call>{\"arguments\": {}}</tool_call>",
                           "a <tool_call>", "a <tool_", "<tool_call>{\"name\": 3}"})
    for (std::size_t step : {std::size_t{1}, std::size_t{5}, std::size_t{100}}) {
      const parsed p = parse(text, step);
      EXPECT_EQ(p.content, text);
      EXPECT_TRUE(p.calls.empty());
    }
}

TEST(tool_calls, the_last_block_may_lack_its_end) {
  EXPECT_EQ(parse("<tool_call>{\"name\": \"f\", \"arguments\": {}}", 3).calls.size(), 1u);
}

split_text split(reasoning_form form, const std::string& text, std::size_t step) {
  reasoning_splitter s(form);
  split_text all;
  for (std::size_t at = 0; at <= text.size(); at += step) {
    const split_text piece = s.push(text.substr(at, step), at + step > text.size());
    all.reasoning += piece.reasoning, all.content += piece.content;
  }
  return all;
}

TEST(reasoning, is_what_stands_before_the_closing_tag) {
  for (std::size_t step = 1; step < 40; ++step) {
    const split_text q = split(reasoning_form::qwen3, "<think>\nhm</think>\n\nYes.", step);
    EXPECT_EQ(q.reasoning, "\nhm");
    EXPECT_EQ(q.content, "\n\nYes.");
    EXPECT_EQ(split(reasoning_form::qwen3, "No </think> tag.", step).content, "No </think> tag.");
    EXPECT_EQ(split(reasoning_form::qwen3, "<thin", step).content, "<thin");
    const split_text r = split(reasoning_form::deepseek_r1, "hm</think>Yes.", step);
    EXPECT_EQ(r.reasoning, "hm");
    EXPECT_EQ(r.content, "Yes.");
    EXPECT_EQ(split(reasoning_form::deepseek_r1, "<think>never ends", step).reasoning, "never ends");
    EXPECT_EQ(split(reasoning_form::none, "<think>a</think>b", step).content, "<think>a</think>b");
  }
}

TEST(reasoning, unknown_forms_are_refused) { EXPECT_THROW(reasoning_form_of("qwen4"), rlcore::config_error); }

const std::string request = R"({"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}])";

TEST(tool_calls, become_part_of_the_message) {
  scripted::house h;
  h.model.max_length = 4096;
  h.model.features.tool_calls = true;
  h.model.reasoning = reasoning_form::qwen3;
  h.engine.script = [](const auto&) {
    return scripted::tokenizer().encode(
        "<think>a</think>see<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</tool_call>");
  };
  service s(h.shared);
  const json body = json::parse(s({"POST", "/v1/chat/completions", request + "}", "application/json"}).body);
  const json& choice = body["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "see");
  EXPECT_EQ(choice["message"]["reasoning_content"], "a");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  const json& call = choice["message"]["tool_calls"][0];
  EXPECT_TRUE(call["id"].get<std::string>().starts_with("chatcmpl-tool-"));
  EXPECT_EQ(call["function"], json::parse(R"({"name": "f", "arguments": "{\"x\": 1}"})"));
  EXPECT_NE(rlcore::serving::served_model(h.model).tokenizer.decode(h.engine.seen[0].prompt).find("<tools>"),
            std::string::npos);

  json deltas = json::array();
  s({"POST", "/v1/chat/completions", request + R"(, "stream": true})", "application/json"})
      .stream([&](std::string_view e) {
        if (!e.starts_with("data: [DONE]")) deltas.push_back(json::parse(e.substr(6))["choices"][0]);
        return true;
      });
  EXPECT_EQ(deltas.back()["finish_reason"], "tool_calls");
  int calls = 0;
  for (const json& d : deltas)
    if (d["delta"].contains("tool_calls")) {
      ++calls;
      EXPECT_EQ(d["delta"]["tool_calls"][0]["index"], 0);
      EXPECT_EQ(d["delta"]["tool_calls"][0]["function"]["arguments"], R"({"x": 1})");
    }
  EXPECT_EQ(calls, 1);
}

TEST(tool_calls, of_earlier_turns_are_objects_to_the_template) {
  scripted::house h;
  service s(h.shared);
  const auto r = s({"POST", "/v1/chat/completions",
                    R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": null,
      "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": [1]}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "42"}]})",
                    "application/json"});
  ASSERT_EQ(r.status, 200) << r.body;
  const std::string prompt = scripted::tokenizer().decode(h.engine.seen[0].prompt);
  EXPECT_NE(prompt.find(R"({"name": "f", "arguments": {"x": [1]}})"), prompt.npos) << prompt;
  EXPECT_NE(prompt.find("<tool_response>\n42\n</tool_response>"), prompt.npos) << prompt;
}

/// An agent sends back what the server has written: calls of any arguments, and thoughts.
TEST(tool_calls, the_servers_own_answers_are_taken_back) {
  scripted::house h;
  service s(h.shared);
  for (const char* arguments : {"{}", "null", "[1]", R"(\"Oslo\")"}) {
    const auto r = s({"POST", "/v1/chat/completions",
                      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": null,
      "reasoning_content": "hm", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": ")" +
                          std::string(arguments) + R"("}}]}, {"role": "tool", "tool_call_id": "1", "content": "42"}]})",
                      "application/json"});
    EXPECT_EQ(r.status, 200) << arguments << r.body;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
