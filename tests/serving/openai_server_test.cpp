// The program as clients see it, with a random model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/served_model.hpp"
#include "serving/server_process.hpp"
#include "support/program.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::serving::json;
using namespace std::chrono_literals;
using testing::HasSubstr;

const std::string json_type = "application/json";

struct openai_server : testing::Test {
  inline static std::unique_ptr<scratch::folder> place;
  static std::filesystem::path model() { return *place / "model"; }
  static void SetUpTestSuite() {
    place = std::make_unique<scratch::folder>();
    std::filesystem::create_directories(model());
    tiny_model::save_tokenizer(model());
    tiny_model::save_weights(model(), 3);
  }
  static void TearDownTestSuite() { place.reset(); }
};

TEST_F(openai_server, lists_its_model) {
  const server_process s(model());
  const json m = json::parse(s.client().Get("/v1/models")->body)["data"][0];
  EXPECT_EQ(m["id"], "auto");
  EXPECT_EQ(m["max_model_len"], 1024);
  EXPECT_EQ(m["root"], model().string());
}

TEST_F(openai_server, notes_a_proxy_that_clients_would_ask) {
  const auto printed = [](const char* around) {
    ::setenv("http_proxy", "http://127.0.0.1:1", 1);
    ::setenv("no_proxy", around, 1);
    const server_process s(model());
    ::unsetenv("http_proxy"), ::unsetenv("no_proxy");
    return s.out();
  };
  EXPECT_THAT(printed("example.com"), testing::HasSubstr("note: http_proxy is set"));
  EXPECT_THAT(printed("example.com,localhost"), testing::Not(testing::HasSubstr("http_proxy")));
  EXPECT_THAT(printed("*"), testing::Not(testing::HasSubstr("http_proxy")));
}

/// What one client of AISBench sends, over and over.
const std::string aisbench =
    R"({"prompt": "How many?\nPlease reason step by step, and put your final answer within \\boxed{}.", "stream": false,
        "repetition_penalty": 1.03, "seed": null, "temperature": 0.5, "top_k": 10, "top_p": 0.95, "max_tokens": 60,
        "model": "auto", "ignore_eos": true})";

TEST_F(openai_server, a_restarted_server_repeats_itself_whatever_the_order_of_arrival) {
  std::multiset<std::string> alone, together;
  {
    const server_process s(model());
    for (int i = 0; i < 6; ++i) alone.insert(s.text(aisbench));
  }
  EXPECT_EQ(std::set<std::string>(alone.begin(), alone.end()).size(), 6u) << "each time another text";
  const server_process s(model());
  std::mutex mutex;
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i)
    clients.emplace_back([&] {
      const std::string text = s.text(aisbench);
      const std::lock_guard lock(mutex);
      together.insert(text);
    });
  for (int i = 0; i < 12; ++i) s.text(R"({"prompt": "other", "max_tokens": 5})");
  for (auto& c : clients) c.join();
  EXPECT_EQ(together, alone);
}

TEST_F(openai_server, fifty_clients_get_the_texts_that_one_gets) {
  const server_process s(model());
  const auto request = [](int i) {
    return R"({"prompt": "Question )" + std::to_string(i % 7) + R"(", "max_tokens": )" + std::to_string(10 + i) +
           R"(, "seed": )" + std::to_string(i) +
           R"(, "temperature": 1.2, "ignore_eos": true, "frequency_penalty": 0.5})";
  };
  std::vector<std::string> alone(50), together(50);
  for (int i = 0; i < 50; ++i) alone[static_cast<std::size_t>(i)] = s.text(request(i));
  std::vector<std::thread> clients;
  for (int i = 0; i < 50; ++i)
    clients.emplace_back([&, i] { together[static_cast<std::size_t>(i)] = s.text(request(i)); });
  for (auto& c : clients) c.join();
  EXPECT_EQ(together, alone);
}

TEST_F(openai_server, streams_have_the_text_of_bodies) {
  const server_process s(model());
  const std::string request = R"({"messages": [{"role": "user", "content": "How many?"}], "seed": 5, "max_tokens": 80,
      "temperature": 1.5, "n": 2)";
  const json body = s.post("/v1/chat/completions", request + "}");
  const std::string events =
      s.client().Post("/v1/chat/completions", request + R"(, "stream": true})", json_type.c_str())->body;
  std::array<std::string, 2> texts;
  for (std::size_t at = 0; (at = events.find("data: {", at)) != events.npos; ++at) {
    const json choice = json::parse(events.substr(at + 6, events.find("\n\n", at) - at - 6))["choices"][0];
    texts.at(choice["index"].get<std::size_t>()) += choice["delta"].value("content", "");
  }
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(texts.at(i), body["choices"][i]["message"]["content"]);
  EXPECT_THAT(events, HasSubstr("data: [DONE]\n\n"));
}

TEST_F(openai_server, an_echo_scores_what_was_generated_as_it_was_generated) {
  const server_process s(model());
  const json made = s.post("/v1/completions", R"({"prompt": "How many", "seed": 1, "max_tokens": 20, "logprobs": 2,
      "return_token_ids": true, "ignore_eos": true})")["choices"][0];
  json ids = made["prompt_token_ids"];
  for (const json& id : made["token_ids"]) ids.push_back(id);
  const json request{{"prompt", ids}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 2}};
  const json scored = s.post("/v1/completions", request.dump())["choices"][0]["logprobs"];
  const std::size_t prompt = made["prompt_token_ids"].size();
  for (std::size_t i = 0; i < made["token_ids"].size(); ++i) {
    EXPECT_EQ(scored["token_logprobs"][prompt + i], made["logprobs"]["token_logprobs"][i]);
    EXPECT_EQ(scored["top_logprobs"][prompt + i], made["logprobs"]["top_logprobs"][i]);
  }
}

TEST_F(openai_server, rules_hold) {
  const server_process s(model());
  const json free = s.post("/v1/completions", R"({"prompt": "a", "temperature": 0, "max_tokens": 8, "ignore_eos": true,
      "return_token_ids": true})")["choices"][0];
  const int first = free["token_ids"][0];
  const std::string id = std::to_string(first);
  const std::string begin =
      R"({"prompt": "a", "temperature": 0, "max_tokens": 8, "ignore_eos": true, "return_token_ids": true, )";
  const auto ids = [&](const std::string& more) {
    return s.post("/v1/completions", begin + more + "}")["choices"][0]["token_ids"].get<std::vector<int>>();
  };
  EXPECT_THAT(ids(R"("logit_bias": {")" + id + R"(": -100})"), testing::Not(testing::Contains(first)));
  EXPECT_THAT(ids(R"("allowed_token_ids": [)" + id + "]"), testing::Each(first));
  const auto stopped = s.post("/v1/completions", begin + R"("stop_token_ids": [)" + id + R"(]})")["choices"][0];
  EXPECT_EQ(stopped["stop_reason"], first);
  EXPECT_EQ(stopped["text"], "");
  EXPECT_GT(ids(R"("min_tokens": 5, "stop_token_ids": [)" + id + "]").size(), 5u);
}

TEST_F(openai_server, tokens_and_back) {
  const server_process s(model());
  const json tokens = s.post("/tokenize", R"({"prompt": "How many", "return_token_strs": true})");
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  EXPECT_EQ(tokens["max_model_len"], 1024);
  EXPECT_EQ(s.post("/detokenize", json{{"tokens", tokens["tokens"]}}.dump())["prompt"], "How many");
  const json chat = s.post("/tokenize", R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_GT(chat["count"], tokens["count"]);
}

TEST_F(openai_server, finishes_running_requests_before_it_ends) {
  server_process s(model(), {"--shutdown-timeout", "300"});
  json answer;
  std::atomic<bool> answered{false};
  std::thread client([&] {
    answer = s.post("/v1/completions", R"({"prompt": "a", "max_tokens": 900, "ignore_eos": true, "n": 500})");
    answered = true;
  });
  EXPECT_TRUE(s.has_load(1));
  s.signal(SIGTERM);
  EXPECT_FALSE(answered) << "it ended before the signal";
  client.join();
  ASSERT_EQ(answer["choices"].size(), 500u) << answer;
  for (const json& choice : answer["choices"]) EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 500 * 900);
  EXPECT_EQ(s.end_within(20s), "exit code 143");
}

TEST_F(openai_server, aborts_what_does_not_end_in_time) {
  server_process s(model(), {"--shutdown-timeout", "0"});
  json answer;
  std::thread client([&] {
    answer = s.post("/v1/completions", R"({"prompt": "a", "max_tokens": 1000, "ignore_eos": true, "n": 200})");
  });
  EXPECT_TRUE(s.has_load(1));
  EXPECT_EQ(s.stop(), 143);
  client.join();
  ASSERT_EQ(answer["choices"].size(), 200u) << answer;
  EXPECT_EQ(answer["choices"].back()["finish_reason"], "abort");
  EXPECT_LT(answer["usage"]["completion_tokens"], 200 * 1000);
}

TEST_F(openai_server, multiplies_in_the_type_that_is_fastest_for_the_stored_one) {
  const scratch::folder other;
  std::filesystem::copy(model(), other / "bf16");
  json config = json::parse(scratch::read(model() / "config.json"));
  config.erase("torch_dtype"), config["dtype"] = "bfloat16";
  scratch::write(other / "bf16" / "config.json", config.dump());
  const std::string asked = R"({"prompt": "How many apples", "max_tokens": 20, "temperature": 0, "logprobs": 1})";
  const auto answers_of = [&](const std::filesystem::path& folder, const std::vector<std::string>& more) {
    const server_process s(folder, more);
    return s.post("/v1/completions", asked)["choices"][0]["logprobs"]["token_logprobs"];
  };
  const json floats = answers_of(model(), {}), halves = answers_of(model(), {"--dtype", "bfloat16"});
  EXPECT_EQ(floats, answers_of(other / "bf16", {"--dtype", "float32"}));
  EXPECT_EQ(halves, answers_of(other / "bf16", {"--dtype", "bfloat16"}));
  const bool has_products = rlcore::serving::multiplies_bfloat16(rlcore::cpu_kernels::choose().name);
  EXPECT_EQ(answers_of(other / "bf16", {}), has_products ? halves : floats);
  EXPECT_EQ(answers_of(other / "bf16", {"rlcore.instruction_set=portable"}), floats);
  EXPECT_EQ(floats, answers_of(other / "bf16", {"rlcore.compute=float32"}));
  EXPECT_NE(floats, halves);
}

TEST_F(openai_server, processed_log_probs_are_those_of_the_draw) {
  const server_process s(model(), {"--logprobs-mode", "processed_logprobs"});
  json asked = {{"prompt", "How many apples"}, {"max_tokens", 20}, {"seed", 3}, {"logprobs", 2}, {"top_k", 1},
                {"ignore_eos", true}};
  const json sure = s.post("/v1/completions", asked.dump())["choices"][0]["logprobs"]["token_logprobs"];
  ASSERT_EQ(sure.size(), 20u);
  for (const json& logp : sure) EXPECT_EQ(logp, 0.0) << "only one token can be drawn";
  asked["top_k"] = 3;
  const json likely = s.post("/v1/completions", asked.dump())["choices"][0]["logprobs"]["top_logprobs"];
  for (const json& of : likely)
    for (const auto& [token, logp] : of.items()) EXPECT_LT(logp, 0.0);
  asked["max_tokens"] = 0, asked["echo"] = true, asked["top_k"] = 1;
  const json scored = s.post("/v1/completions", asked.dump())["choices"][0]["logprobs"]["token_logprobs"];
  ASSERT_GT(scored.size(), 2u);
  EXPECT_LT(scored.back(), -0.01) << "a prompt is scored by the model's own distribution";
}

TEST_F(openai_server, mistakes_are_one_line) {
  const std::string m = model().string();
  const auto fails = [&](const std::vector<std::string>& words, const std::string& message) {
    const program::result r = program::run("openai_server", words);
    EXPECT_EQ(r.code, 1);
    EXPECT_THAT(r.err, HasSubstr(message));
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  };
  fails({}, "--model is missing");
  fails({"--modle", m}, "unknown flag '--modle' (did you mean '--model'?)");
  fails({m, "--max-model-len", "2000"}, "--max-model-len 2000: the model has 1024 positions (max_position_embeddings)");
  fails({m, "--quantization", "awq"}, "--quantization awq");
  fails({m, "--enable_auto_tool_choice"}, "go together");
  fails({m, "--override-generation-config", R"({"temprature": 1})"}, "did you mean 'temperature'?");
  fails({"/nowhere"}, "model '/nowhere' not found");
  fails({m, "--api-key", ""}, "--api-key is empty");
  fails({m, "--rlcore-record", "/nowhere/x"}, "--rlcore-record /nowhere/x: No such file or directory");
  fails({m, "--override-generation-config", R"({"max_new_tokens": 0})"}, "max_new_tokens must be at least 1, got 0");
}

TEST_F(openai_server, records_requests) {
  const std::string file = (*place / "record.jsonl").string();
  const server_process s(model(), {"--rlcore-record", file});
  const std::string text = s.text(R"({"prompt": "hi", "seed": 1})");
  const json line = json::parse(scratch::read(file));
  EXPECT_EQ(line["responses"], json::array({text}));
  EXPECT_EQ(line["request"]["prompt"], "hi");
}

TEST_F(openai_server, scores_a_prompt_of_the_full_length) {
  const server_process s(model());
  const auto log_probs = [&](std::size_t length, int new_tokens) {
    const json request{{"prompt", std::vector<int>(length, 40)},
                       {"echo", true},
                       {"logprobs", 2},
                       {"max_tokens", new_tokens},
                       {"prompt_logprobs", 0}};
    return s.post("/v1/completions", request.dump())["choices"][0];
  };
  EXPECT_EQ(log_probs(1024, 0)["logprobs"]["token_logprobs"].size(), 1024u);
  const json scored = log_probs(100, 0), continued = log_probs(100, 1);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(scored["logprobs"]["token_logprobs"][i], continued["logprobs"]["token_logprobs"][i]) << i;
    EXPECT_EQ(scored["logprobs"]["top_logprobs"][i], continued["logprobs"]["top_logprobs"][i]) << i;
  }
  EXPECT_EQ(scored["prompt_logprobs"], continued["prompt_logprobs"]) << "ranks, too";
}

TEST_F(openai_server, says_why_a_chat_template_cannot_be_read) {
  const scratch::folder broken;
  std::filesystem::copy(model(), broken.path(), std::filesystem::copy_options::recursive);
  scratch::write(broken / "chat_template.jinja", "{% for m in messages %}");
  const server_process s(broken.path());
  const json answer = s.post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_THAT(answer["error"]["message"].get<std::string>(), HasSubstr("chat_template.jinja"));
}

TEST_F(openai_server, a_program_that_is_named_and_not_there_is_no_other_one) {
  const scratch::folder output;
  const std::string command = "RLCORE_OPENAI_SERVER=/nowhere/openai_server '" + std::string(RLCORE_SOURCE_DIR) +
                              "/examples/compat/bin/vllm' serve m > '" + (output / "out").string() + "' 2>&1";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
  EXPECT_THAT(scratch::read(output / "out"), HasSubstr("'/nowhere/openai_server', which cannot be run"));
}

TEST_F(openai_server, starts_by_vllms_command_lines) {
  const std::string flags = " --model='" + model().string() +
                            "' --served-model-name auto --gpu-memory-utilization 0.9 --max-num-seqs 24 --max-model-len "
                            "22528 --max-num-batched-tokens 22528 --enforce-eager --trust-remote-code "
                            "--distributed_executor_backend=mp --tensor-parallel-size 8 --data-parallel-size 1 "
                            "--generation-config vllm --port 0";
  const std::string compat = std::string(RLCORE_SOURCE_DIR) + "/examples/compat";
  const std::string set =
      "RLCORE_OPENAI_SERVER='" + program::path_of("openai_server").string() + "' PYTHONDONTWRITEBYTECODE=1 ";
  // The model is too short for these flags: the program's own answer shows that it was started with them.
  const scratch::folder output;
  for (const std::string& command :
       {set + "PYTHONPATH='" + compat + "' python3 -m vllm.entrypoints.openai.api_server" + flags,
        set + "'" + compat + "/bin/vllm' serve '" + model().string() + "'" + flags.substr(flags.find(" --served"))}) {
    const int status = std::system((command + " > '" + (output / "out").string() + "' 2>&1").c_str());
    const std::string out = scratch::read(output / "out");
    if (out.find("python3: not found") != out.npos) continue;
    EXPECT_EQ(WEXITSTATUS(status), 1) << out;
    EXPECT_THAT(out, HasSubstr("--max-model-len 22528: the model has 1024 positions"));
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
