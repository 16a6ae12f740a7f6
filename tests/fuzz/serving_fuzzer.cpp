// Bodies of requests to every endpoint that takes one, answered over an engine that repeats the prompt; some by a model
// that reads images. Weights are changed in name only.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "fuzz/small_tokenizer.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/serving/service.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace serving = rlcore::serving;

class parrot final : public serving::generator {
 public:
  std::vector<rlcore::rollout::ticket> submit(std::vector<rlcore::rollout::job> jobs,
                                              std::shared_ptr<serving::job_listener> listener) override {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      check_images(jobs[i]);
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

 private:
  /// There are as many image tokens as the images have cells, and the floats of each.
  static void check_images(const rlcore::rollout::job& j) {
    std::int64_t cells = 0;
    for (const rlcore::nn::image_patches& p : j.images) {
      cells += p.grid.height * p.grid.width / 4;
      fuzzing::require(std::ssize(p.patches) == p.grid.height * p.grid.width * 1176, "an image has other floats");
    }
    const auto token = fuzzing::image_tokenizer().id_of("<|image_pad|>");
    const auto found = j.images.empty() ? 0 : std::count(j.prompt.begin(), j.prompt.end(), *token);
    fuzzing::require(found == cells, "other image tokens than the images have");
  }
};

/// Takes every weight and adapter.
class willing_control final : public serving::weight_control {
 public:
  using connection = std::function<bool()>;
  void load_adapter(const std::string& name, const std::string& path, bool, const connection&) override {
    fuzzing::require(!name.empty() && !path.empty(), "an adapter without a name or a path");
  }
  void unload_adapter(const std::string& name) override {
    fuzzing::require(!name.empty(), "an adapter without a name");
  }
  void update_weights(const std::string& path, bool, const connection&) override {
    fuzzing::require(!path.empty(), "weights without a path");
  }
  void sleep(const connection&) override {}
  void wake_up() override {}
  bool sleeping() const override { return false; }
  void forget_prefixes() override {}
};

const serving::served_model& model() {
  static const serving::served_model only = [] {
    serving::served_model m{.names = {"x"}, .folder = "x", .tokenizer = fuzzing::small_tokenizer()};
    m.chat = rlcore::text::chat_template::named("qwen3");
    m.eos_id = m.tokenizer.id_of("<|im_end|>"), m.eos_ids = {*m.eos_id};
    m.max_length = 2000, m.vocabulary = static_cast<std::int64_t>(m.tokenizer.vocab_size());
    m.features = {.tool_calls = true};
    m.reasoning = serving::reasoning_form::qwen3;
    return m;
  }();
  return only;
}

/// The same with images.
const serving::served_model& seeing_model() {
  static const serving::served_model only = [] {
    serving::served_model m{.names = {"x"}, .folder = "x", .tokenizer = fuzzing::image_tokenizer()};
    m.chat = rlcore::text::chat_template::named("qwen2.5-vl");
    m.eos_id = m.tokenizer.id_of("<|im_end|>"), m.eos_ids = {*m.eos_id};
    m.max_length = 2000, m.vocabulary = static_cast<std::int64_t>(m.tokenizer.vocab_size());
    m.features = {.request_templates = true, .images = true, .most_images = 3};
    rlcore::image::processor_settings& images = m.images.processor.emplace();
    images.min_pixels = 784, images.max_pixels = 3136;  // small, for many inputs a second
    images.decode.max_pixels = 1 << 14;
    m.images.token = *m.tokenizer.id_of("<|image_pad|>");
    m.images.cache =
        std::make_shared<rlcore::data::image_cache>(rlcore::image::processor(*m.images.processor), std::size_t{0});
    m.local_files = fuzzing::folder();
    m.max_image_tokens = 10;
    return m;
  }();
  return only;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static parrot engine;
  static serving::context words(model(), engine), images(seeing_model(), engine);
  static willing_control weights;
  static serving::service reading(words, {}, {}, {&weights, true, true}), seeing(images);
  std::string_view body = fuzzing::text_of(data, size);
  constexpr const char* paths[] = {"/v1/completions",       "/v1/chat/completions",    "/tokenize",
                                   "/detokenize",           "/v1/chat/completions",    "/tokenize",
                                   "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/update_weights"};
  const std::size_t chosen = fuzzing::choice(body, 9);
  serving::service& service = chosen == 4 || chosen == 5 ? seeing : reading;
  const serving::http_response r = service({"POST", paths[chosen], std::string(body), "application/json"});
  fuzzing::require(r.status == 200 || r.status == 400 || r.status == 404, "a body gives the status",
                   std::to_string(r.status) + " " + r.body);
  if (r.content_type.starts_with("text/plain")) return 0;
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

}  // namespace RLCORE_TEST_ID
