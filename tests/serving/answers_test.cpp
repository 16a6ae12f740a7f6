// Bodies and streams of answers, over an engine whose tokens are known. The shapes are those of vLLM 0.11.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "rlcore/serving/service.hpp"
#include "serving/scripted_engine.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace serving = rlcore::serving;
using serving::json;
using testing::ElementsAre;

const std::string completions = "/v1/completions", chat = "/v1/chat/completions";

struct asked {
  scripted::house h;
  serving::service service{h.shared};

  json body(const std::string& path, const std::string& request) {
    const serving::http_response r = service({"POST", path, request, "application/json"});
    EXPECT_EQ(r.status, 200) << r.body;
    return json::parse(r.body);
  }
  /// The events of a stream; checks that each parses alone and that [DONE] is the last.
  std::vector<json> events(const std::string& path, const std::string& request) {
    const serving::http_response r = service({"POST", path, request, "application/json"});
    EXPECT_EQ(r.status, 200) << r.body;
    EXPECT_EQ(r.content_type, "text/event-stream; charset=utf-8");
    std::vector<std::string> texts;
    r.stream([&](std::string_view bytes) {
      EXPECT_TRUE(bytes.starts_with("data: ") && bytes.ends_with("\n\n")) << bytes;
      EXPECT_EQ(bytes.find('\n'), bytes.size() - 2) << bytes;
      texts.emplace_back(bytes.substr(6, bytes.size() - 8));
      return true;
    });
    EXPECT_EQ(texts.back(), "[DONE]");
    texts.pop_back();
    std::vector<json> all;
    for (const std::string& t : texts) all.push_back(json::parse(t));
    return all;
  }
  void says(const std::string& text) {
    h.engine.script = [text](const auto&) { return scripted::tokenizer().encode(text); };
  }
};

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

TEST(completions, have_the_fields_of_vllm) {
  asked a;
  const json body = a.body(completions, R"({"prompt": "hi", "model": "other"})");
  EXPECT_EQ(keys_of(body), (std::set<std::string>{"id", "object", "created", "model", "choices", "service_tier",
                                                  "system_fingerprint", "usage", "kv_transfer_params"}));
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "other");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("cmpl-"));
  const json& choice = body["choices"][0];
  EXPECT_EQ(keys_of(choice), (std::set<std::string>{"index", "text", "logprobs", "finish_reason", "stop_reason",
                                                    "token_ids", "prompt_logprobs", "prompt_token_ids"}));
  EXPECT_EQ(choice["text"], "Hello, world");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["stop_reason"].is_null()) << "EOS is no reason to name";
  EXPECT_EQ(body["usage"], json::parse(R"({"prompt_tokens": 2, "total_tokens": 15, "completion_tokens": 13,
                                           "prompt_tokens_details": null})"))
      << "EOS counts, though it has no text";
}

TEST(completions, fields_become_the_job) {
  asked a;
  a.body(completions, R"({"prompt": "hi", "temperature": 0.5, "top_k": 10, "top_p": 0.95, "repetition_penalty": 1.03,
      "seed": 7, "max_tokens": 20, "min_p": 0.25, "stop_token_ids": [5], "min_tokens": 3, "logit_bias": {"4": -1.5},
      "n": 2, "user": "me", "bad_words": ["the"]})");
  ASSERT_EQ(a.h.engine.seen.size(), 2u);
  const rlcore::rollout::job& j = a.h.engine.seen[1];
  EXPECT_EQ(j.prompt, scripted::tokenizer().encode("hi"));
  EXPECT_EQ(j.sample, 1u);
  EXPECT_EQ(j.key.seed, 7u);
  EXPECT_FLOAT_EQ(j.sampling.temperature, 0.5f);
  EXPECT_EQ(j.sampling.top_k, 10);
  EXPECT_FLOAT_EQ(j.sampling.top_p, 0.95f);
  EXPECT_FLOAT_EQ(j.sampling.min_p, 0.25f);
  EXPECT_EQ(j.max_new_tokens, 20);
  EXPECT_THAT(j.stop_ids, ElementsAre(scripted::eos(), 5));
  ASSERT_TRUE(j.rules);
  EXPECT_FLOAT_EQ(j.rules->repetition_penalty, 1.03f);
  EXPECT_THAT(j.rules->ending_ids, ElementsAre(scripted::eos(), 5));
  EXPECT_EQ(j.rules->min_tokens, 3);
  EXPECT_EQ(j.rules->logit_bias.at(0).token, 4);
  EXPECT_EQ(j.rules->bad_words.at(0), scripted::tokenizer().encode("the"));
  EXPECT_EQ(j.logprob_temperature, 1.0f) << "vLLM reports the model's own distribution";
}

TEST(completions, temperature_goes_as_in_vllm) {
  asked a;
  a.body(completions, R"({"prompt": "hi", "temperature": 0.000001})");
  a.body(completions, R"({"prompt": "hi", "temperature": 0.005})");
  a.body(completions, R"({"prompt": "hi", "temperature": null, "top_k": 0})");
  EXPECT_TRUE(a.h.engine.seen[0].sampling.greedy());
  EXPECT_FLOAT_EQ(a.h.engine.seen[1].sampling.temperature, 0.01f);
  EXPECT_FLOAT_EQ(a.h.engine.seen[2].sampling.temperature, 1.0f);
  EXPECT_EQ(a.h.engine.seen[2].sampling.top_k, -1);
  ASSERT_EQ(a.h.logged.size(), 1u) << "said once";
}

TEST(completions, stop_strings_and_stop_tokens_are_named) {
  asked a;
  json choice = a.body(completions, R"({"prompt": "hi", "stop": [", w", "zzz"]})")["choices"][0];
  EXPECT_EQ(choice["text"], "Hello");
  EXPECT_EQ(choice["stop_reason"], ", w");
  const std::int32_t comma = scripted::tokenizer().encode(",")[0];
  choice = a.body(completions, R"({"prompt": "hi", "stop_token_ids": [)" + std::to_string(comma) + "]}")["choices"][0];
  EXPECT_EQ(choice["text"], "Hello");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], comma);
  choice = a.body(completions, R"({"prompt": "hi", "max_tokens": 4})")["choices"][0];
  EXPECT_EQ(choice["text"], "Hell");
  EXPECT_EQ(choice["finish_reason"], "length");
}

TEST(completions, several_prompts_with_several_choices_are_numbered_in_order) {
  asked a;
  a.h.engine.script = [](const rlcore::rollout::job& j) {
    return scripted::tokenizer().encode(std::to_string(j.prompt.size()) + "-" + std::to_string(j.sample));
  };
  const json body = a.body(completions, R"({"prompt": [[1], [1, 2]], "n": 2})");
  std::vector<std::string> texts;
  for (const json& c : body["choices"])
    texts.push_back(std::to_string(c["index"].get<int>()) + ":" + c["text"].get<std::string>());
  EXPECT_THAT(texts, ElementsAre("0:1-0", "1:1-1", "2:2-0", "3:2-1"));
  EXPECT_EQ(body["usage"]["prompt_tokens"], 3) << "each prompt once";
  EXPECT_EQ(body["usage"]["completion_tokens"], 16);
}

TEST(completions, log_probs_have_offsets_and_the_chosen_token_beside_the_likely_ones) {
  asked a;
  a.says("aé");
  const json lp = a.body(completions, R"({"prompt": "hi", "logprobs": 1, "echo": true})")["choices"][0]["logprobs"];
  EXPECT_EQ(lp["tokens"].size(), 6u) << "h, i, a, two halves of é, EOS";
  EXPECT_EQ(lp["text_offset"], json::parse("[0, 1, 2, 3, 3, 4]")) << "both halves are one character";
  EXPECT_TRUE(lp["token_logprobs"][0].is_null());
  EXPECT_EQ(lp["token_logprobs"][1], scripted::logp_at(1)) << "of the prompt";
  EXPECT_EQ(lp["token_logprobs"][2], scripted::logp_at(0)) << "of the text";
  EXPECT_EQ(lp["top_logprobs"][2].size(), 2u);
  EXPECT_EQ(lp["top_logprobs"][2]["a"], scripted::logp_at(0));
  const json ids = a.body(completions, R"({"prompt": "hi", "logprobs": 0, "return_tokens_as_token_ids": true})");
  EXPECT_EQ(ids["choices"][0]["logprobs"]["tokens"][0],
            "token_id:" + std::to_string(scripted::tokenizer().encode("a")[0]));
}

/// OpenAI's meaning of text_offset: text[offset of a token] is where the token's own text begins.
TEST(completions, offsets_are_positions_in_the_text) {
  const auto& tokenizer = scripted::tokenizer();
  for (const char* text : {"a\xF0\x9F\x99\x82z", "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80",
                           "\xE4\xBD\xA0\xE5\xA5\xBD the", "the\xC3\xA9the"}) {
    asked a;
    a.says(text);
    for (const char* ids : {"", R"(, "return_tokens_as_token_ids": true)"}) {
      const json lp =
          a.body(completions, std::string(R"({"prompt": "h\u00e9y", "logprobs": 0, "echo": true, "max_tokens": 40)") +
                                  ids + "}")["choices"][0]["logprobs"];
      std::vector<std::size_t> wanted;
      const auto add = [&](const std::string& all, std::size_t first) {
        std::size_t bytes = 0;
        for (const std::int32_t id : tokenizer.encode(all)) {
          std::size_t whole = bytes;  // back to the first byte of the character that the token begins in
          while (whole > 0 && (all[whole] & '\xC0') == '\x80') --whole;
          wanted.push_back(first + rlcore::serving::characters(all.substr(0, whole)));
          bytes += tokenizer.bytes_of(id).size();
        }
      };
      add("h\xC3\xA9y", 0);
      add(text, 3);
      wanted.push_back(3 + rlcore::serving::characters(text));  // EOS
      EXPECT_EQ(lp["text_offset"].get<std::vector<std::size_t>>(), wanted) << text << ids;
    }
  }
}

TEST(completions, an_echo_without_new_tokens_scores_the_prompt) {
  asked a;
  const json body = a.body(completions, R"({"prompt": "hiya", "logprobs": 1, "echo": true, "max_tokens": 0})");
  EXPECT_EQ(body["choices"][0]["text"], "hiya");
  EXPECT_EQ(body["choices"][0]["logprobs"]["tokens"].size(), 4u);
  EXPECT_EQ(body["usage"]["completion_tokens"], 0);
}

TEST(completions, prompt_log_probs_begin_with_null) {
  asked a;
  const json choice = a.body(completions, R"({"prompt": "hey", "prompt_logprobs": 1})")["choices"][0];
  ASSERT_EQ(choice["prompt_logprobs"].size(), 3u);
  EXPECT_TRUE(choice["prompt_logprobs"][0].is_null());
  const json first = choice["prompt_logprobs"][1].front();
  EXPECT_EQ(first["logprob"], scripted::logp_at(1));
  EXPECT_EQ(first["decoded_token"], "e");
}

TEST(streams, have_the_text_and_the_usage_of_the_body) {
  asked a;
  for (const char* text : {"Grüße 你好 👩‍🚀!", "", "stop here or there"}) {
    a.says(text);
    const std::string request = R"({"prompt": "hi", "n": 2, "stop": ["there"], "max_tokens": 60, "logprobs": 1)";
    const json body = a.body(completions, request + "}");
    std::vector<json> events =
        a.events(completions, request + R"(, "stream": true, "stream_options": {"include_usage": true}})");
    for (const char* count : {"prompt_tokens", "completion_tokens", "total_tokens"})
      EXPECT_EQ(events.back()["usage"][count], body["usage"][count]);
    EXPECT_TRUE(events.back()["choices"].empty());
    events.pop_back();
    std::vector<std::string> texts(2);
    std::vector<json> log_probs(2, json::array()), finished(2);
    for (const json& e : events) {
      EXPECT_TRUE(e["usage"].is_null());
      EXPECT_EQ(e["id"], events[0]["id"]);
      ASSERT_EQ(e["choices"].size(), 1u);
      const json& c = e["choices"][0];
      const std::size_t i = c["index"];
      EXPECT_TRUE(finished[i].is_null()) << "nothing comes behind the end of a choice";
      texts[i] += c["text"].get<std::string>();
      finished[i] = c["finish_reason"];
      for (const json& x : c["logprobs"]["text_offset"]) log_probs[i].push_back(x);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(texts[i], body["choices"][i]["text"]);
      EXPECT_EQ(finished[i], body["choices"][i]["finish_reason"]);
      EXPECT_EQ(log_probs[i], body["choices"][i]["logprobs"]["text_offset"]);
    }
  }
}

TEST(streams, usage_in_every_event_if_asked_for) {
  asked a;
  const auto events = a.events(completions, R"({"prompt": "hi", "max_tokens": 3, "stream": true,
      "stream_options": {"include_usage": true, "continuous_usage_stats": true}})");
  ASSERT_EQ(events.size(), 5u) << "three characters, the end, the usage";
  EXPECT_EQ(events[1]["usage"]["completion_tokens"], 2);
}

TEST(streams, an_engine_that_breaks_is_the_last_event_or_a_500) {
  asked a;
  a.h.engine.broken = "the weights are broken";
  EXPECT_EQ(a.service({"POST", completions, R"({"prompt": "x"})", "application/json"}).status, 500);
  const auto events = a.events(completions, R"({"prompt": "x", "stream": true})");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["error"]["message"], "the weights are broken");
}

TEST(chats, have_the_fields_of_vllm) {
  asked a;
  const json body = a.body(chat, R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(keys_of(body["choices"][0]["message"]),
            (std::set<std::string>{"role", "content", "refusal", "annotations", "audio", "function_call", "tool_calls",
                                   "reasoning_content"}));
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello, world");
  EXPECT_EQ(scripted::tokenizer().decode(a.h.engine.seen[0].prompt),
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(a.h.engine.seen[0].max_new_tokens, 512 - std::ssize(a.h.engine.seen[0].prompt));
}

TEST(chats, streams_begin_with_the_role_and_have_the_content_of_the_body) {
  asked a;
  a.says("Grüße 你好");
  const auto events = a.events(chat, R"({"messages": [{"role": "user", "content": "hi"}], "n": 2, "stream": true})");
  EXPECT_EQ(events[0]["choices"][0]["delta"], json::parse(R"({"role": "assistant", "content": ""})"));
  EXPECT_EQ(events[1]["choices"][0]["index"], 1);
  std::string text;
  for (const json& e : events) {
    EXPECT_EQ(e["object"], "chat.completion.chunk");
    if (e["choices"][0]["index"] == 1) text += e["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, "Grüße 你好");
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "stop");
}

TEST(chats, content_may_stand_in_parts_and_the_developer_is_the_system) {
  asked a;
  a.body(chat, R"({"messages": [{"role": "developer", "content": "be brief"}, {"role": "user",
      "content": [{"type": "text", "text": "one"}, {"type": "input_text", "text": "two"}]}]})");
  EXPECT_EQ(scripted::tokenizer().decode(a.h.engine.seen[0].prompt),
            "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\none\ntwo<|im_end|>\n<|im_start|>assistant\n");
}

TEST(chats, the_final_message_may_stay_open) {
  asked a;
  a.body(chat, R"({"messages": [{"role": "system", "content": "s"}, {"role": "assistant", "content": "Once upon"}],
      "continue_final_message": true, "add_generation_prompt": false})");
  EXPECT_TRUE(scripted::tokenizer().decode(a.h.engine.seen[0].prompt).ends_with("assistant\nOnce upon"));
}

TEST(chats, log_probs_have_the_bytes_of_each_token) {
  asked a;
  a.says("é");
  const json body = a.body(chat, R"({"messages": [{"role": "user", "content": "hi"}], "logprobs": true,
      "top_logprobs": 2})");
  const json content = body["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 3u);
  EXPECT_EQ(content[0]["bytes"], json::parse("[195]"));
  EXPECT_EQ(content[1]["bytes"], json::parse("[169]"));
  EXPECT_EQ(content[0]["top_logprobs"].size(), 3u) << "two, and the token itself";
}

}  // namespace
}  // namespace RLCORE_TEST_ID
