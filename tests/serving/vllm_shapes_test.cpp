// Every answer and event has the fields that vLLM's have, with values of their types (golden file of vllm_shapes.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/service.hpp"
#include "rlcore/serving/text_stream.hpp"
#include "serving/scripted_engine.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::serving::json;
using strings = std::set<std::string>;

const json& golden() {
  static const json g = json::parse(scratch::read(std::filesystem::path(RLCORE_REFERENCE_DIR) / "vllm_shapes.json"));
  return g;
}

strings members(const json& value) {
  strings names;
  for (const auto& [name, member] : value.items()) names.insert(name);
  return names;
}

/// Which of a class's fields a value shows: all; those that are not null; those of one of vLLM's calls; or whichever
/// are set, none beyond its own.
enum class shown { all, not_null, call, some };

/// Reports where `value` is not what `type`, or `name`, says.
struct checker {
  shown rule = shown::all;
  std::string where{};

  void is_class(const json& value, const std::string& name) const {
    const json& fields = golden()["classes"][name];
    ASSERT_TRUE(value.is_object()) << where << value;
    const strings found = members(value);
    if (rule == shown::call && golden()["calls"].contains(name)) {
      EXPECT_TRUE(is_call(found, name)) << where << name << ": " << value;
    }
    for (const auto& [field, said] : fields.items()) {
      const bool required = !said.contains("default") && !said.contains("made");
      const bool never_null = required || said.contains("made") || !said["default"].is_null();
      if (rule == shown::all || required || (rule == shown::not_null && never_null)) {
        EXPECT_TRUE(found.contains(field)) << where << name << " lacks " << field;
      }
    }
    for (const auto& [field, member] : value.items()) {
      ASSERT_TRUE(fields.contains(field)) << where << name << " has no " << field;
      EXPECT_FALSE(rule == shown::not_null && member.is_null()) << where << name << "." << field;
      within(name + "." + field + " ").is_type(member, fields[field]["type"]);
    }
  }

 private:
  checker within(const std::string& more) const {
    // Parts of an event are written whole, but for what a delta and its calls leave out.
    const bool part = more.starts_with("Delta") || more.find(".delta ") != more.npos;
    return {part ? shown::some : rule, where + more};
  }
  static bool is_call(const strings& found, const std::string& name) {
    for (const json& call : golden()["calls"][name])
      if (call.get<strings>() == found) return true;
    return false;
  }
  bool matches(const json& value, const json& kind) const {
    if (kind == "any") return true;
    if (kind == "null") return value.is_null();
    if (kind == "string") return value.is_string();
    if (kind == "integer") return value.is_number_integer();
    if (kind == "number") return value.is_number();
    if (kind == "boolean") return value.is_boolean();
    if (kind.contains("words"))
      return std::find(kind["words"].begin(), kind["words"].end(), value) != kind["words"].end();
    return kind.contains("list") ? value.is_array() : value.is_object();
  }
  void is_type(const json& value, const json& type) const {
    for (const json& kind : type) {
      if (!matches(value, kind)) continue;
      if (kind.contains("class")) is_class(value, kind["class"]);
      for (const char* inside : {"list", "map"})
        if (kind.contains(inside))
          for (const json& item : value) is_type(item, kind[inside]);
      return;
    }
    ADD_FAILURE() << where << "expected " << type << ", found " << value;
  }
};

struct shapes : testing::Test {
  shapes() {
    h.model.max_length = 4096;
    h.model.features.tool_calls = true;
    h.model.reasoning = rlcore::serving::reasoning_form::qwen3;
    h.engine.script = [](const auto&) {
      return scripted::tokenizer().encode(
          "<think>a</think>so: <tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</tool_call>");
    };
  }
  json body(const std::string& path, const json& request, int status = 200) {
    const auto r = answers({"POST", path, request.dump(), "application/json"});
    EXPECT_EQ(r.status, status) << r.body;
    return json::parse(r.body);
  }
  std::vector<json> events(const std::string& path, json request) {
    request["stream"] = true;
    std::vector<json> all;
    answers({"POST", path, request.dump(), "application/json"}).stream([&](std::string_view e) {
      if (!e.starts_with("data: [DONE]")) all.push_back(json::parse(e.substr(6)));
      return true;
    });
    return all;
  }
  scripted::house h;
  rlcore::serving::service answers{h.shared};
};

/// Requests that fill whatever an answer can show, beside a plain one.
std::vector<json> variants(const json& plain, const std::vector<json>& more) {
  std::vector<json> all{plain};
  for (json m : more) {
    m.update(plain);
    all.push_back(m);
  }
  return all;
}

const std::vector<json> completions = variants({{"prompt", "How many"}, {"max_tokens", 200}},
                                               {{{"logprobs", 3}, {"echo", true}, {"n", 2}},
                                                {{"return_token_ids", true}, {"prompt_logprobs", 2}},
                                                {{"stop", "so"}, {"logprobs", 0}, {"return_tokens_as_token_ids", true}},
                                                {{"max_tokens", 3}}});
const std::vector<json> conversations =
    variants({{"messages", {{{"role", "user"}, {"content", "hi"}}}}},
             {{{"logprobs", true}, {"top_logprobs", 2}, {"n", 2}},
              {{"return_token_ids", true}, {"prompt_logprobs", 1}},
              {{"tools", {{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", json::object()}}}}}}},
              {{"max_tokens", 3}}});

TEST_F(shapes, of_bodies) {
  for (const json& r : completions) checker().is_class(body("/v1/completions", r), "CompletionResponse");
  for (const json& r : conversations) checker().is_class(body("/v1/chat/completions", r), "ChatCompletionResponse");
  checker().is_class(body("/tokenize", {{"prompt", "a"}}), "TokenizeResponse");
  checker().is_class(body("/tokenize", {{"prompt", "a"}, {"return_token_strs", true}}), "TokenizeResponse");
  checker().is_class(body("/detokenize", {{"tokens", {1, 2}}}), "DetokenizeResponse");
  checker().is_class(body("/v1/completions", {{"prompt", "a"}, {"n", 0}}, 400), "ErrorResponse");
  checker().is_class(body("/v1/chat/completions", {{"messages", 1}}, 400), "ErrorResponse");
  checker().is_class(body("/v1/completions", {{"prompt", "a"}, {"model", "none"}}, 404), "ErrorResponse");
  checker().is_class(json::parse(answers({"GET", "/v1/models"}).body), "ModelList");
}

TEST_F(shapes, what_was_not_asked_for_is_as_by_default) {
  const auto is_default = [](const json& value, const std::string& name, const strings& set) {
    for (const auto& [field, said] : golden()["classes"][name].items()) {
      if (said.contains("default") && !set.contains(field)) {
        EXPECT_EQ(value[field], said["default"]) << field;
      }
    }
  };
  const json c = body("/v1/completions", completions[0]);
  is_default(c, "CompletionResponse", {"system_fingerprint"});
  is_default(c["choices"][0], "CompletionResponseChoice", {"finish_reason"});
  h.model.reasoning = rlcore::serving::reasoning_form::none;
  const json talk = body("/v1/chat/completions", conversations[0]);
  is_default(talk, "ChatCompletionResponse", {"system_fingerprint"});
  is_default(talk["choices"][0], "ChatCompletionResponseChoice", {});
  is_default(talk["choices"][0]["message"], "ChatMessage", {"content"});
  const json models = json::parse(answers({"GET", "/v1/models"}).body);
  is_default(models, "ModelList", {"data"});
  is_default(models["data"][0], "ModelCard", {"owned_by", "root", "max_model_len", "permission"});
  is_default(models["data"][0]["permission"][0], "ModelPermission", {});
}

TEST_F(shapes, of_events) {
  for (json usage :
       {json(), json{{"include_usage", true}}, json{{"include_usage", true}, {"continuous_usage_stats", true}}}) {
    const bool counted = !usage.is_null(), always = counted && usage.contains("continuous_usage_stats");
    const auto all_of = [&](const std::string& path, json r) {
      r.erase("prompt_logprobs");
      if (counted) r["stream_options"] = usage;
      std::vector<json> all = events(path, r);
      EXPECT_GT(all.size(), 1u);
      return all;
    };
    for (const json& r : completions) {
      std::vector<json> all = all_of("/v1/completions", r);
      if (counted) {
        checker{shown::not_null}.is_class(all.back(), "CompletionStreamResponse");
        EXPECT_EQ(all.back()["choices"], json::array());
        all.pop_back();
      }
      for (const json& e : all) {
        checker().is_class(e, "CompletionStreamResponse");
        EXPECT_NE(always, e["usage"].is_null());
      }
    }
    for (const json& r : conversations) {
      std::vector<json> all = all_of("/v1/chat/completions", r);
      for (json& e : all) {
        const bool last = counted && &e == &all.back();
        EXPECT_EQ(e.contains("usage"), always || last);
        EXPECT_EQ(e["choices"].empty(), last);
        if (last) checker{shown::not_null}.is_class(e, "ChatCompletionStreamResponse");
        if (always) e.erase("usage");  // vLLM adds it to what the call built
        checker{shown::call}.is_class(e, "ChatCompletionStreamResponse");
      }
    }
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
