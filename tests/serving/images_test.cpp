// Images in conversations: the tokens of transformers (reference/image_parts.py) and the answers of the engine that
// `evaluate` calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rlcore/rollout/engine.hpp"
#include "rlcore/serving/service.hpp"
#include "rlcore/serving/session_engine.hpp"
#include "serving/image_model.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_HAS_IMAGES

namespace {

namespace image = rlcore::image;
namespace nn = rlcore::nn;
namespace rollout = rlcore::rollout;
namespace serving = rlcore::serving;
using image_model::png, image_model::url_of, image_model::question;
using rlcore::cpu;
using serving::json;
using token_list = std::vector<std::int32_t>;

/// A service over the random model.
struct seeing {
  serving::served_model served = image_model::served();
  cpu device{1};
  nn::causal_lm<cpu> model{device, image_model::config()};
  nn::workspace<cpu> space{device};
  serving::engine_thread thread;
  std::unique_ptr<serving::session_engine<cpu>> engine;
  std::unique_ptr<serving::context> shared;
  std::unique_ptr<serving::service> service;

  explicit seeing(rollout::session_limits limits = {}) {
    model.initialize(5);
    limits.max_length = 1024, limits.max_batched_tokens = 256, limits.max_cache_bytes = std::size_t{8} << 20;
    engine = std::make_unique<serving::session_engine<cpu>>(model, space, limits, thread, [](const std::string&) {});
    shared = std::make_unique<serving::context>(served, *engine);
    service = std::make_unique<serving::service>(*shared);
  }
  json post(const std::string& path, const json& body, int status = 200) {
    const serving::http_response r = (*service)({"POST", path, body.dump(), "application/json"});
    EXPECT_EQ(r.status, status) << r.body.substr(0, 400);
    return json::parse(r.body);
  }
  json chat(const json& body) { return post("/v1/chat/completions", body); }
  std::uint64_t images_read() const { return engine->load().images_read; }
};

json sampled(int n = 1) {
  return {{"max_tokens", 12}, {"seed", 3},        {"temperature", 0.9},
          {"n", n},           {"logprobs", true}, {"return_token_ids", true}};
}

const json& golden_parts() {
  static const json read = json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/image_parts.json"));
  return read;
}

TEST(images, conversations_have_the_tokens_of_transformers) {
  seeing s;
  ASSERT_EQ(golden_parts()["max_pixels"], s.served.images.processor->max_pixels);
  for (const json& c : golden_parts()["cases"]) {
    const json body{{"messages", c["messages"]}, {"chat_template_kwargs", c["chat_template_kwargs"]}};
    const json tokens = s.post("/tokenize", body);
    EXPECT_EQ(tokens["tokens"].get<token_list>(), c["read"].get<token_list>()) << c["name"];
    EXPECT_EQ(tokens["count"], c["read"].size());
  }
}

TEST(images, usage_counts_the_tokens_of_images) {
  seeing s;
  for (const json& c : golden_parts()["cases"]) {
    const json answer = s.chat({{"messages", c["messages"]},
                                {"chat_template_kwargs", c["chat_template_kwargs"]},
                                {"max_tokens", 1},
                                {"n", 2},
                                {"return_token_ids", true}});
    EXPECT_EQ(answer["usage"]["prompt_tokens"], c["read"].size()) << c["name"];
    EXPECT_EQ(answer["prompt_token_ids"].get<token_list>(), c["read"].get<token_list>());
  }
}

/// What the closed engine makes of a prompt with images: the path of trainers and of `evaluate`.
std::vector<rollout::response> closed_answers(seeing& s, const token_list& prompt,
                                              const std::vector<std::vector<unsigned char>>& files, std::uint32_t n) {
  const image::processor processor(*s.served.images.processor);
  std::vector<image::patches> patches;
  for (const auto& file : files) patches.push_back(processor(file));
  std::vector<nn::image_patches> shown;
  for (const image::patches& p : patches) shown.push_back({{p.rows, p.columns}, p.values});
  std::vector<rollout::request> requests;
  for (std::uint32_t i = 0; i < n; ++i) requests.push_back({prompt, 0, i, shown, rlcore::random_key{3}});
  rollout::generation how;
  how.sampling.temperature = 0.9f, how.max_new_tokens = 12, how.eos_ids = s.served.eos_ids;
  nn::workspace<cpu> space(s.device);
  return rollout::generate(s.model, space, requests, how, rlcore::random_key{1}, [](std::size_t) {});
}

TEST(images, answers_are_those_of_the_closed_engine_and_the_tower_reads_once_for_all_choices) {
  seeing s;
  const std::vector<std::vector<unsigned char>> files{png(1), png(2, 40, 120)};
  const json answer = s.chat(question({url_of(files[0]), url_of(files[1])}, sampled(3)));
  EXPECT_EQ(s.images_read(), 2u);
  const auto expected = closed_answers(s, answer["prompt_token_ids"].get<token_list>(), files, 3);
  ASSERT_EQ(answer["choices"].size(), 3u);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(answer["choices"][i]["token_ids"].get<token_list>(), expected[i].tokens) << i;
  const auto swapped = closed_answers(s, answer["prompt_token_ids"].get<token_list>(), {files[0], png(7, 40, 120)}, 3);
  EXPECT_NE(swapped[0].tokens, expected[0].tokens) << "the image decides";
}

TEST(images, a_stream_has_the_text_of_the_body) {
  seeing s;
  json body = question({url_of(png(1))}, sampled());
  const json whole = s.chat(body);
  body["stream"] = true;
  const serving::http_response r = (*s.service)({"POST", "/v1/chat/completions", body.dump(), "application/json"});
  std::string text;
  r.stream([&](std::string_view event) {
    if (event == serving::done_event) return true;
    const json chunk = json::parse(event.substr(6));
    for (const json& choice : chunk["choices"]) text += choice["delta"].value("content", "");
    return true;
  });
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"]);
}

TEST(images, keys_and_values_of_an_image_are_found_again_and_those_of_another_are_not) {
  seeing s;
  // The words behind the image make the pages that hold it full ones.
  const std::string longer(80, 'x');
  const auto of = [&](std::uint32_t seed) { return s.chat(question({url_of(png(seed))}, sampled(), longer)); };
  const json first = of(1);
  EXPECT_EQ(s.images_read(), 1u);
  const std::uint64_t hits = s.engine->load().prefix_hits;
  EXPECT_EQ(of(1)["choices"], first["choices"]);
  EXPECT_EQ(s.images_read(), 1u) << "the tower did not read it again";
  EXPECT_GE(s.engine->load().prefix_hits, hits + 64);
  const json other = of(2);
  EXPECT_EQ(s.images_read(), 2u);
  EXPECT_EQ(other["prompt_token_ids"], first["prompt_token_ids"]) << "as many tokens";
  EXPECT_NE(other["choices"][0]["logprobs"], first["choices"][0]["logprobs"]);
  seeing fresh;
  EXPECT_EQ(fresh.chat(question({url_of(png(2))}, sampled(), longer))["choices"], other["choices"]);
}

TEST(images, the_kth_request_for_an_image_has_a_text_of_its_own) {
  const json plain{{"max_tokens", 12}, {"temperature", 1.2}};
  const auto texts = [&](const std::vector<std::uint32_t>& order) {
    seeing s;
    std::map<std::uint32_t, std::vector<json>> all;
    for (const std::uint32_t seed : order)
      all[seed].push_back(s.chat(question({url_of(png(seed))}, plain))["choices"][0]["message"]["content"]);
    return all;
  };
  const auto some = texts({1, 2, 1, 2}), others = texts({2, 2, 1, 1});
  EXPECT_EQ(some, others) << "whatever was asked about other images";
  EXPECT_NE(some.at(1)[0], some.at(1)[1]);
}

TEST(images, parts_may_be_written_in_several_ways) {
  seeing s;
  const std::string url = url_of(png(1));
  const json expected = s.chat(question({url}, sampled()))["choices"];
  const std::string digits = url.substr(url.find(',') + 1);
  std::string spaced;
  for (std::size_t i = 0; i < digits.size(); i += 57) spaced += digits.substr(i, 57) + "\r\n\t ";
  const std::vector<json> parts{
      image_model::shown("DATA:Image/PNG;BASE64," + digits),
      image_model::shown("data:;base64," + spaced),
      image_model::shown("data:image/jpeg;charset=x;base64," + digits),
      {{"type", "image_url"}, {"image_url", url}},
      {{"image_url", url}},
      {{"type", "input_image"}, {"image_url", url}, {"detail", "low"}},
      {{"type", "image_url"}, {"image_url", {{"url", url}, {"detail", "high"}}}, {"uuid", "a"}}};
  for (const json& part : parts) {
    json body = question({url}, sampled());
    body["messages"][0]["content"][0] = part;
    EXPECT_EQ(s.chat(body)["choices"], expected) << part.dump().substr(0, 80);
  }
}

TEST(images, an_open_last_message_ends_with_its_last_text) {
  seeing s;
  json body = question({url_of(png(1))});
  body["messages"].push_back(
      {{"role", "assistant"}, {"content", {image_model::words("It"), image_model::words(" is")}}});
  body["add_generation_prompt"] = false, body["continue_final_message"] = true;
  const token_list tokens = s.post("/tokenize", body)["tokens"];
  EXPECT_TRUE(s.served.tokenizer.decode(tokens).ends_with("<|im_start|>assistant\nIt is"));
  body["messages"].back()["content"].push_back(image_model::shown(url_of(png(1))));
  s.post("/tokenize", body, 400);
}

}  // namespace

#endif

}  // namespace RLCORE_TEST_ID
