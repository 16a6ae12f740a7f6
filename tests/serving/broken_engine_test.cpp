// What breaks an engine, and what mends it: a pass that throws, a row that is not finite, weights that are not finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/session_engine.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "serving/adapter_folder.hpp"
#include "serving/server_process.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace serving = rlcore::serving;
using namespace std::chrono_literals;
using rlcore::any_device;
using serving::json;
using testing::HasSubstr;

struct broken_engine : testing::Test {
  inline static std::unique_ptr<scratch::folder> place;
  static std::filesystem::path at(const std::string& name) { return *place / name; }
  static void SetUpTestSuite() {
    place = std::make_unique<scratch::folder>();
    save_model("good", [](rlcore::nn::causal_lm<any_device>&) {});
    for (const auto& [name, value] :
         {std::pair{"nan", std::nanf("")}, {"infinite", -std::numeric_limits<float>::infinity()}, {"huge", 3e38f}})
      save_model(name, [value = value](auto& model) {
        const auto norm = std::ranges::find(model.parameters(), "model.norm.weight", &rlcore::nn::parameter::name);
        if (!(value > 1e30f)) {
          model.weights().data()[norm->offset + 2] = value;
        } else {  // finite, and too large for any state
          std::fill_n(model.weights().data() + norm->offset, norm->size, value);
        }
      });
    save_adapter(at("adapter"), at("good"), 1);
  }
  static void TearDownTestSuite() { place.reset(); }

  template <class Change>
  static void save_model(const std::string& name, Change&& change) {
    std::filesystem::create_directories(at(name));
    tiny_model::save_tokenizer(at(name));
    tiny_model::save_weights(at(name), 3);
    rlcore::any_device_of<rlcore::cpu> device(1);
    rlcore::nn::causal_lm<any_device> model(device, rlcore::checkpoint::read_config(at(name)));
    rlcore::train::load_model(model, at(name));
    change(model);
    rlcore::checkpoint::save_weights(at(name), model.parameters(),
                                     rlcore::train::to_host(model.device(), model.weights()));
  }
};

std::pair<int, std::string> answer(const server_process& s, const std::string& path, const std::string& body) {
  const auto r = s.client().Post(path.c_str(), body, "application/json");
  return r ? std::pair{r->status, r->body} : std::pair{0, std::string("no answer")};
}
std::string message_of(const std::string& body) { return json::parse(body)["error"]["message"].get<std::string>(); }
std::string update_to(const std::filesystem::path& folder) { return json{{"model", folder}}.dump(); }

const std::string request = R"({"prompt": "b", "max_tokens": 30, "seed": 2, "ignore_eos": true})";

/// A device that cannot draw while it is told so.
class failing_cpu : public rlcore::cpu {
 public:
  explicit failing_cpu(const bool& fails) : cpu(1), fails_(fails) {}
  using cpu::run;
  void run(const rlcore::op::sample& o) {
    if (fails_) throw rlcore::error("the card is gone");
    cpu::run(o);
  }

 private:
  const bool& fails_;
};

TEST_F(broken_engine, starts_anew_after_a_pass_that_throws) {
  bool fails = false;
  rlcore::any_device_of<failing_cpu> device(fails);
  rlcore::nn::causal_lm<any_device> model(device, rlcore::checkpoint::read_config(at("good")));
  rlcore::train::load_model(model, at("good"));
  rlcore::nn::workspace<any_device> space(device);
  rlcore::rollout::session_limits limits;
  limits.max_cache_bytes = std::size_t{1} << 20;
  serving::engine_thread thread;
  std::vector<std::string> failed;
  serving::session_engine<any_device> engine(model, space, limits, thread,
                                             [&](const std::string& why) { failed.push_back(why); });
  rlcore::rollout::job job;
  job.prompt = {1, 2, 3}, job.max_new_tokens = 20, job.sampling.temperature = 0;
  const auto ask = [&] {
    const auto to = std::make_shared<serving::inbox>();
    engine.submit({job}, to);
    std::vector<std::int32_t> tokens;
    for (;;) {
      const auto message = to->take(20s);
      if (!message) return std::pair{tokens, std::string("nothing came")};
      if (const auto* end = std::get_if<serving::inbox::end_report>(&message->what))
        return std::pair{tokens, end->problem};
      tokens.push_back(std::get<serving::inbox::token_report>(message->what).token.id);
    }
  };
  const auto before = ask();
  EXPECT_EQ(before.first.size(), 20u);
  EXPECT_EQ(before.second, "");
  for (int round = 0; round < 3; ++round) {
    thread.run([&] { fails = true; });
    EXPECT_EQ(ask(), (std::pair{std::vector<std::int32_t>{}, std::string("the card is gone")}));
    thread.run([&] { fails = false; });
    EXPECT_FALSE(engine.load().broken);
    EXPECT_EQ(ask(), before);
  }
  thread.run([&] { EXPECT_EQ(failed, std::vector<std::string>(3, "the card is gone")); });
}

TEST_F(broken_engine, weights_that_are_not_finite_are_refused) {
  const server_process s(at("good"), {"--enable-dev-endpoints", "--enable-lora"});
  const std::string before = s.text(request);
  for (const auto& [name, value] : {std::pair{"nan", "NaN"}, {"infinite", "infinity"}}) {
    const auto [status, body] = answer(s, "/update_weights", update_to(at(name)));
    EXPECT_EQ(status, 400) << body;
    EXPECT_EQ(message_of(body), at(name).string() + ": tensor 'model.norm.weight' has the value " + value +
                                    "; expected finite weights: the file is damaged, or its training has diverged");
    EXPECT_EQ(s.client().Get("/health")->status, 200);
    EXPECT_EQ(s.text(request), before);
    server_program program({"--model", at(name).string(), "--port", "0"});
    EXPECT_EQ(program.end_within(30s), "exit code 1");
    EXPECT_THAT(program.err(), HasSubstr(std::string("tensor 'model.norm.weight' has the value ") + value));
  }
}

/// What overflows is not in the file: the answers say so, each for itself, until there are other weights.
TEST_F(broken_engine, heals_with_good_weights) {
  const server_process good(at("good"));
  const std::string expected = good.text(request);
  const server_process s(at("good"), {"--enable-dev-endpoints"});
  EXPECT_EQ(answer(s, "/update_weights", update_to(at("huge"))).first, 200);
  for (int i = 0; i < 3; ++i) {
    const auto [status, body] = answer(s, "/v1/completions", request);
    EXPECT_EQ(status, 500) << body;
    EXPECT_THAT(message_of(body), HasSubstr("the logits before token 0 of the answer are not finite"));
    EXPECT_EQ(s.client().Get("/health")->status, 200);
  }
  EXPECT_EQ(answer(s, "/update_weights", update_to(at("good"))).first, 200);
  EXPECT_EQ(s.text(request), expected);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
