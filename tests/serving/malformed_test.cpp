// Requests that are refused: the status and what the client is told. Nothing of them reaches the engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rlcore/serving/service.hpp"
#include "serving/scripted_engine.hpp"
#include "support/cpu_time.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace serving = rlcore::serving;
using testing::HasSubstr;

struct refused {
  const char* body;
  int status;
  const char* message;
};

const std::string completions = "/v1/completions", chat = "/v1/chat/completions";

void expect_refused(const std::string& path, const refused& r, const std::string& type = "application/json") {
  scripted::house h;
  serving::service s(h.shared);
  const serving::http_response got = s({"POST", path, r.body, type});
  EXPECT_EQ(got.status, r.status) << r.body;
  const auto body = serving::json::parse(got.body);
  EXPECT_THAT(body["error"]["message"].get<std::string>(), HasSubstr(r.message)) << r.body;
  EXPECT_EQ(body["error"]["code"], r.status);
  EXPECT_TRUE(body["error"]["param"].is_null());
  EXPECT_THAT(got.reason, HasSubstr(r.message)) << "the status line says it, too";
  EXPECT_TRUE(h.engine.seen.empty()) << r.body;
}

TEST(malformed, bodies_that_are_no_object) {
  for (const refused& r : std::vector<refused>{
           {"", 400, "the body is empty"},
           {" \n", 400, "the body is empty"},
           {"prompt=x", 400, "not valid JSON"},
           {"{\"prompt\":", 400, "not valid JSON"},
           {"{\"prompt\": \"\xff\"}", 400, "not valid JSON in UTF-8"},
           {"[]", 400, "the body is a JSON array"},
           {"\"text\"", 400, "the body is a JSON string"},
           {"{\"prompt\": \"x\", \"temperature\": 1e400}", 400, "out of range"},
           {"{\"prompt\": \"x\", \"temperature\": NaN}", 400, "not valid JSON"},
       })
    expect_refused(completions, r);
}

TEST(malformed, deep_and_wide_bodies) {
  const std::string deep = std::string(65, '[') + std::string(65, ']');
  expect_refused(completions, {("{\"prompt\": " + deep + "}").c_str(), 400, "nested deeper than 64"});
  const std::string deeper(2000000, '[');
  expect_refused(completions, {deeper.c_str(), 400, "nested deeper than 64"});
  std::string wide = "{\"a0\": 0";
  for (int i = 1; i < 1100; ++i) wide += ", \"a" + std::to_string(i) + "\": 0";
  expect_refused(completions, {(wide + "}").c_str(), 400, "more than 1024 members"});
}

TEST(malformed, long_lists_are_read_in_linear_time) {
  const auto list_of = [](int members) {
    std::string body = "{\"metadata\": [{}";
    for (int i = 1; i < members; ++i) body += ",{}";
    return body + "]}";
  };
  const auto seconds_to_parse = [](const std::string& body) {
    const double began = cpu_seconds();
    serving::parse_body(body);
    return cpu_seconds() - began;
  };
  seconds_to_parse(list_of(1000));
  const double half = seconds_to_parse(list_of(15000)), whole = seconds_to_parse(list_of(30000));
  EXPECT_LT(whole, 3 * half + 0.01);
}

TEST(malformed, content_type_has_to_be_json) {
  expect_refused(completions, {"{}", 400, "expected Content-Type: application/json"}, "text/plain");
  expect_refused(chat, {"{}", 400, "expected Content-Type: application/json"}, "");
  scripted::house h;
  serving::service s(h.shared);
  EXPECT_EQ(s({"POST", completions, R"({"prompt": "x"})", "Application/JSON; charset=utf-8"}).status, 200);
}

TEST(malformed, prompts) {
  for (const refused& r : std::vector<refused>{
           {"{}", 400, "prompt: expected a string or a list, found none"},
           {R"({"prompt": null})", 400, "prompt: expected a string or a list"},
           {R"({"prompt": ""})", 400, "prompt: a prompt is empty"},
           {R"({"prompt": []})", 400, "prompt: the list is empty"},
           {R"({"prompt": ["x", ""]})", 400, "prompt: a prompt is empty"},
           {R"({"prompt": [[1], []]})", 400, "prompt: a prompt is empty"},
           {R"({"prompt": 7})", 400, "prompt: expected a string"},
           {R"({"prompt": ["x", [1]]})", 400, "found both"},
           {R"({"prompt": [1, "x"]})", 400, "prompt: expected a whole number"},
           {R"({"prompt": [1.5]})", 400, "prompt: expected a whole number"},
           {R"({"prompt": [-1]})", 400, "-1 is no token id"},
           {R"({"prompt": [100000]})", 400, "token id 100000 is out of vocabulary"},
           {R"({"prompt": "x", "model": "llama"})", 404, "The model `llama` does not exist."},
           {R"({"prompt": "x", "model": 3})", 400, "model: expected a string, found number"},
           {R"({"prompt": "x", "max_tokens": 600})", 400, "'max_tokens' or 'max_completion_tokens' is too large: 600"},
           {R"({"prompt": "x", "max_tokens": 0})", 400, "max_tokens must be at least 1, got 0"},
           {R"({"prompt": "x", "max_tokens": 1.5})", 400, "max_tokens: expected a whole number"},
           {R"({"prompt": "x", "max_tokens": 9223372036854775808})", 400, "larger than 2^63 - 1"},
           {R"({"prompt": "x", "suffix": "y"})", 400, "suffix is not supported"},
           {R"({"prompt": "x", "best_of": 2})", 400, "best_of is not supported"},
       })
    expect_refused(completions, r);
  const std::string longer = R"({"prompt": ")" + std::string(512, 'x') + "\"}";
  expect_refused(completions,
                 {longer.c_str(), 400, "maximum context length is 512 tokens. However, your request has 512"});
}

TEST(malformed, numbers_out_of_range) {
  for (const refused& r : std::vector<refused>{
           {R"({"prompt": "x", "n": 0})", 400, "n must be at least 1"},
           {R"({"prompt": "x", "n": 1000000})", 400, "n must be at least 1 and at most 1024"},
           {R"({"prompt": "x", "temperature": -0.5})", 400, "temperature must be non-negative, got -0.5"},
           {R"({"prompt": "x", "temperature": "hot"})", 400, "temperature: expected a number, found string"},
           {R"({"prompt": "x", "temperature": 1e300})", 400, "temperature must be"},
           {R"({"prompt": "x", "top_p": 0})", 400, "top_p must be in (0, 1], got 0"},
           {R"({"prompt": "x", "top_p": 1.01})", 400, "top_p must be in (0, 1], got 1.01"},
           {R"({"prompt": "x", "top_k": -2})", 400, "top_k must be"},
           {R"({"prompt": "x", "min_p": 2})", 400, "min_p must be in [0, 1], got 2"},
           {R"({"prompt": "x", "repetition_penalty": 0})", 400, "repetition_penalty must be greater than zero, got 0"},
           {R"({"prompt": "x", "presence_penalty": 2.5})", 400, "presence_penalty must be in [-2, 2], got 2.5"},
           {R"({"prompt": "x", "frequency_penalty": -3})", 400, "frequency_penalty must be in [-2, 2], got -3"},
           {R"({"prompt": "x", "min_tokens": -1})", 400, "min_tokens must be 0 or more"},
           {R"({"prompt": "x", "min_tokens": 17})", 400, "min_tokens must be at most max_tokens = 16, got 17"},
           {R"({"prompt": "x", "logprobs": 21})", 400, "logprobs must be between 0 and 20 (--max-logprobs), got 21"},
           {R"({"prompt": "x", "logprobs": -1})", 400, "logprobs must be between 0 and 20"},
           {R"({"prompt": "x", "logprobs": true})", 400, "logprobs: expected a whole number, found boolean"},
           {R"({"prompt": "x", "prompt_logprobs": -1})", 400, "prompt_logprobs=-1"},
           {R"({"prompt": "x", "prompt_logprobs": 99})", 400, "prompt_logprobs must be between"},
           {R"({"prompt": "x", "prompt_logprobs": 1, "stream": true})", 400, "not available with stream=true"},
           {R"({"prompt": "x", "truncate_prompt_tokens": 0})", 400, "truncate_prompt_tokens must be -1 or at least 1"},
           {R"({"prompt": "x", "truncate_prompt_tokens": 5000})", 400, "more than the context length 512"},
           {R"({"prompt": "x", "seed": 1.5})", 400, "seed: expected a whole number"},
           {R"({"prompt": "x", "logit_bias": {"a": 1}})", 400, "logit_bias: 'a' is no token id"},
           {R"({"prompt": "x", "logit_bias": {"1": "x"}})", 400, "logit_bias.1: expected a number"},
           {R"({"prompt": "x", "logit_bias": {"999999": 1}})", 400, "999999"},
           {R"({"prompt": "x", "logit_bias": []})", 400, "logit_bias: expected an object"},
           {R"({"prompt": "x", "allowed_token_ids": []})", 400, "allowed_token_ids cannot be empty"},
           {R"({"prompt": "x", "allowed_token_ids": [999999]})", 400, "999999"},
           {R"({"prompt": "x", "bad_words": [""]})", 400, "bad_words cannot contain an empty string"},
           {R"({"prompt": "x", "stop": ""})", 400, "stop cannot contain an empty string"},
           {R"({"prompt": "x", "stop": [1]})", 400, "stop: expected a list of strings"},
           {R"({"prompt": "x", "stop_token_ids": "x"})", 400, "stop_token_ids: expected a list of token ids"},
           {R"({"prompt": "x", "stream": "yes"})", 400, "stream: expected true or false, found string"},
           {R"({"prompt": "x", "stream_options": {}})", 400, "stream_options need stream=true"},
           {R"({"prompt": "x", "stream": true, "stream_options": []})", 400, "stream_options: expected an object"},
       })
    expect_refused(completions, r);
}

TEST(malformed, what_this_server_does_not_do) {
  for (const refused& r : std::vector<refused>{
           {R"({"prompt": "x", "use_beam_search": true})", 400, "use_beam_search is not supported"},
           {R"({"prompt": "x", "length_penalty": 2})", 400, "length_penalty is not supported"},
           {R"({"prompt": "x", "priority": 1})", 400, "priority is not supported"},
           {R"({"prompt": "x", "response_format": {"type": "json_object"}})", 400,
            "constrained output is not in this server"},
           {R"({"prompt": "x", "guided_json": {}})", 400, "guided_json is not supported: constrained output"},
           {R"({"prompt": "x", "structured_outputs": {"regex": "a"}})", 400, "constrained output"},
           {R"({"prompt": "x", "logits_processors": ["a"]})", 400, "logits_processors is not supported"},
           {R"({"prompt": "x", "prompt_embeds": "a"})", 400, "prompt_embeds is not supported"},
           {R"({"prompt": "x", "vllm_xargs": {"a": 1}})", 400, "vllm_xargs is not supported"},
       })
    expect_refused(completions, r);
}

TEST(malformed, conversations) {
  for (const refused& r : std::vector<refused>{
           {"{}", 400, "messages: expected a list of messages, found none"},
           {R"({"messages": []})", 400, "messages: the list is empty"},
           {R"({"messages": "hi"})", 400, "messages: expected a list of messages, found string"},
           {R"({"messages": ["hi"]})", 400, "messages[0]: expected an object, found string"},
           {R"({"messages": [{"content": "hi"}]})", 400, "messages[0].role"},
           {R"({"messages": [{"role": "pirate", "content": "hi"}]})", 400, "'pirate' is unknown"},
           {R"({"messages": [{"role": "user", "content": 3}]})", 400, "messages[0].content: expected a string"},
           {R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]})", 400,
            "messages[0].content[0] is an image, but this model reads texts only"},
           {R"({"messages": [{"role": "user", "content": [{"type": "video"}]}]})", 400, "is of type 'video'"},
           {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})", 400, "has no text"},
           {R"({"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 0})", 400, "at least 1"},
           {R"({"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2})", 400, "need logprobs=true"},
           {R"({"messages": [{"role": "user", "content": "a"}], "logprobs": 2})", 400,
            "logprobs: expected true or false"},
           {R"({"messages": [{"role": "user", "content": "a"}], "logprobs": true, "top_logprobs": 21})", 400,
            "top_logprobs must be between 0 and 20"},
           {R"({"messages": [{"role": "user", "content": "a"}], "chat_template": "x"})", 400,
            "--trust-request-chat-template"},
           {R"({"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"mood": 1}})", 400,
            "does not read the variable 'mood'"},
           {R"({"messages": [{"role": "user", "content": "a"}], "documents": [{}]})", 400,
            "documents is not supported"},
           {R"({"messages": [{"role": "user", "content": "a"}], "continue_final_message": true,
                "add_generation_prompt": true})",
            400, "cannot both be true"},
           {R"({"messages": [{"role": "user", "content": "a"}], "tool_choice": "auto"})", 400, "auto needs tools"},
           {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function",
                "function": {"name": "f"}}]})",
            400, "--enable-auto-tool-choice"},
           {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function",
                "function": {"name": "f"}}], "tool_choice": "required"})",
            400, "tool_choice: required is not supported"},
           {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "f"}], "tool_choice": "none"})", 400,
            "tools: expected"},
       })
    expect_refused(chat, r);
}

TEST(malformed, kinds_of_errors_are_named_as_vllm_does) {
  scripted::house h;
  serving::service s(h.shared);
  const auto type = [&](const char* body) {
    return serving::json::parse(s({"POST", completions, body, "application/json"}).body)["error"]["type"];
  };
  EXPECT_EQ(type("{}"), "Bad Request");
  EXPECT_EQ(type(R"({"prompt": "x", "n": 0})"), "BadRequestError");
  EXPECT_EQ(type(R"({"prompt": "x", "model": "y"})"), "NotFoundError");
}

TEST(malformed, unknown_keys_are_ignored_and_logged_once_with_the_nearest_name) {
  scripted::house h;
  serving::service s(h.shared);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(s({"POST", completions, R"({"prompt": "x", "temprature": 0.5})", "application/json"}).status, 200);
  ASSERT_EQ(h.logged.size(), 1u);
  EXPECT_THAT(h.logged[0], HasSubstr("'temprature' is ignored (did you mean 'temperature'?)"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
