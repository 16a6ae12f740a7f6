// Conversations equal to what transformers renders from the published templates (golden file of text_chat.py).
#include "rlcore/text/chat_template.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/text/chat_variables.hpp"
#include "rlcore/text/text_file.hpp"

namespace RLCORE_TEST_ID {

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

/// A conversation of the golden file. transformers hands the arguments of a call to the template as they are, a text
/// too; messages_from_json() reads a text that holds an object.
std::vector<text::message> conversation(const std::string& name) {
  auto messages = text::messages_from_json(golden()["conversations"][name]);
  for (std::size_t i = 0; i < messages.size(); ++i)
    for (std::size_t k = 0; k < messages[i].tool_calls.size(); ++k) {
      const json& call = golden()["conversations"][name][i]["tool_calls"][k];
      messages[i].tool_calls[k].arguments = (call.contains("function") ? call["function"] : call)["arguments"];
    }
  return messages;
}

class against_transformers : public testing::TestWithParam<const char*> {};

TEST_P(against_transformers, renders_equally) {
  const auto t = text::chat_template::named(GetParam());
  const json& cases = golden()["families"][GetParam()]["cases"];
  ASSERT_GE(cases.size(), 18u);
  for (const json& c : cases) {
    const auto name = c["name"].get<std::string>();
    const auto messages = conversation(name);
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

/// The golden cases of a family against its published text.
void renders_as_published(const text::chat_template& t, const std::string& family) {
  for (const json& c : golden()["families"][family]["cases"]) {
    text::render_options options{.add_generation_prompt = c["prompt"].get<bool>(), .enable_thinking = {}, .tools = {}};
    if (!c["think"].is_null()) options.enable_thinking = c["think"].get<bool>();
    if (c["tools"].get<bool>()) options.tools = golden()["tools"].get<std::vector<json>>();
    const auto name = c["name"].get<std::string>();
    EXPECT_EQ(t.render(conversation(name), options), c["text"].get<std::string>()) << family << ": " << name;
  }
}

/// What vLLM renders: it parses the text before the template sees it.
TEST(chat_template, arguments_that_are_json_text_are_not_quoted_again) {
  const json sent = json::parse(R"j([{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "",
      "tool_calls": [{"id": "c1", "type": "function",
                      "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}}]}])j");
  for (const char* family : {"qwen2.5", "qwen3", "minimind", "qwen2.5-vl-tools"})
    EXPECT_THAT(text::chat_template::named(family).render(text::messages_from_json(sent)),
                testing::HasSubstr(R"({"name": "weather", "arguments": {"city": "Oslo"}})"))
        << family;
  const auto read = [&](const json& arguments) {
    json changed = sent;
    changed[1]["tool_calls"][0]["function"]["arguments"] = arguments;
    return text::messages_from_json(changed)[1].tool_calls[0].arguments;
  };
  EXPECT_EQ(read("[1]"), json::array({1}));
  EXPECT_EQ(read("3"), json(3));
  EXPECT_EQ(read("Oslo"), json("Oslo")) << "no JSON";
  for (const json& none : {json(""), json("null"), json(nullptr)}) EXPECT_EQ(read(none), json::object()) << none;
}

TEST(chat_template, null_members_of_tables_are_dropped_at_any_depth) {
  const json read = json::parse(R"({"a": null, "b": [{"c": null, "d": 1}, null], "e": {"f": {"g": null}}})");
  EXPECT_EQ(text::without_null_members(read), json::parse(R"({"b": [{"d": 1}, null], "e": {"f": {}}})"));
  EXPECT_EQ(text::stored_messages({R"({"role": "user", "content": "x"})", {{"role", "tool"}, {"name", nullptr}}, "y"}),
            (json{{{"role", "user"}, {"content", "x"}}, {{"role", "tool"}}, "y"}));
}

TEST(chat_template, the_template_of_a_folder_is_rendered) {
  if (!fs::exists(shared / "tokenizer")) GTEST_SKIP() << "no shared data at " << shared;
  renders_as_published(text::chat_template::detect(shared / "tokenizer"), "minimind");
}

TEST(chat_template, published_texts_render_equally) {
  const char* folder = std::getenv("RLCORE_CHAT_TEMPLATES");  // the TEMPLATES folder of text_chat.py
  if (folder == nullptr) GTEST_SKIP() << "RLCORE_CHAT_TEMPLATES is not set";
  for (const char* name : {"qwen2", "qwen2.5", "qwen2.5-vl", "qwen3"}) {
    const std::string source = text::read_text_file(fs::path(folder) / (std::string(name) + ".jinja"));
    renders_as_published(text::chat_template::from_jinja(source), name);
  }
}

/// The variant with tools writes what both of its parents write, each with the other's default left out.
TEST(chat_template, tools_beside_images) {
  const auto both = text::chat_template::named("qwen2_5_vl_tools"), images = text::chat_template::named("qwen2_5_vl"),
             tools = text::chat_template::named("qwen2.5");
  text::message shown{"user", "<image>Which <image>?"};
  text::cut_at_image_marks(shown);
  ASSERT_EQ(shown.parts.size(), 4u);
  const std::vector<text::message> question{shown, {"assistant", "This."}}, alone{{"system", "S"}, shown};
  const text::render_options open{.add_generation_prompt = true},
      with_tools{.add_generation_prompt = true, .tools = {{{"name", "f"}}}};
  EXPECT_EQ(both.render(question, open), images.render(question, open));
  EXPECT_EQ(both.render(alone, open), images.render(alone, open));
  std::vector<text::message> words = alone;  // tools.render() takes no parts
  words[1].parts.clear();
  words[1].content = "<|vision_start|><|image_pad|><|vision_end|>Which <|vision_start|><|image_pad|><|vision_end|>?";
  EXPECT_EQ(both.render(alone, with_tools), tools.render(words, with_tools));
  EXPECT_THROW((void)images.render(alone, with_tools), rlcore::config_error);
  EXPECT_THROW((void)tools.render(alone, open), rlcore::data_error);
}

TEST(chat_template, some_take_parts_and_number_images) {
  text::message shown{"user", "<image>Which <image>?"};
  text::cut_at_image_marks(shown);
  const std::vector<text::message> turns{shown, {"assistant", "This."}, shown};
  const text::render_options numbered{.add_vision_id = true};
  for (const char* name : {"qwen2.5-vl", "qwen2.5-vl-tools"}) {
    const auto t = text::chat_template::named(name);
    EXPECT_TRUE(t.takes_parts()) << name;
    const std::string text = t.render(turns, numbered), one = "Picture 1: <|vision_start|><|image_pad|><|vision_end|>";
    EXPECT_NE(text.find(one + "Which Picture 2: <|vision_start|>"), text.npos) << text;
    EXPECT_NE(text.find("\nPicture 3: <|vision_start|>"), text.npos) << text;
  }
  for (const char* name : {"chatml", "qwen2.5", "qwen3", "minimind"})
    EXPECT_FALSE(text::chat_template::named(name).takes_parts()) << name;
  const auto printed = text::chat_template::from_jinja("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_FALSE(printed.takes_parts()) << "a list is printed, too, but not as its text";
  EXPECT_THROW((void)text::chat_template::named("qwen2.5").render(std::vector<text::message>{{"user", "x"}}, numbered),
               rlcore::config_error);
}

const std::vector<text::message> hello{{"user", "Hi"}};
constexpr std::string_view other_jinja =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";

TEST(chat_template, where_a_folder_keeps_its_template) {
  const scratch::folder place;
  const fs::path& folder = place.path();
  const std::string chatml(text::chatml_jinja), framed = "<|im_start|>user\nHi<|im_end|>\n";
  EXPECT_THROW((void)text::chat_template::detect(folder), rlcore::file_error);
  text::write_text_file(folder / "tokenizer_config.json", "{}");
  EXPECT_THROW((void)text::chat_template::detect(folder), rlcore::format_error);
  const nlohmann::json several = {
      {"bos_token", {{"content", "<s>"}}},
      {"chat_template",
       {{{"name", "tool_use"}, {"template", "{{ tools[0].name }}{{ messages[0].content }}"}},
        {{"name", "default"}, {"template", std::string(other_jinja)}}}}};
  text::write_text_file(folder / "tokenizer_config.json", several.dump());
  EXPECT_EQ(text::chat_template::detect(folder).render(hello), "<s>[user]Hi");
  EXPECT_EQ(text::chat_template::detect(folder).render(hello, {.tools = {{{"name", "f"}}}}), "fHi");
  text::write_text_file(folder / "chat_template.jinja", chatml);
  EXPECT_EQ(text::chat_template::detect(folder).render(hello), framed);
  // A setting: nothing, a file, Jinja text, a family.
  text::write_text_file(folder / "other.jinja", other_jinja);
  const auto chosen = [&](const std::string& setting) {
    return text::chat_template::chosen(setting, folder, "rlcore.chat_template").render(hello);
  };
  EXPECT_EQ(chosen(""), framed);
  EXPECT_EQ(chosen((folder / "other.jinja").string()), "<s>[user]Hi");
  EXPECT_EQ(chosen(std::string(other_jinja)), "<s>[user]Hi");
  EXPECT_EQ(chosen("chatml"), framed);
  // What a processor of images keeps comes first.
  text::write_text_file(folder / "chat_template.json", nlohmann::json{{"chat_template", other_jinja}}.dump());
  EXPECT_EQ(chosen(""), "<s>[user]Hi");
  text::write_text_file(folder / "chat_template.json", "{}");
  EXPECT_THROW((void)text::chat_template::detect(folder), rlcore::format_error);
  scratch::error_of<rlcore::config_error>([&] { chosen("qwen2_5"); },
                                          {"rlcore.chat_template: ", "did you mean 'qwen2.5'", "a file"});
}

TEST(chat_template, what_cannot_be_read_names_the_line_and_the_key_that_helps) {
  scratch::error_of<rlcore::format_error>(
      [] {
        text::chat_template::from_jinja("{% for m in messages %}\n{{ m.content | titel }}{% endfor %}", "m/config");
      },
      {"m/config: line 2: unknown filter 'titel' (did you mean 'title'?)", "--tokenizer_chat_template",
       "rlcore.chat_template"});
  scratch::error_of<rlcore::data_error>(
      [] { (void)text::chat_template::from_jinja("{{ raise_exception('no ' ~ 'way') }}").render(hello); },
      {"chat template: line 1: no way"});
}

TEST(chat_template, other_keys_of_messages_reach_the_template) {
  const auto messages = text::messages_from_json(json::parse(
      R"([{"role": "user", "name": "bob", "content": "q", "nothing": null},
          {"role": "assistant", "tool_calls": [{"id": "i1", "function": {"name": "f", "arguments": {"b": 1, "a": 2}}}]}])"));
  const auto t = text::chat_template::from_jinja(
      "{% for m in messages %}{{ m.name }}{{ m.nothing is defined }}{% for c in m.tool_calls %}{{ c.id }} {{ c.type }} "
      "{{ c.function.arguments | tojson }}{% endfor %}{{ m.content }};{% endfor %}");
  EXPECT_EQ(t.render(messages), "bobFalseq;Falsei1 function {\"b\": 1, \"a\": 2};");
}

/// The text that `t` says the assistant wrote.
std::vector<std::string> written(const text::chat_template& t, const std::vector<text::message>& messages) {
  std::vector<text::written_bytes> places;
  const std::string all = t.render(messages, {}, places);
  std::vector<std::string> parts;
  for (const auto& [begin, end] : places) parts.push_back(all.substr(begin, end - begin));
  return parts;
}

TEST(chat_template, what_the_assistant_wrote) {
  const std::vector<text::message> turns{
      {"system", "S"}, {"user", "Hi"}, {"assistant", "A\n"}, {"user", "B"}, {"assistant", "C"}};
  using strings = std::vector<std::string>;
  // From what a loop writes for a message behind the text of add_generation_prompt.
  EXPECT_EQ(written(text::chat_template::named("chatml"), turns), (strings{"A\n<|im_end|>", "C<|im_end|>"}));
  EXPECT_EQ(written(text::chat_template::from_jinja(
                        "<s>{% for m in messages %}<{{ m.role }}>\n\n{{ m.content | trim }}</t>{% endfor %}"
                        "{% if add_generation_prompt %}<assistant>\n\n<think>\n{% endif %}"),
                    turns),
            (strings{"A</t>", "C</t>"}));
  EXPECT_EQ(written(text::chat_template::from_jinja(
                        "{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content }}</s>{% else %}[INST] {{ "
                        "m.content }} [/INST]{% endif %}{% endfor %}"),
                    turns),
            (strings{" A\n</s>", " C</s>"}));
  // From tags.
  EXPECT_EQ(
      written(
          text::chat_template::from_jinja(
              "{% for m in messages %}{{ m.role }}:{% generation %}{% if m.role == 'assistant' %}{{ m.content "
              "}}.{% endif %}{% endgeneration %}{% if m.role != 'assistant' %}{{ m.content }}{% endif %}{% endfor %}"),
          turns),
      (strings{"", "", "A\n.", "", "C."}));
  // Where it cannot be told.
  scratch::error_of<rlcore::data_error>(
      [&] {
        written(text::chat_template::from_jinja("{% for i in range(messages | length) %}{{ messages[i].role }}: {{ "
                                                "messages[i].content }}{% endfor %}"),
                turns);
      },
      {"messages[2]", "does not show which text the assistant wrote", "{% generation %}", "--tokenizer_chat_template"});
}

TEST(chat_template, what_has_no_place_is_refused) {
  const auto qwen2 = text::chat_template::named("qwen2"), qwen3 = text::chat_template::named("qwen3");
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
}  // namespace RLCORE_TEST_ID
