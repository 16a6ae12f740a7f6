// A chat template, and behind a line "=====" the messages of a conversation as JSON.
#include "fuzz/fuzzing.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/parse_json.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace x = rlcore::text;
  const auto parts = fuzzing::two_texts(fuzzing::text_of(data, size));
  const std::string_view jinja = parts.first, json = parts.second;
  std::vector<x::message> messages{{"system", "Be brief."}, {"user", "Hi"}, {"assistant", "<think>\nso\n</think>\nHo"}};
  fuzzing::accepts([&] {
    if (!json.empty())
      messages = x::messages_from_json(x::parse_json<rlcore::data_error, nlohmann::ordered_json>(json, "x"));
  });
  if (messages.empty()) return 0;
  std::optional<x::chat_template> t;
  x::jinja::dictionary tokens;
  tokens.set("bos_token", std::string("<s>"));
  tokens.set("eos_token", std::string("</s>"));
  if (!fuzzing::accepts([&] { t = x::chat_template::from_jinja(jinja, "x.jinja", tokens); })) return 0;
  for (const bool open : {false, true}) {
    x::render_options options{.add_generation_prompt = open};
    if (open) options.tools = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
    fuzzing::accepts([&] { t->render(messages, options); });
  }
  fuzzing::accepts([&] {
    std::vector<x::written_bytes> written;
    const std::string text = t->render(messages, {}, written);
    std::size_t at = 0;
    for (const x::written_bytes& w : written) {
      fuzzing::require(at <= w.begin && w.begin <= w.end && w.end <= text.size(), "turns that overlap or pass the end");
      at = w.end;
    }
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
