// What single fields of a request do, where it is easily done wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/serving/service.hpp"
#include "serving/scripted_engine.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace serving = rlcore::serving;
using serving::json;
using testing::ElementsAre;
using testing::HasSubstr;

struct posed {
  scripted::house h;
  serving::service service{h.shared, keys};
  inline static const std::vector<std::string> keys{"secret"};

  serving::http_response response(const json& request, const std::string& authorization = "Bearer secret") {
    const char* path = request.contains("messages") ? "/v1/chat/completions" : "/v1/completions";
    return service({"POST", path, request.dump(), "application/json", authorization});
  }
  json choice(const json& request) {
    const serving::http_response r = response(request);
    EXPECT_EQ(r.status, 200) << r.body;
    return json::parse(r.body)["choices"][0];
  }
  void refused(const json& request, const std::string& part) {
    const serving::http_response r = response(request);
    EXPECT_EQ(r.status, 400) << request;
    EXPECT_THAT(r.body, HasSubstr(part));
  }
  const rlcore::rollout::job& job() const { return h.engine.seen.back(); }
  std::string prompt() const { return scripted::tokenizer().decode(job().prompt); }
};

json talk(const std::string& text, const json& more = json::object()) {
  json body{{"messages", {{{"role", "user"}, {"content", text}}}}};
  body.update(more);
  return body;
}

TEST(fields, max_new_tokens_of_the_model_is_a_cap_and_no_value_of_the_request) {
  posed p;
  p.h.model.defaults.most_tokens = 400;
  const std::string words(300, 'x');
  p.choice(talk("hi"));
  EXPECT_EQ(p.job().max_new_tokens, 400);
  p.choice(talk(words));
  EXPECT_EQ(p.job().max_new_tokens, 512 - std::ssize(p.job().prompt)) << "what the length leaves is no error";
  p.choice(talk("hi", {{"max_tokens", 410}}));
  EXPECT_EQ(p.job().max_new_tokens, 400);
  p.choice({{"prompt", "hi"}});
  EXPECT_EQ(p.job().max_new_tokens, 16);
  p.choice({{"prompt", "hi"}, {"max_tokens", nullptr}});
  EXPECT_EQ(p.job().max_new_tokens, 400) << "null is no 16";
  p.h.model.defaults.most_tokens = 8;
  p.choice({{"prompt", "hi"}});
  EXPECT_EQ(p.job().max_new_tokens, 8);
  p.choice({{"prompt", std::string(505, 'x')}});
  EXPECT_EQ(p.job().max_new_tokens, 7);
  p.refused({{"prompt", "hi"}, {"min_tokens", 9}}, "min_tokens must be at most max_tokens = 8, got 9");
}

TEST(fields, a_refused_request_does_not_count_for_later_texts) {
  const json request{{"prompt", "hi"}};
  posed clean, other;
  clean.choice(request);
  other.refused({{"prompt", "hi"}, {"logit_bias", {{"99999", 1}}}}, "99999");
  other.refused({{"prompt", {"hi", std::string(600, 'x')}}}, "maximum context length");
  other.h.engine.refused = "not by this engine";
  other.refused(request, "not by this engine");
  other.h.engine.refused.clear();
  other.choice({{"prompt", "hi"}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 0}});
  other.choice(request);
  EXPECT_EQ(other.job().key.seed, clean.job().key.seed);
  other.choice(request);
  EXPECT_NE(other.job().key.seed, clean.job().key.seed) << "the second request has a key of its own";
}

TEST(fields, a_prompt_of_the_full_length_is_scored) {
  posed p;
  const std::string text(512, 'x');
  const json scored =
      p.choice({{"prompt", text}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}, {"prompt_logprobs", 1}});
  EXPECT_EQ(scored["text"], text);
  ASSERT_EQ(scored["logprobs"]["tokens"].size(), 512u);
  EXPECT_EQ(scored["logprobs"]["tokens"][511], "x");
  EXPECT_EQ(scored["logprobs"]["token_logprobs"][510], scripted::logp_at(510));
  EXPECT_EQ(scored["logprobs"]["token_logprobs"][511], scripted::logp_at(0)) << "the draw that scores the last one";
  EXPECT_EQ(p.job().prompt.size(), 511u);
  ASSERT_EQ(scored["prompt_logprobs"].size(), 512u);
  EXPECT_EQ(scored["prompt_logprobs"][511].front()["rank"], 7) << "the engine's, not a place among the top k";
  EXPECT_EQ(p.choice({{"prompt", "x"}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}})["logprobs"]["tokens"],
            json({"x"}));
}

TEST(fields, the_final_message_stays_open_where_its_text_ends) {
  const auto opened = [](const std::string& text) {
    posed p;
    p.choice({{"messages", {{{"role", "user"}, {"content", "hi"}}, {{"role", "assistant"}, {"content", text}}}},
              {"continue_final_message", true},
              {"add_generation_prompt", false}});
    return p.prompt();
  };
  for (const char* text : {"<", "m", "end", "Once ", "assistant"})
    EXPECT_TRUE(opened(text).ends_with("<|im_end|>\n<|im_start|>assistant\n" + std::string(text))) << opened(text);
}

TEST(fields, lists_that_cost_time_with_each_token_are_short_and_have_no_duplicates) {
  posed p;
  const json many(2000, 5), different = [] {
    json ids = json::array();
    for (int i = 0; i < 1025; ++i) ids.push_back(i);
    return ids;
  }();
  p.choice({{"prompt", "hi"}, {"stop_token_ids", many}, {"min_tokens", 2}, {"allowed_token_ids", {7, 5, 7, 6}}});
  EXPECT_THAT(p.job().stop_ids, ElementsAre(scripted::eos(), 5));
  EXPECT_THAT(p.job().rules->ending_ids, ElementsAre(scripted::eos(), 5));
  EXPECT_THAT(p.job().rules->allowed_token_ids, ElementsAre(5, 6, 7));
  p.choice({{"prompt", "hi"}, {"stop_token_ids", {5, 100000}}});
  EXPECT_THAT(p.job().stop_ids, ElementsAre(scripted::eos(), 5)) << "no model draws what is not in its vocabulary";
  p.refused({{"prompt", "hi"}, {"stop_token_ids", different}}, "stop_token_ids must be a list of at most 1024");
  p.refused({{"prompt", "hi"}, {"stop", json(1025, "s")}}, "stop must be a list of at most 1024, got 1025");
  p.refused({{"prompt", "hi"}, {"bad_words", json(1025, "s")}}, "bad_words must be a list of at most 1024");
  for (const char* name : {"bad_words", "stop"})
    p.refused({{"prompt", "hi"}, {name, {std::string(1 << 20, 'x'), "y"}}},
              std::string(name) + ": 1048577 bytes together; expected at most 1048576");
  p.refused(talk("hi", {{"n", 1024}, {"max_tokens", 400}, {"logprobs", true}, {"top_logprobs", 20}}),
            "more than 4194304 log-probs");
}

TEST(fields, min_tokens_hold_stop_strings_back) {
  posed p;
  p.h.engine.script = [](const auto&) { return scripted::tokenizer().encode("ababab"); };
  EXPECT_EQ(p.choice({{"prompt", "hi"}, {"stop", {"b"}}, {"min_tokens", 2}})["text"], "aba");
}

TEST(fields, a_stop_string_in_the_output_has_eos_where_special_tokens_are_shown) {
  posed p;
  const json request{{"prompt", "hi"}, {"include_stop_str_in_output", true}, {"skip_special_tokens", false}};
  EXPECT_EQ(p.choice(request)["text"], "Hello, world<|im_end|>");
}

TEST(fields, a_bias_is_clamped) {
  posed p;
  p.choice({{"prompt", "hi"}, {"logit_bias", {{"1", 1e300}, {"2", -101}}}});
  ASSERT_EQ(p.job().rules->logit_bias.size(), 2u);
  EXPECT_EQ(p.job().rules->logit_bias[0].bias, 100.0f);
  EXPECT_EQ(p.job().rules->logit_bias[1].bias, -100.0f);
}

TEST(fields, what_asks_for_nothing_is_taken) {
  posed p;
  p.choice(talk("hi", {{"best_of", 1}, {"response_format", {{"type", "text"}, {"json_schema", nullptr}}}}));
  p.refused(talk("hi", {{"best_of", 2}}), "best_of is not supported");
  p.refused(talk("hi", {{"response_format", {{"type", "json_object"}}}}), "constrained output");
}

TEST(fields, calls_of_tools_without_arguments_have_none) {
  for (const json& arguments : {json(""), json(nullptr), json("null"), json("{}")}) {
    posed p;
    p.choice({{"messages",
               {{{"role", "user"}, {"content", "hi"}},
                {{"role", "assistant"},
                 {"content", ""},
                 {"tool_calls", {{{"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}}}}},
                {{"role", "tool"}, {"content", "1"}}}}});
    EXPECT_THAT(p.prompt(), HasSubstr(R"({"name": "f", "arguments": {}})"));
  }
}

TEST(fields, the_scheme_of_a_key_has_no_case) {
  posed p;
  EXPECT_EQ(p.response({{"prompt", "hi"}}, "bearer secret").status, 200);
  EXPECT_EQ(p.response({{"prompt", "hi"}}, "Bearer Secret").status, 401);
  EXPECT_EQ(p.response({{"prompt", "hi"}}, "secret").status, 401);
}

TEST(fields, long_unknown_keys_and_notes_have_bounds_of_their_own) {
  posed p;
  json wide{{"prompt", "hi"}, {std::string(1000000, 'k'), 1}};
  p.choice(wide);
  ASSERT_EQ(p.h.logged.size(), 1u);
  EXPECT_LT(p.h.logged[0].size(), 300u);
  wide.erase(std::string(1000000, 'k'));
  for (int i = 0; i < 1000; ++i) wide["unknown" + std::to_string(i)] = 1;
  p.choice(wide);
  p.choice({{"prompt", "hi"}, {"temperature", 0.005}});
  EXPECT_THAT(p.h.logged.back(), HasSubstr("temperature 0.005"));
}

TEST(fields, clients_that_leave_and_prompts_that_are_refused_are_counted) {
  posed p;
  p.h.engine.refused = "no";
  p.refused({{"prompt", "hi"}}, "no");
  EXPECT_EQ(p.h.shared.counts.prompt_tokens(), 0u);
  p.h.engine.refused.clear();
  p.h.engine.endless = true;
  const serving::http_response r = p.service({"POST", "/v1/completions", R"({"prompt": "hi", "n": 2})",
                                              "application/json", "Bearer secret", [] { return false; }});
  EXPECT_EQ(r.status, 499);
  const std::string counts = p.h.shared.counts.text({}, "m");
  EXPECT_THAT(counts, HasSubstr("finished_reason=\"abort\"} 2\n"));
  EXPECT_THAT(counts, HasSubstr("vllm:e2e_request_latency_seconds_count{model_name=\"m\"} 1\n"));
}

TEST(fields, reading_a_long_text_ends_when_its_client_leaves) {
  posed p;
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "word ";
  const std::string prompt = R"({"prompt": ")" + text + R"("})",
                    chat = R"({"messages": [{"role": "user", "content": ")" + text + R"("}]})";
  for (const auto& [path, body] : {std::pair("/tokenize", prompt),
                                   {"/tokenize", chat},
                                   {"/v1/completions", prompt},
                                   {"/v1/chat/completions", chat}}) {
    int asked = 0;
    const serving::http_response r =
        p.service({"POST", path, body, "application/json", "Bearer secret", [&] { return ++asked < 3; }});
    EXPECT_EQ(r.status, 499) << path;
    EXPECT_EQ(asked, 3) << path;
  }
}

TEST(fields, ids_of_answers_differ_between_servers_of_one_start) {
  scripted::house one, two;
  EXPECT_NE(one.shared.unique_id("", ""), two.shared.unique_id("", ""));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
