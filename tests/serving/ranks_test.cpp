// A server whose ranks have the model together: the engine where one of them fails, and the program beside one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/served_ranks.hpp"
#include "rlcore/serving/session_engine.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rollout/failing_group.hpp"
#include "serving/adapter_folder.hpp"
#include "serving/server_process.hpp"
#include "support/program.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace rollout = rlcore::rollout;
namespace serving = rlcore::serving;
using namespace std::chrono_literals;
using rlcore::cpu;
using serving::json;
using testing::HasSubstr;
using words = std::vector<std::string>;

struct ranks_of_a_server : testing::Test {
  inline static std::unique_ptr<scratch::folder> place;
  static std::filesystem::path at(const std::string& name) { return *place / name; }
  static void SetUpTestSuite() {
    place = std::make_unique<scratch::folder>();
    for (const char* name : {"model", "new"}) {
      std::filesystem::create_directories(at(name));
      tiny_model::save_tokenizer(at(name));
      tiny_model::save_weights(at(name), name[0] == 'm' ? 3 : 4);
    }
    std::filesystem::create_directories(at("moe"));
    tiny_model::save_tokenizer(at("moe"));
    tiny_model::save_weights(at("moe"), 3, 5);
    save_adapter(at("adapter"), at("model"), 1), save_adapter(at("moe_adapter"), at("moe"), 1);
  }
  static void TearDownTestSuite() { place.reset(); }

  /// Flags of a server of so many ranks, all of which add up as two do.
  static words ranks(const char* n, words more = {}) {
    more.insert(more.end(), {"--rlcore-ranks", n, "rlcore.row_chunks=2"});
    return more;
  }
};

/// What a listener hears of one job until its end: the number of tokens and the problem.
std::pair<std::size_t, std::string> heard(serving::inbox& from) {
  for (std::size_t tokens = 0;;) {
    const auto message = from.take(20s);
    if (!message) return {tokens, "nothing came"};
    if (const auto* end = std::get_if<serving::inbox::end_report>(&message->what)) return {tokens, end->problem};
    ++tokens;
  }
}

TEST_F(ranks_of_a_server, end_all_jobs_with_one_line_when_one_of_them_fails) {
  std::vector<std::unique_ptr<cpu>> devices;
  for (int rank = 0; rank < 2; ++rank) devices.push_back(std::make_unique<cpu>(1));
  for (int bad = 0; bad < 2; ++bad) {
    serving::served_ranks<cpu> ranks(devices, 20s);
    serving::ranked_model<cpu> model(ranks, rlcore::checkpoint::read_config(at("model")));
    ranks.run([&](int rank) {
      rlcore::train::load_packed(model.part(rank), at("model"), {}, [](std::size_t, std::span<const float>) {});
    });
    rollout::session_limits limits;
    limits.max_cache_bytes = std::size_t{1} << 20;
    serving::engine_thread thread;
    std::vector<std::string> failed;
    serving::session_engine<cpu> engine(
        model.part(0), ranks.space(0), limits, thread, [&](const std::string& why) { failed.push_back(why); },
        model.group());
    rollout::job job;
    job.prompt = {1, 2, 3}, job.max_new_tokens = 500;
    const auto first = std::make_shared<serving::inbox>(), second = std::make_shared<serving::inbox>(),
               late = std::make_shared<serving::inbox>();
    thread.run([&] { engine.forget_prefixes(), engine.release(), engine.build(); });
    failing_group broken(*ranks.tensor(bad));
    broken.fails_at = 40;  // some passes later
    thread.run([&] {
      model.part(bad).set_tensor_group(&broken);
      engine.submit({job}, first);
      engine.submit({job}, second);
    });
    const std::string why = "card " + std::to_string(bad) + " is gone";
    for (const auto& each : {first, second}) {
      const auto [tokens, problem] = heard(*each);
      EXPECT_GT(tokens, 0u);
      EXPECT_EQ(problem, why);
    }
    thread.run([&] { EXPECT_THAT(failed, testing::ElementsAre(why)); });
    EXPECT_TRUE(engine.load().broken);
    engine.submit({job}, late);
    EXPECT_EQ(heard(*late), (std::pair<std::size_t, std::string>(0, why)));
  }
}

TEST_F(ranks_of_a_server, have_each_a_part_of_the_model) {
  std::vector<std::unique_ptr<cpu>> one, two;
  one.push_back(std::make_unique<cpu>(1));
  for (int rank = 0; rank < 2; ++rank) two.push_back(std::make_unique<cpu>(1));
  serving::served_ranks<cpu> alone(one, 20s), together(two, 20s);
  for (const char* name : {"model", "moe"}) {
    const rlcore::nn::config config = rlcore::checkpoint::read_config(at(name));
    serving::ranked_model<cpu> whole(alone, config), cut(together, config);
    const auto nothing = [](std::size_t, std::span<float> values) { std::fill(values.begin(), values.end(), 0.0f); };
    for (auto* m : {&whole, &cut}) m->fill(rlcore::weight_format::float32, rlcore::nn::bf16_weights::none, nothing);
    EXPECT_EQ(whole.group(), nullptr);
    EXPECT_EQ(cut.parameters(), whole.parameters()) << name;
    EXPECT_EQ(whole.size(), whole.parameters());
    EXPECT_LT(static_cast<double>(cut.bytes()), 0.65 * static_cast<double>(whole.bytes())) << name;
  }
}

/// Requests of all kinds, as texts of their answers.
words answers(const server_process& s) {
  const std::pair<std::string, json> requests[] = {
      {"completions", {{"prompt", "How many?"}, {"temperature", 0}, {"logprobs", 3}, {"prompt_logprobs", 2}}},
      {"completions",
       {{"prompt", "How many?"}, {"seed", 4}, {"n", 3}, {"top_p", 0.9}, {"echo", true}, {"logprobs", 1}}},
      {"completions", {{"prompt", "How many apples?"}}},
      {"completions", {{"prompt", "How many apples?"}}},
      {"completions",
       {{"prompt", {"a", "b"}}, {"seed", 1}, {"repetition_penalty", 1.2}, {"frequency_penalty", 0.5}, {"min_p", 0.01}}},
      {"chat/completions",
       {{"messages", {{{"role", "user"}, {"content", "How many?"}}}}, {"logprobs", true}, {"top_logprobs", 2}}},
  };
  words all;
  for (auto [path, body] : requests) {
    body.update({{"max_tokens", 40}, {"ignore_eos", true}, {"return_token_ids", true}});
    const json answer = s.post("/v1/" + path, body.dump());
    all.push_back(answer["choices"].dump() + answer["usage"].dump());
    EXPECT_THAT(all.back(), HasSubstr("\"finish_reason\":\"length\"")) << body;
  }
  const auto r = s.client().Post(
      "/v1/completions", R"({"prompt": "c", "seed": 2, "max_tokens": 40, "stream": true, "n": 2})", "application/json");
  for (std::size_t begin = 0; r && (begin = r->body.find("\"choices\":", begin)) != r->body.npos; ++begin)
    all.push_back(r->body.substr(begin, r->body.find('\n', begin) - begin));
  std::sort(all.begin() + 6, all.end());  // of two choices any may be told first
  return all;
}

TEST_F(ranks_of_a_server, answer_with_the_bits_of_one_with_row_chunks) {
  for (const words& more : {words{}, {"--dtype", "bfloat16"}, {"--rlcore-weights", "int8"}}) {
    const words expected = answers(server_process(at("model"), ranks("1", more)));
    const server_process two(at("model"), ranks("2", more));
    EXPECT_EQ(answers(two), expected);
    EXPECT_THAT(two.out(), HasSubstr(" on 2 ranks, each cpu"));
    EXPECT_EQ(two.client().Get("/health")->status, 200);
    EXPECT_THAT(two.client().Get("/metrics")->body, HasSubstr("rlcore_num_requests_running{model_name=\"auto\"} 0\n"));
  }
}

/// Without row chunks they add up in another order: the words of the first tokens are those of one rank, log-probs
/// near.
TEST_F(ranks_of_a_server, are_near_one_without_row_chunks) {
  const std::string request = R"({"prompt": "How many?", "max_tokens": 0, "echo": true, "logprobs": 0})";
  const auto scores = [&](const char* n) {
    const server_process s(at("model"), {"--rlcore-ranks", n});
    return s.post("/v1/completions", request)["choices"][0]["logprobs"]["token_logprobs"];
  };
  const json one = scores("1"), two = scores("2");
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t i = 1; i < one.size(); ++i) EXPECT_NEAR(one[i].get<double>(), two[i].get<double>(), 1e-4);
}

TEST_F(ranks_of_a_server, take_adapters_and_new_weights) {
  const words flags{"--enable-dev-endpoints",           "--enable-lora", "--max-loras", "1", "--lora-modules",
                    "adapter=" + at("adapter").string()};
  const auto all = [&](const server_process& s) {
    const auto post = [&](const std::string& path, const json& body) {
      const auto r = s.client().Post(path, body.dump(), "application/json");
      EXPECT_EQ(r ? r->status : 0, 200) << path << (r ? r->body : "");
    };
    const auto text = [&](const std::string& name) {
      return s
          .post("/v1/completions",
                json{{"model", name}, {"prompt", "How many?"}, {"seed", 7}, {"max_tokens", 40}, {"logprobs", 1}}
                    .dump())["choices"]
          .dump();
    };
    words texts{text("auto"), text("adapter")};
    post("/update_weights", {{"model", at("new")}});
    texts.push_back(text("auto"));
    post("/sleep", {});
    post("/update_weights", {{"model", at("model")}});
    post("/wake_up", {});
    post("/reset_prefix_cache", {});
    texts.push_back(text("auto"));
    post("/v1/load_lora_adapter", {{"lora_name", "second"}, {"lora_path", at("adapter")}});  // the first one goes away
    texts.push_back(text("second"));
    texts.push_back(text("adapter"));
    return texts;
  };
  const words expected = all(server_process(at("model"), ranks("1", flags)));
  EXPECT_NE(expected[0], expected[1]);
  EXPECT_NE(expected[0], expected[2]);
  EXPECT_EQ(expected[0], expected[3]);
  EXPECT_EQ(expected[1], expected[5]);
  EXPECT_EQ(all(server_process(at("model"), ranks("2", flags))), expected);
}

/// Three experts and two; an adapter changes all.
TEST_F(ranks_of_a_server, divide_experts_and_answer_with_the_bits_of_one) {
  const auto all = [&](const char* n) {
    const server_process s(at("moe"),
                           ranks(n, {"--enable-lora", "--lora-modules", "adapter=" + at("moe_adapter").string()}));
    words texts;
    for (const char* name : {"auto", "adapter"})
      texts.push_back(
          s.post("/v1/completions",
                 json{{"model", name}, {"prompt", "How many?"}, {"seed", 7}, {"max_tokens", 40}, {"logprobs", 1}}
                     .dump())["choices"]
              .dump());
    return texts;
  };
  const words one = all("1");
  EXPECT_NE(one[0], one[1]);
  EXPECT_EQ(all("2"), one);
}

TEST_F(ranks_of_a_server, are_those_that_evaluate_asks) {
  const scratch::folder out;
  const tiny_model::files files = tiny_model::make(out.path());
  const auto generations = [&](const char* n) {
    const server_process s(files.model, ranks(n));
    const auto r = program::run("evaluate", {"model.path=" + files.model.string(), "data.files=" + files.val.string(),
                                             "data.max_response_length=12", "output_dir=" + (out / n).string(),
                                             "--server=" + s.url(), "rollout.n=2", "rollout.temperature=1"});
    EXPECT_EQ(r.code, 0) << r.err;
    return scratch::read(out / n / "generations.jsonl");
  };
  const std::string one = generations("1");
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(generations("2"), one);
}

TEST_F(ranks_of_a_server, stop_as_one_does) {
  server_process s(at("model"), ranks("2", {"--shutdown-timeout", "0"}));
  json answer;
  std::thread client([&] {
    answer = s.post("/v1/completions", R"({"prompt": "a", "max_tokens": 1000, "ignore_eos": true, "n": 500})");
  });
  EXPECT_TRUE(s.has_load(1));
  s.signal(SIGINT);
  EXPECT_EQ(s.end_within(20s), "exit code 130");
  client.join();
  EXPECT_EQ(answer["choices"].back()["finish_reason"], "abort");
}

TEST_F(ranks_of_a_server, are_refused_in_one_line_where_they_cannot_be) {
  const auto refused = [&](const words& flags, const std::string& why) {
    words all{at("model").string(), "--port", "0"};
    all.insert(all.end(), flags.begin(), flags.end());
    const program::result r = program::run("openai_server", all);
    EXPECT_EQ(r.code, 1);
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_THAT(r.err, HasSubstr(why));
  };
  refused({"--rlcore-ranks", "8"},
          "--rlcore-ranks 8: tensor parallel: num_attention_heads 4 is not a multiple of the number of ranks 8; "
          "expected one of 1, 2, 4");
  refused({"--rlcore-ranks", "0"}, "--rlcore-ranks");
  refused({"--rlcore-ranks", "2", "rlcore.row_chunks=3"}, "rlcore.row_chunks must be 0 or a power of two");
  refused({"trainer.n_gpus_per_node=2"}, "--rlcore-ranks sets its ranks");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
