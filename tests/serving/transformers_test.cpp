// openai_server beside transformers: log-probs, greedy texts, tokens and conversations (golden files of serving.py and
// text_chat.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/text/train_bpe.hpp"
#include "serving/server_process.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;
using rlcore::serving::json;

json reference(const std::string& name) { return json::parse(scratch::read(fs::path(RLCORE_REFERENCE_DIR) / name)); }

/// The model of serving.py with its tokenizer.
fs::path model_in(const fs::path& folder) {
  const fs::path from = RLCORE_REFERENCE_DIR;
  fs::copy(from / "serving_model", folder / "model");
  fs::copy(from / "text_qwen2" / "tokenizer.json", folder / "model");
  tiny_model::write(folder / "model" / "tokenizer_config.json", rlcore::text::tokenizer_config_json({}));
  return folder / "model";
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

struct beside_transformers : testing::Test {
  const scratch::folder place;
  const fs::path model = model_in(place.path());
  const json golden = reference("serving.json");
};

TEST_F(beside_transformers, scores_of_prompts_are_the_models_log_probs) {
  const server_process s(model, {"--dtype", "float32"});
  for (const json& c : golden["scores"]) {
    const json request{{"prompt", c["prompt"]}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 0}};
    const json found = s.post("/v1/completions", request.dump())["choices"][0]["logprobs"]["token_logprobs"];
    ASSERT_EQ(found.size(), c["prompt"].size());
    EXPECT_TRUE(found[0].is_null());
    const std::vector<double> ours(found.begin() + 1, found.end()), theirs = c["logprobs"];
    EXPECT_NEAR(sum(ours), sum(theirs), 1e-5) << ours.size() << " tokens";
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 5e-6);
  }
}

TEST_F(beside_transformers, greedy_texts_are_those_of_generate) {
  const server_process s(model, {"--dtype", "float32"});
  for (const json& c : golden["greedy"]) {
    const json request{{"prompt", c["prompt"]},    {"max_tokens", c["ids"].size()},
                       {"temperature", 0},         {"repetition_penalty", c["repetition_penalty"]},
                       {"return_token_ids", true}, {"logprobs", 0}};
    const json choice = s.post("/v1/completions", request.dump())["choices"][0];
    EXPECT_EQ(choice["token_ids"], c["ids"]) << c["prompt"];
    EXPECT_NEAR(sum(choice["logprobs"]["token_logprobs"]), sum(c["logprobs"]), 1e-5);
  }
}

TEST_F(beside_transformers, tokens_are_those_of_its_tokenizer) {
  const server_process s(model);
  ASSERT_EQ(golden["texts"].size(), 500u);
  for (const json& c : golden["texts"])
    EXPECT_EQ(s.post("/tokenize", json{{"prompt", c["text"]}}.dump())["tokens"], c["ids"]) << c["text"];
}

/// A conversation as clients send it: the arguments of a call are a text.
nlohmann::ordered_json sent(nlohmann::ordered_json messages) {
  for (auto& m : messages)
    if (m.contains("tool_calls"))
      for (auto& call : m["tool_calls"])
        if (auto& arguments = call["function"]["arguments"]; !arguments.is_string()) arguments = arguments.dump();
  return messages;
}

TEST_F(beside_transformers, conversations_are_rendered_as_by_apply_chat_template) {
  // Its order of members is what templates write.
  using ordered = nlohmann::ordered_json;
  const auto chats = ordered::parse(scratch::read(fs::path(RLCORE_REFERENCE_DIR) / "text_chat.json"));
  std::size_t rendered = 0;
  for (const char* family : {"qwen2.5", "qwen3"}) {
    const server_process s(model,
                           {"--chat-template", family, "--enable-auto-tool-choice", "--tool-call-parser", "hermes"});
    for (const ordered& c : chats["families"][family]["cases"]) {
      const std::string name = c["name"];
      if (name == "string arguments") continue;  // of a template's caller; a request's are always text, which is read
      ordered request{{"messages", sent(chats["conversations"][name])}, {"add_generation_prompt", c["prompt"]}};
      if (c["tools"].get<bool>()) request["tools"] = chats["tools"];
      if (!c["think"].is_null()) request["chat_template_kwargs"] = {{"enable_thinking", c["think"]}};
      const json found = s.post("/tokenize", request.dump()),
                 wanted = s.post("/tokenize", json{{"prompt", c["text"]}, {"add_special_tokens", false}}.dump());
      EXPECT_EQ(found["tokens"], wanted["tokens"]) << family << ": " << name;
      EXPECT_EQ(s.post("/detokenize", json{{"tokens", found["tokens"]}}.dump())["prompt"], c["text"]);
      ++rendered;
    }
  }
  EXPECT_GE(rendered, 50u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
