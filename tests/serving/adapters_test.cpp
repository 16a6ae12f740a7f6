// Adapters by name: each answers as its merged model does, and they come and go while requests run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "serving/adapter_folder.hpp"
#include "serving/server_process.hpp"
#include "support/program.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::serving::json;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

struct served_adapters : testing::Test {
  inline static std::unique_ptr<scratch::folder> place;
  static std::filesystem::path at(const std::string& name) { return *place / name; }
  static void SetUpTestSuite() {
    place = std::make_unique<scratch::folder>();
    std::filesystem::create_directories(at("model"));
    tiny_model::save_tokenizer(at("model"));
    tiny_model::save_weights(at("model"), 3);
    save_adapter(at("one"), at("model"), 1);
    save_adapter(at("two"), at("model"), 2, 16);
    for (const char* name : {"one", "two"}) {
      const auto r = program::run(
          "model_merger", {"merge", "--backend", "fsdp", "--local_dir", at(name).string(), "--merge-lora",
                           "--base_model", at("model").string(), "--dtype", "fp32", "--target_dir", merged(name)});
      ASSERT_EQ(r.code, 0) << r.err;
    }
  }
  static void TearDownTestSuite() { place.reset(); }
  static std::string merged(const std::string& name) { return at("merged_" + name).string(); }

  /// A server with `most` places and these adapters.
  static std::vector<std::string> flags(const std::vector<std::string>& adapters, const char* most = "2") {
    std::vector<std::string> words{"--enable-lora", "--max-loras", most};
    if (!adapters.empty()) words.emplace_back("--lora-modules");
    for (const std::string& name : adapters) words.push_back(name + "=" + at(name).string());
    return words;
  }
  static json load(const server_process& s, const std::string& name, const std::string& folder, bool in_place = false) {
    const json body{{"lora_name", name}, {"lora_path", folder}, {"load_inplace", in_place}};
    return answered(s, "/v1/load_lora_adapter", body);
  }
  /// The text, or the error.
  static json answered(const server_process& s, const std::string& path, const json& body) {
    const auto r = s.client().Post(path.c_str(), body.dump(), "application/json");
    if (!r) return "no answer";
    return r->status == 200 ? json(r->body) : json::parse(r->body)["error"];
  }
};

/// Requests whose answers are to be the same: drawn, greedy, with log-probs, conversations, several choices.
std::vector<std::string> answers_of(const server_process& s, const std::string& model) {
  std::vector<std::string> all;
  const auto ask = [&](const std::string& path, json body) {
    body["model"] = model;
    const json answer = s.post(path, body.dump());
    all.push_back(answer["choices"].dump() + answer["system_fingerprint"].dump());
  };
  for (int i = 0; i < 3; ++i)  // the same prompt without a seed: each time another text
    ask("/v1/completions", {{"prompt", "How many apples are left?"}, {"max_tokens", 40}, {"logprobs", 3}});
  ask("/v1/completions", {{"prompt", "a"}, {"temperature", 0}, {"max_tokens", 60}, {"ignore_eos", true}});
  ask("/v1/chat/completions",
      {{"messages", {{{"role", "user"}, {"content", "How many?"}}}}, {"n", 2}, {"seed", 4}, {"max_tokens", 50}});
  ask("/v1/completions", {{"prompt", "Ann has 3 apples and gives 2 away. How many are left?"},
                          {"max_tokens", 0},
                          {"echo", true},
                          {"logprobs", 1}});
  return all;
}

std::vector<std::string> joined(std::vector<std::string> all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_F(served_adapters, answer_as_their_merged_models_do) {
  using words = std::vector<std::string>;
  for (const words& arithmetic : {words{}, {"--dtype", "bfloat16"}, {"--rlcore-weights", "int8"}}) {
    std::array<std::vector<std::string>, 3> alone;
    alone[0] = answers_of(server_process(at("model"), arithmetic), "auto");
    alone[1] = answers_of(server_process(merged("one"), arithmetic), "auto");
    alone[2] = answers_of(server_process(merged("two"), arithmetic), "auto");
    EXPECT_NE(alone[0], alone[1]);
    EXPECT_NE(alone[1], alone[2]);

    words more = flags({"one", "two"});
    more.insert(more.end(), arithmetic.begin(), arithmetic.end());
    const server_process s(at("model"), more);
    std::array<std::vector<std::string>, 3> together;
    std::vector<std::thread> clients;
    for (std::size_t i = 0; i < 3; ++i)
      clients.emplace_back([&, i] { together[i] = answers_of(s, std::array{"auto", "one", "two"}[i]); });
    for (std::thread& c : clients) c.join();
    EXPECT_EQ(together, alone);
  }
}

TEST_F(served_adapters, are_listed_with_their_folder_and_their_model) {
  const std::string two = json{{"name", "second"}, {"path", at("two")}, {"base_model_name", "auto"}}.dump();
  const server_process s(at("model"), {"--enable-lora", "--lora-modules", "one=" + at("one").string(), two});
  const json list = json::parse(s.client().Get("/v1/models")->body)["data"];
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["id"], "auto");
  EXPECT_EQ(list[0]["parent"], nullptr);
  EXPECT_EQ(list[1]["id"], "one");
  EXPECT_EQ(list[1]["root"], at("one").string());
  EXPECT_EQ(list[2]["id"], "second");
  EXPECT_EQ(list[2]["root"], at("two").string());
  EXPECT_EQ(list[2]["parent"], "auto");
  EXPECT_EQ(list[2]["max_model_len"], 1024);
}

TEST_F(served_adapters, come_and_go_while_requests_run) {
  const json request{{"model", "one"},     {"prompt", "a"}, {"max_tokens", 900},
                     {"ignore_eos", true}, {"seed", 1},     {"n", 48}};
  const std::string expected = [&] {
    json base = request;
    base["model"] = "auto";
    return server_process(merged("one")).text(base.dump());
  }();
  const server_process s(at("model"), flags({"one"}, "1"));
  std::string text;
  std::thread client([&] { text = s.text(request.dump()); });
  for (int i = 0; i < 2000 && s.client().Get("/load")->body != R"({"server_load":1})"; ++i)
    std::this_thread::sleep_for(2ms);
  EXPECT_EQ(answered(s, "/v1/unload_lora_adapter", {{"lora_name", "one"}}),
            "Success: LoRA adapter 'one' removed successfully.");
  EXPECT_EQ(answered(s, "/v1/completions", request)["message"], "The model `one` does not exist.");
  EXPECT_EQ(s.client().Get("/load")->body, R"({"server_load":1})") << "it answers on";
  // The only place is that of the adapter that still answers: this waits for it.
  EXPECT_EQ(load(s, "two", at("two").string()), "Success: LoRA adapter 'two' added successfully.");
  client.join();
  EXPECT_EQ(text, expected);
  EXPECT_EQ(answers_of(s, "two"), answers_of(server_process(merged("two")), "auto"));
}

/// One place, and three names that ask at once: who is away comes back with its weights and its counts of prompts.
TEST_F(served_adapters, beyond_the_places_come_back_when_they_are_asked_for) {
  const std::array<const char*, 3> names{"auto", "one", "two"};
  const std::array folders{at("model").string(), merged("one"), merged("two")};
  std::array<std::vector<std::string>, 3> alone, together;
  for (std::size_t i = 0; i < 3; ++i) {
    const server_process s(folders[i]);
    for (int again = 0; again < 3; ++again) alone[i] = joined(std::move(alone[i]), answers_of(s, "auto"));
  }
  const server_process s(at("model"), flags({"one", "two"}, "1"));
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < 3; ++i)
    clients.emplace_back([&, i] {
      for (int again = 0; again < 3; ++again) together[i] = joined(std::move(together[i]), answers_of(s, names[i]));
    });
  for (std::thread& c : clients) c.join();
  EXPECT_EQ(together, alone);
  EXPECT_EQ(json::parse(s.client().Get("/v1/models")->body)["data"].size(), 3u);
  EXPECT_THAT(s.err(), HasSubstr("the adapter 'one' is back from " + at("one").string()));
}

TEST_F(served_adapters, that_are_away_wait_for_the_requests_of_others) {
  const json request{{"model", "two"},     {"prompt", "a"}, {"max_tokens", 900},
                     {"ignore_eos", true}, {"seed", 1},     {"n", 48}};
  const auto of = [&](const std::string& model) {
    json body = request;
    body["model"] = model;
    return body.dump();
  };
  const std::string one = server_process(merged("one")).text(of("auto")),
                    two = server_process(merged("two")).text(of("auto"));
  const server_process s(at("model"), flags({"one", "two"}, "1"));
  std::array<std::string, 3> texts;
  std::thread running([&] { texts[0] = s.text(of("two")); });  // it was loaded last
  ASSERT_TRUE(s.has_load(1));
  std::thread waiting([&] { texts[1] = s.text(of("one")); });
  std::this_thread::sleep_for(50ms);
  texts[2] = s.text(of("two"));
  running.join(), waiting.join();
  EXPECT_EQ(texts, (std::array{two, one, two}));
}

TEST_F(served_adapters, that_are_away_may_change_and_leave) {
  const std::filesystem::path moving = at("moving");
  const auto put = [&](const char* from) {
    std::filesystem::create_directories(moving);
    for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
      std::filesystem::copy_file(at(from) / file, moving / file, std::filesystem::copy_options::overwrite_existing);
  };
  put("one");
  const server_process s(at("model"), flags({}, "1"));
  EXPECT_EQ(load(s, "moving", moving.string()), "Success: LoRA adapter 'moving' added successfully.");
  EXPECT_EQ(load(s, "two", at("two").string()), "Success: LoRA adapter 'two' added successfully.");
  put("two");
  const json request{{"model", "moving"}, {"prompt", "a"}, {"max_tokens", 30}, {"seed", 1}};
  EXPECT_THAT(answered(s, "/v1/completions", request)["message"].get<std::string>(),
              HasSubstr("the adapter 'moving' is not what was loaded: " + moving.string()));
  EXPECT_EQ(load(s, "moving", moving.string(), true), "Success: LoRA adapter 'moving' added successfully.");
  EXPECT_EQ(answers_of(s, "moving"), answers_of(server_process(merged("two")), "auto"));
  answers_of(s, "two");  // it is away again
  std::filesystem::remove_all(moving);
  EXPECT_THAT(answered(s, "/v1/completions", request)["message"].get<std::string>(), HasSubstr("No adapter found for"));
  EXPECT_EQ(answered(s, "/v1/unload_lora_adapter", {{"lora_name", "moving"}}),
            "Success: LoRA adapter 'moving' removed successfully.");
  EXPECT_EQ(answered(s, "/v1/completions", request)["message"], "The model `moving` does not exist.");
  EXPECT_EQ(answers_of(s, "two").size(), 6u);
}

TEST_F(served_adapters, are_replaced_in_place) {
  const server_process s(at("model"), flags({"one"}, "1"));
  const json request{{"model", "one"},     {"prompt", "a"}, {"max_tokens", 500},
                     {"ignore_eos", true}, {"seed", 1},     {"n", 48}};
  const std::string first = s.text(request.dump());
  std::string running;
  std::thread client([&] { running = s.text(request.dump()); });
  for (int i = 0; i < 2000 && s.client().Get("/load")->body != R"({"server_load":1})"; ++i)
    std::this_thread::sleep_for(2ms);
  EXPECT_EQ(load(s, "one", at("two").string(), true), "Success: LoRA adapter 'one' added successfully.");
  client.join();
  EXPECT_EQ(running, first) << "it began with the earlier weights";
  EXPECT_EQ(answers_of(s, "one"), answers_of(server_process(merged("two")), "auto"));
  EXPECT_EQ(json::parse(s.client().Get("/v1/models")->body)["data"][1]["root"], at("two").string());
}

TEST_F(served_adapters, wrong_ones_are_refused_and_change_nothing) {
  const server_process s(at("model"), flags({"one"}, "1"));
  const json probe{{"model", "one"}, {"prompt", "a"}, {"max_tokens", 30}, {"seed", 1}};
  const std::string before = s.text(probe.dump());
  const auto refused = [&](const json& error, int code, const std::string& type, const std::string& message) {
    EXPECT_EQ(error["code"], code) << error;
    EXPECT_EQ(error["type"], type) << error;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(message));
    EXPECT_EQ(error["message"].get<std::string>().find('\n'), std::string::npos);
  };
  refused(load(s, "one", at("two").string()), 400, "InvalidUserInput",
          "The lora adapter 'one' has already been loaded.");
  refused(load(s, "auto", at("two").string()), 400, "InvalidUserInput", "'auto' has already been loaded.");
  refused(load(s, "auto", at("two").string(), true), 400, "InvalidUserInput", "'auto' has already been loaded.");
  refused(load(s, "", at("two").string()), 400, "InvalidUserInput",
          "Both 'lora_name' and 'lora_path' must be provided.");
  refused(load(s, "three", at("nowhere").string()), 404, "NotFoundError",
          "No adapter found for " + at("nowhere").string());
  refused(answered(s, "/v1/unload_lora_adapter", {{"lora_name", "x"}}), 404, "NotFoundError",
          "The lora adapter 'x' cannot be found.");
  refused(answered(s, "/v1/unload_lora_adapter", json::object()), 400, "InvalidUserInput", "'lora_name' needs to be");

  const std::filesystem::path unfit = at("unfit");
  std::filesystem::create_directories(unfit);
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
    std::filesystem::copy_file(at("one") / file, unfit / file, std::filesystem::copy_options::overwrite_existing);
  json config = json::parse(scratch::read(unfit / "adapter_config.json"));
  config["r"] = 8;
  scratch::write(unfit / "adapter_config.json", config.dump());
  refused(load(s, "one", unfit.string(), true), 400, "BadRequestError", "expected [8, ");
  config["use_dora"] = true;
  scratch::write(unfit / "adapter_config.json", config.dump());
  refused(load(s, "one", unfit.string(), true), 400, "BadRequestError", "use_dora");
  EXPECT_EQ(s.text(probe.dump()), before);
}

TEST_F(served_adapters, ranks_may_be_limited) {
  std::vector<std::string> words = flags({}, "1");
  words.insert(words.end(), {"--max-lora-rank", "8"});
  const server_process s(at("model"), words);
  EXPECT_THAT(load(s, "two", at("two").string())["message"].get<std::string>(),
              HasSubstr("LoRA rank 16 is greater than max_lora_rank 8"));
  EXPECT_EQ(load(s, "one", at("one").string()), "Success: LoRA adapter 'one' added successfully.");
}

TEST_F(served_adapters, need_their_flag) {
  const server_process s(at("model"));
  const auto r =
      s.client().Post("/v1/load_lora_adapter", R"({"lora_name": "a", "lora_path": "b"})", "application/json");
  EXPECT_EQ(r->status, 404);
  EXPECT_EQ(r->body, R"({"detail":"Not Found"})");
}

TEST_F(served_adapters, mistakes_on_the_command_line_are_one_line) {
  const auto fails = [&](std::vector<std::string> words, const std::string& message) {
    words.insert(words.begin(), {at("model").string(), "--served-model-name", "auto", "--port", "0"});
    const program::result r = program::run("openai_server", words);
    EXPECT_EQ(r.code, 1);
    EXPECT_THAT(r.err, HasSubstr(message));
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  };
  const std::string one = "one=" + at("one").string();
  fails({"--lora-modules", one}, "--lora-modules needs --enable-lora");
  fails({"--enable-lora", "--lora-modules", "one"}, "expected name=folder");
  fails({"--enable-lora", "--lora-modules", one, one}, "the name 'one' is taken");
  fails({"--enable-lora", "--lora-modules", "auto=" + at("one").string()}, "the name 'auto' is taken");
  fails({"--enable-lora", "--lora-modules", R"({"name": "x", "pth": "y"})"}, "'pth' is unknown (did you mean 'path'?)");
  fails({"--enable-lora", "--lora-modules", R"({"name": "x", "path": "y", "base_model_name": "z"})"},
        "this server's model is called 'auto'");
  fails({"--enable-lora", "--lora-modules", "one=/nowhere"}, "No adapter found for /nowhere");
  fails({"--enable-lora", "--max-loras", "1000000000"}, "--max-loras: 1000000000 adapters need");
}

/// PEFT and transformers on the same folders: log-probs of a prompt, greedy tokens.
TEST_F(served_adapters, answer_as_peft_does) {
  const std::string python = scratch::python_with("torch, transformers, peft");
  if (python.empty()) GTEST_SKIP() << "no Python with torch, transformers and peft (RLCORE_PYTHON)";
  const server_process s(at("model"), flags({"one", "two"}));
  for (const char* name : {"one", "two"}) {
    const json request{{"model", name},      {"prompt", "Ann has 3 apples and gives 2 away."},
                       {"temperature", 0},   {"max_tokens", 24},
                       {"echo", true},       {"logprobs", 0},
                       {"ignore_eos", true}, {"return_token_ids", true}};
    const json choice = s.post("/v1/completions", request.dump())["choices"][0];
    const auto result = scratch::run_python(
        python, R"(
import json, sys, torch
from transformers import AutoModelForCausalLM
from peft import PeftModel
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
model = PeftModel.from_pretrained(model, sys.argv[2]).eval()
ids = torch.tensor([json.loads(sys.argv[3])])
prompt = int(sys.argv[4])
with torch.no_grad():
    logits = model(ids).logits[0].log_softmax(-1)
print(json.dumps({"logprobs": logits[:-1].gather(1, ids[0, 1:, None])[:, 0].tolist(),
                  "greedy": logits[prompt - 1:-1].argmax(-1).tolist()}))
)",
        "'" + at("model").string() + "' '" + at(name).string() + "' '" +
            [&] {
              json ids = choice["prompt_token_ids"];
              for (const json& id : choice["token_ids"]) ids.push_back(id);
              return ids.dump();
            }() +
            "' " + std::to_string(choice["prompt_token_ids"].size()));
    ASSERT_EQ(result.code, 0) << result.output;
    const json theirs = json::parse(result.output.substr(result.output.rfind('{')));
    EXPECT_EQ(choice["token_ids"], theirs["greedy"]);
    const json& ours = choice["logprobs"]["token_logprobs"];
    ASSERT_EQ(ours.size(), theirs["logprobs"].size() + 1);
    for (std::size_t i = 1; i < ours.size(); ++i)
      EXPECT_NEAR(ours[i].get<double>(), theirs["logprobs"][i - 1].get<double>(), 2e-5) << name << " " << i;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
