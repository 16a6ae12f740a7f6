// The endpoints for a trainer in another process: new weights and sleep while clients ask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "serving/adapter_folder.hpp"
#include "serving/server_process.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::serving::json;
using namespace std::chrono_literals;
using testing::HasSubstr;

struct weight_updates : testing::Test {
  inline static std::unique_ptr<scratch::folder> place;
  static std::filesystem::path at(const std::string& name) { return *place / name; }
  static void SetUpTestSuite() {
    place = std::make_unique<scratch::folder>();
    for (const char* name : {"old", "new", "experts"}) {
      std::filesystem::create_directories(at(name));
      tiny_model::save_tokenizer(at(name));
      tiny_model::save_weights(at(name), name[0] == 'o' ? 3 : 4, name[0] == 'e' ? 4 : 0);
    }
    save_adapter(at("adapter"), at("old"), 1);
  }
  static void TearDownTestSuite() { place.reset(); }

  /// The status and the body of a POST.
  static std::pair<int, std::string> post(const server_process& s, const std::string& path, const std::string& body) {
    const auto r = s.client().Post(path.c_str(), body, "application/json");
    return r ? std::pair{r->status, r->body} : std::pair{0, std::string("no answer")};
  }
  static std::pair<int, std::string> update(const server_process& s, const std::string& name,
                                            const std::string& mode = "wait") {
    return post(s, "/update_weights", json{{"model", at(name)}, {"mode", mode}}.dump());
  }
  static void wait_for_requests(const server_process& s) {
    for (int i = 0; i < 2000 && s.client().Get("/load")->body == R"({"server_load":0})"; ++i)
      std::this_thread::sleep_for(2ms);
  }
};

const std::vector<std::string> dev{"--enable-dev-endpoints"};
const std::string endless = R"({"prompt": "a", "max_tokens": 900, "ignore_eos": true, "seed": 1, "n": 48})";
const std::string unseeded = R"({"prompt": "How many apples?", "max_tokens": 40, "ignore_eos": true})";

TEST_F(weight_updates, requests_end_with_the_weights_that_they_began_with) {
  const std::string old_text = server_process(at("old")).text(endless);
  std::array<std::string, 2> expected;
  {
    const server_process alone(at("new"));
    for (std::string& text : expected) text = alone.text(unseeded);
  }
  const server_process s(at("old"), dev);
  s.text(unseeded);
  std::string running;
  std::thread first([&] { running = s.text(endless); });
  wait_for_requests(s);
  std::thread trainer([&] { EXPECT_EQ(update(s, "new").first, 200); });
  trainer.join();
  first.join();
  EXPECT_EQ(running, old_text);
  EXPECT_EQ((std::array{s.text(unseeded), s.text(unseeded)}), expected) << "as of a server that starts with them";
}

/// The embedding of a folder in BF16 is read from what products read, that of one in F32 is not.
TEST_F(weight_updates, may_be_stored_in_another_type) {
  rlcore::cpu device(1);
  const rlcore::nn::causal_lm<rlcore::cpu> shape(device, rlcore::checkpoint::read_config(at("old")), {},
                                                 rlcore::nn::weights_in::units);
  std::vector<float> weights(shape.size());
  rlcore::checkpoint::load_weights(at("old"), shape.parameters(), weights);
  std::filesystem::create_directories(at("short"));
  tiny_model::save_tokenizer(at("short"));
  rlcore::checkpoint::write_config(at("short"), shape.settings());
  rlcore::checkpoint::save_weights(at("short"), shape.parameters(), weights, rlcore::checkpoint::stored_type::bf16);
  const auto answer = [](const server_process& s) {
    const json a = s.post("/v1/completions", R"({"prompt": "How many?", "max_tokens": 20, "seed": 3, "logprobs": 2,
                                                 "echo": true, "ignore_eos": true})");
    return a["choices"].dump() + a["system_fingerprint"].dump();
  };
  using words = std::vector<std::string>;
  for (const words& arithmetic : {words{"--dtype", "float32"}, {"--dtype", "bfloat16"}, {"--rlcore-weights", "int8"}}) {
    const std::string wide = answer(server_process(at("old"), arithmetic)),
                      narrow = answer(server_process(at("short"), arithmetic));
    ASSERT_NE(wide, narrow);
    words more = dev;
    more.insert(more.end(), arithmetic.begin(), arithmetic.end());
    const server_process s(at("old"), more);
    EXPECT_EQ(answer(s), wide);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(update(s, "short").first, 200);
      EXPECT_EQ(answer(s), narrow) << arithmetic.back();
      EXPECT_EQ(update(s, "old").first, 200);
      EXPECT_EQ(answer(s), wide) << arithmetic.back();
    }
  }
}

TEST_F(weight_updates, lose_no_request_of_many_clients) {
  const std::string request = R"({"prompt": "b", "max_tokens": 60, "ignore_eos": true, "seed": 2})";
  const std::array texts{server_process(at("old")).text(request), server_process(at("new")).text(request)};
  ASSERT_NE(texts[0], texts[1]);
  const server_process s(at("old"), dev);
  std::atomic<bool> ended{false};
  std::atomic<int> answers{0}, wrong{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] {
      while (!ended) {
        const std::string text = s.text(request);
        wrong += text != texts[0] && text != texts[1];
        ++answers;
      }
    });
  for (int i = 1; i <= 6; ++i) EXPECT_EQ(update(s, i % 2 == 0 ? "old" : "new").first, 200);
  EXPECT_EQ(post(s, "/reset_prefix_cache", "").first, 200);
  EXPECT_EQ(post(s, "/sleep?level=1", "").first, 200);
  EXPECT_EQ(s.client().Get("/is_sleeping")->body, R"({"is_sleeping":true})");
  EXPECT_EQ(update(s, "new").first, 200);
  const int before = answers;
  EXPECT_EQ(post(s, "/wake_up", "").first, 200);
  EXPECT_EQ(s.client().Get("/is_sleeping")->body, R"({"is_sleeping":false})");
  while (answers < before + 20) std::this_thread::sleep_for(1ms);
  ended = true;
  for (std::thread& c : clients) c.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(s.text(request), texts[1]);
}

TEST_F(weight_updates, running_requests_may_go_on_with_the_new_weights) {
  const std::array texts{server_process(at("old")).text(endless), server_process(at("new")).text(endless)};
  const server_process s(at("old"), dev);
  std::string running;
  std::thread client([&] { running = s.text(endless); });
  wait_for_requests(s);
  EXPECT_EQ(update(s, "new", "keep").first, 200);
  EXPECT_EQ(s.client().Get("/load")->body, R"({"server_load":1})") << "it was not waited for";
  client.join();
  EXPECT_FALSE(running.empty());
  EXPECT_EQ(s.text(endless), texts[1]);
}

TEST_F(weight_updates, leave_adapters_as_they_are) {
  std::vector<std::string> words = dev;
  words.insert(words.end(), {"--enable-lora", "--lora-modules", "adapter=" + at("adapter").string()});
  const server_process s(at("old"), words);
  const std::string request = R"({"model": "adapter", "prompt": "b", "max_tokens": 30, "seed": 2})";
  const std::string before = s.text(request);
  EXPECT_EQ(update(s, "new").first, 200);
  EXPECT_EQ(s.text(request), before);
}

TEST_F(weight_updates, wrong_ones_change_nothing) {
  const server_process s(at("old"), dev);
  const std::string request = R"({"prompt": "b", "max_tokens": 30, "seed": 2})", before = s.text(request);
  const auto refused = [&](const std::pair<int, std::string>& answer, const std::string& message) {
    EXPECT_EQ(answer.first, 400) << answer.second;
    EXPECT_THAT(json::parse(answer.second)["error"]["message"].get<std::string>(), HasSubstr(message));
  };
  refused(update(s, "nowhere"), "not found");
  refused(update(s, "experts"), "has a model of another shape: ");
  json config = json::parse(scratch::read(at("new") / "config.json"));
  config["rms_norm_eps"] = 0.5;
  std::filesystem::create_directories(at("other"));
  scratch::write(at("other") / "config.json", config.dump());
  refused(update(s, "other"), "rms_norm_eps is 0.5, expected 1e-06");
  refused(update(s, "new", "abort"), "mode: expected wait or keep, found 'abort'");
  refused(post(s, "/update_weights", "{}"), "model: expected a folder of weights");
  refused(post(s, "/sleep?level=2", ""), "level=2: expected level=1");
  EXPECT_EQ(s.text(request), before);
}

TEST_F(weight_updates, need_their_flag_and_the_key) {
  const server_process closed(at("old"));
  for (const char* path : {"/update_weights", "/sleep", "/wake_up", "/reset_prefix_cache"})
    EXPECT_EQ(post(closed, path, "").first, 404) << path;
  EXPECT_EQ(closed.client().Get("/is_sleeping")->status, 404);
  std::vector<std::string> words = dev;
  words.insert(words.end(), {"--api-key", "secret"});
  const server_process guarded(at("old"), words);
  for (const char* path : {"/update_weights", "/sleep", "/wake_up", "/reset_prefix_cache"})
    EXPECT_EQ(post(guarded, path, "").first, 401) << path;
}

TEST_F(weight_updates, an_adapter_that_is_away_stays_so_while_the_server_sleeps) {
  save_adapter(at("adapter2"), at("old"), 2);
  std::vector<std::string> more = dev;
  more.insert(more.end(), {"--enable-lora", "--max-loras", "1", "--lora-modules", "one=" + at("adapter").string(),
                           "two=" + at("adapter2").string()});
  const server_process s(at("old"), more);
  const auto ask = [&](const char* model) {
    return s.text(json{{"model", model}, {"prompt", "b"}, {"max_tokens", 30}, {"seed", 2}}.dump());
  };
  const std::string one = ask("one"), two = ask("two");
  EXPECT_NE(one, two);
  EXPECT_EQ(post(s, "/sleep", "").first, 200);
  std::string late;
  std::thread client([&] { late = ask("one"); });
  std::this_thread::sleep_for(120ms);
  EXPECT_EQ(update(s, "new").first, 200) << "adapters stay with the weights that they were added to";
  EXPECT_EQ(post(s, "/wake_up", "").first, 200);
  client.join();
  EXPECT_EQ(late, one);
  EXPECT_EQ(ask("two"), two);
}

TEST_F(weight_updates, a_server_that_sleeps_can_be_stopped) {
  server_process s(at("old"), dev);
  EXPECT_EQ(post(s, "/sleep", "").first, 200);
  std::pair<int, std::string> answer;
  std::thread client([&] { answer = post(s, "/v1/completions", unseeded); });
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(s.stop(), 143);
  client.join();
  EXPECT_EQ(answer.first, 503);
}

TEST_F(weight_updates, an_adapter_may_go_while_the_server_sleeps_or_forgets) {
  std::vector<std::string> more = dev;
  more.insert(more.end(), {"--enable-lora", "--max-loras", "2"});
  server_process s(at("old"), more);
  const std::string load = json{{"lora_name", "one"}, {"lora_path", at("adapter")}}.dump(),
                    unload = R"({"lora_name": "one"})";
  for (const char* path : {"/sleep", "/reset_prefix_cache"}) {
    ASSERT_EQ(post(s, "/v1/load_lora_adapter", load).first, 200);
    std::thread changing([&] { EXPECT_EQ(post(s, path, "{}").first, 200) << path; });
    EXPECT_EQ(post(s, "/v1/unload_lora_adapter", unload).first, 200);
    changing.join();
    EXPECT_EQ(post(s, "/wake_up", "{}").first, 200);
    EXPECT_EQ(post(s, "/v1/completions", unseeded).first, 200);
  }
  ASSERT_EQ(post(s, "/v1/load_lora_adapter", load).first, 200);
  ASSERT_EQ(post(s, "/sleep", "{}").first, 200);
  ASSERT_EQ(post(s, "/v1/unload_lora_adapter", unload).first, 200);
  ASSERT_EQ(post(s, "/wake_up", "{}").first, 200);
  EXPECT_EQ(post(s, "/v1/completions", unseeded).first, 200);
  EXPECT_EQ(s.stop(), 143);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
