// Conversations equal to what transformers renders from the published templates (golden file of text_chat.py).
#include "rlcore/text/chat_template.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/text/text_file.hpp"

namespace fs = std::filesystem;
namespace text = rlcore::text;
using json = nlohmann::ordered_json;

namespace {

const fs::path reference = RLCORE_REFERENCE_DIR;
const fs::path shared = RLCORE_SHARED_DIR;

const json& golden() {
  static const json g = json::parse(text::read_text_file(reference / "text_chat.json"));
  return g;
}

class against_transformers : public testing::TestWithParam<const char*> {};

TEST_P(against_transformers, renders_equally) {
  const auto t = text::chat_template::named(GetParam());
  EXPECT_EQ(t.family(), GetParam());
  const json& cases = golden()["families"][GetParam()]["cases"];
  ASSERT_GE(cases.size(), 18u);
  for (const json& c : cases) {
    const auto name = c["name"].get<std::string>();
    auto messages = text::messages_from_json(golden()["conversations"][name]);
    text::render_options options{.add_generation_prompt = c["prompt"].get<bool>(), .enable_thinking = {}, .tools = {}};
    if (!c["think"].is_null()) options.enable_thinking = c["think"].get<bool>();
    if (c["tools"].get<bool>()) options.tools = golden()["tools"].get<std::vector<json>>();
    EXPECT_EQ(t.render(messages, options), c["text"].get<std::string>()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(families, against_transformers,
                         testing::Values("chatml", "qwen2", "qwen2.5", "qwen2.5-vl", "qwen3", "minimind"),
                         [](const auto& i) {
                           std::string name = i.param;
                           for (char& c : name) c = c == '.' || c == '-' ? '_' : c;
                           return name;
                         });

TEST(chat_template, specification_of_the_default_system_turns) {
  const std::vector<text::message> hello{{"user", "Hi"}};
  const text::render_options open{.add_generation_prompt = true, .enable_thinking = {}, .tools = {}};
  const std::string rest = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(
      text::chat_template::named("qwen2.5").render(hello, open),
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n" + rest);
  EXPECT_EQ(text::chat_template::named("qwen2").render(hello, open),
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" + rest);
  EXPECT_EQ(text::chat_template::named("qwen3").render(hello, open), rest);
  auto quick = open;
  quick.enable_thinking = false;
  EXPECT_EQ(text::chat_template::named("qwen3").render(hello, quick), rest + "<think>\n\n</think>\n\n");
  EXPECT_EQ(text::chat_template::named("qwen2").render(hello, quick),
            text::chat_template::named("qwen2").render(hello, open));
}

TEST(chat_template, the_shared_folder_and_a_template_file_are_recognised) {
  if (!fs::exists(shared / "tokenizer")) GTEST_SKIP() << "no shared data at " << shared;
  EXPECT_EQ(text::chat_template::detect(shared / "tokenizer").family(), "minimind");
  // Qwen3's template of July 2025 is minimind's with two places changed.
  auto source = nlohmann::json::parse(text::read_text_file(shared / "tokenizer/tokenizer_config.json"))
                    .at("chat_template")
                    .get<std::string>();
  const auto replace = [&](const std::string& what, const std::string& with) {
    ASSERT_NE(source.find(what), std::string::npos);
    source.replace(source.find(what), what.size(), with);
  };
  replace("{%- if true %}",
          "{%- if loop.index0 > ns.last_query_index %}\n{%- if loop.last or (not loop.last and "
          "reasoning_content) %}");
  replace("content.lstrip('\\n') }}\n        {%- endif %}",
          "content.lstrip('\\n') }}\n{%- else %}\n{{- '<|im_start|>' + message.role + '\\n' + content }}\n"
          "{%- endif %}\n{%- else %}\n{{- '<|im_start|>' + message.role + '\\n' + content }}\n{%- endif %}");
  replace("{%- if open_thinking is defined and open_thinking is true %}\n        {{- '<think>\\n' }}\n    {%- else %}",
          "{%- if enable_thinking is defined and enable_thinking is false %}");
  EXPECT_EQ(text::chat_template::from_jinja(source).family(), "qwen3");
  const scratch::folder place;
  const fs::path& folder = place.path();
  text::write_text_file(folder / "chat_template.jinja", source);
  EXPECT_EQ(text::chat_template::detect(folder).family(), "qwen3");
  fs::remove(folder / "chat_template.jinja");
  const nlohmann::json several = {
      {"chat_template",
       {{{"name", "other"}, {"template", "x"}}, {{"name", "default"}, {"template", std::string(text::chatml_jinja)}}}}};
  text::write_text_file(folder / "tokenizer_config.json", several.dump());
  EXPECT_EQ(text::chat_template::detect(folder).family(), "chatml");
  text::write_text_file(folder / "tokenizer_config.json", "{}");
  EXPECT_THROW((void)text::chat_template::detect(folder), rlcore::format_error);
  fs::remove_all(folder);
  EXPECT_THROW((void)text::chat_template::detect(folder), rlcore::file_error);
}

TEST(chat_template, published_texts_are_recognised) {
  const char* folder = std::getenv("RLCORE_CHAT_TEMPLATES");  // the TEMPLATES folder of text_chat.py
  if (folder == nullptr) GTEST_SKIP() << "RLCORE_CHAT_TEMPLATES is not set";
  for (const char* name : {"qwen2", "qwen2.5", "qwen2.5-vl", "qwen3"}) {
    const std::string source = text::read_text_file(fs::path(folder) / (std::string(name) + ".jinja"));
    const auto t = text::chat_template::from_jinja(source);
    EXPECT_EQ(t.family(), name);
    const std::vector<text::message> hello{{"user", "Hi"}};
    EXPECT_EQ(t.render(hello), text::chat_template::named(name).render(hello));
    // Another default system turn is followed; any other change is not.
    std::string other = source, system = "You are a helpful assistant.";
    for (auto at = other.find(system); at != std::string::npos; at = other.find(system, at + 1))
      other.replace(at, system.size(), "Be kind.");
    if (other != source) {
      EXPECT_NE(text::chat_template::from_jinja(other).render(hello).find("Be kind.<|im_end|>"), std::string::npos);
    }
    other = source;
    other.replace(other.rfind("assistant"), 9, "Assistant");
    EXPECT_THROW((void)text::chat_template::from_jinja(other), rlcore::format_error);
  }
}

TEST(chat_template, spelling_of_a_template_does_not_matter) {
  const std::string same =
      "{%- for turn in messages -%}\n  {{- \"<|im_start|>\" + turn['role'] + '\n' + turn[\"content\"] + "
      "'<|im_end|>\\n' -}}\n{%- endfor -%}\n{%- if add_generation_prompt -%}\n  {{- '<|im_start|>assistant\\n' }}\n"
      "{%- endif %}\n";
  EXPECT_EQ(text::jinja_form(same), text::jinja_form(text::chatml_jinja));
  EXPECT_EQ(text::chat_template::from_jinja(same).family(), "chatml");
  EXPECT_NE(text::jinja_form("{{ a }}\n{{ b }}"), text::jinja_form("{{ a }}{{ b }}"));  // a printed new line
  EXPECT_EQ(text::jinja_form("{% if a %}\n  {% endif %}x"), text::jinja_form("{%if a%}{% endif %}{# note #}x"));
  EXPECT_NE(text::jinja_form("{{ ab }}"), text::jinja_form("{{ a b }}"));
}

TEST(chat_template, unknown_templates_and_names_say_what_is_known) {
  try {
    (void)text::chat_template::from_jinja("{{ bos_token }}[INST] {{ messages[0].content }} [/INST]", "m/config");
    FAIL();
  } catch (const rlcore::format_error& e) {
    EXPECT_STREQ(e.what(),
                 "m/config: not one of the known chat templates; known: chatml, qwen2, qwen2.5, qwen2.5-vl, qwen3, "
                 "minimind; choose one by name (chat_template::named)");
  }
  try {
    (void)text::chat_template::named("qwen2_5");
    FAIL();
  } catch (const rlcore::config_error& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'qwen2.5'"), std::string::npos) << e.what();
  }
}

TEST(chat_template, what_has_no_place_is_refused) {
  const auto qwen2 = text::chat_template::named("qwen2"), qwen3 = text::chat_template::named("qwen3");
  const std::vector<text::message> hello{{"user", "Hi"}};
  EXPECT_THROW((void)qwen2.render({}), std::invalid_argument);
  EXPECT_THROW((void)qwen2.render(hello, {.add_generation_prompt = false, .enable_thinking = true, .tools = {}}),
               rlcore::config_error);
  EXPECT_THROW((void)qwen2.render(hello, {.add_generation_prompt = false, .enable_thinking = {}, .tools = {json()}}),
               rlcore::config_error);
  const std::vector<text::message> thoughts{{"user", "Hi"}, {"assistant", "A", "because"}};
  EXPECT_THROW((void)qwen2.render(thoughts), rlcore::data_error);
  EXPECT_THROW((void)text::chat_template::named("qwen2.5").render(thoughts), rlcore::data_error);
  const std::vector<text::message> role{{"human", "Hi"}};
  EXPECT_THROW((void)qwen3.render(role), rlcore::data_error);
  EXPECT_EQ(qwen2.render(role),
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>human\nHi"
            "<|im_end|>\n");  // this template takes any role
  const std::vector<text::message> calls{{"user", "Hi"}, {"assistant", "", {}, {{"f", json::object()}}}};
  EXPECT_THROW((void)qwen2.render(calls), rlcore::data_error);
}

TEST(message, from_json_names_the_broken_place) {
  const auto fails = [](const char* j, const char* part) {
    try {
      (void)text::messages_from_json(json::parse(j));
      ADD_FAILURE() << j;
    } catch (const rlcore::data_error& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  fails(R"({"role": "user"})", "messages: expected a list, found object");
  fails(R"(["x"])", "messages[0]: expected an object");
  fails(R"([{"role": "user", "content": "a"}, {"content": "b"}])", "messages[1].role");
  fails(R"([{"role": "user", "content": [{"type": "image"}]}])", "messages[0].content: expected a string, found array");
  fails(R"([{"role": "assistant", "tool_calls": [{"name": 3, "arguments": {}}]}])", "messages[0].tool_calls");
}

}  // namespace
