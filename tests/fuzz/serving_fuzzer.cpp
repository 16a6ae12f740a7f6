// Bodies of requests to every endpoint that takes one, answered over an engine that repeats the prompt.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "fuzz/small_tokenizer.hpp"
#include "rlcore/serving/service.hpp"

namespace {

namespace serving = rlcore::serving;

class parrot final : public serving::generator {
 public:
  std::vector<rlcore::rollout::ticket> submit(std::vector<rlcore::rollout::job> jobs,
                                              std::shared_ptr<serving::job_listener> listener) override {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const auto length =
          std::min<std::size_t>(jobs[i].prompt.size(), static_cast<std::size_t>(jobs[i].max_new_tokens));
      if (jobs[i].prompt_logprobs)
        for (std::size_t t = 1; t < jobs[i].prompt.size(); ++t) listener->on_prompt(i, {jobs[i].prompt[t], -1.0f, {}});
      for (std::size_t t = 0; t < length; ++t) listener->on_token(i, {jobs[i].prompt[t], -1.0f, {}});
      listener->on_end(i, rlcore::rollout::finish::length);
    }
    return std::vector<rlcore::rollout::ticket>(jobs.size());
  }
  void cancel(rlcore::rollout::ticket) override {}
  serving::engine_load load() const override { return {}; }
};

const serving::served_model& model() {
  static const serving::served_model only = [] {
    serving::served_model m{.names = {"x"}, .folder = "x", .tokenizer = fuzzing::small_tokenizer()};
    m.chat = rlcore::text::chat_template::named("qwen3");
    m.eos_ids = {*m.tokenizer.id_of("<|im_end|>")};
    m.max_length = 2000, m.vocabulary = static_cast<std::int64_t>(m.tokenizer.vocab_size());
    m.features = {.tool_calls = true};
    m.reasoning = serving::reasoning_form::qwen3;
    return m;
  }();
  return only;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static parrot engine;
  static serving::context shared(model(), engine);
  static serving::service service(shared);
  std::string_view body = fuzzing::text_of(data, size);
  constexpr const char* paths[] = {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"};
  const char* path = paths[fuzzing::choice(body, 4)];
  const serving::http_response r = service({"POST", path, std::string(body), "application/json"});
  fuzzing::require(r.status == 200 || r.status == 400 || r.status == 404, "a body gives the status",
                   std::to_string(r.status) + " " + r.body);
  if (!r.stream) {
    const auto answer = serving::json::parse(r.body, nullptr, false);
    fuzzing::require(answer.is_object(), "an answer is no JSON:", r.body);
    if (r.status != 200) fuzzing::check_sentence(answer["error"]["message"].get<std::string>());
    return 0;
  }
  std::string last;
  r.stream([&](std::string_view event) {
    fuzzing::require(event.starts_with("data: ") && event.find('\n') == event.size() - 2, "an event has lines:", event);
    last = event;
    if (event != serving::done_event)
      fuzzing::require(!serving::json::parse(event.substr(6), nullptr, false).is_discarded(),
                       "an event is no JSON:", event);
    return true;
  });
  fuzzing::require(last == serving::done_event, "a stream ends with", last);
  return 0;
}
